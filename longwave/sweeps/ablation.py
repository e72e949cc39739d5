"""The paper's ablation of initialisations as a sweep: how large a random A may be, and the figures."""

import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from longwave.data import files
from longwave.experiments import Experiment
from longwave.pictures.curves import COLOURS, Curve, Panel, draw_panels
from longwave.sweeps.folder import Row, SweepFolder
from longwave.tasks.base import Task
from longwave.train.folder import RunFolder
from longwave.train.loop import Diverged, Run
from longwave.train.order import epoch_batches

STEPS = 500  # that have to stay finite
SMALLEST = 2.0**-12
PREFIX, SMALL = "ablation-", "-small"
LABELS = {
    "dense-hippo": "HiPPO, dense",
    "dense-random": "random, dense",
    "diagonal-random": "random, diagonal",
    "nplr-hippo": "HiPPO, NPLR (S4)",
    "nplr-random": "random, NPLR",
}
COLOUR_OF = dict(zip(LABELS, COLOURS, strict=False))


def largest_sigma(
    experiment: Experiment,
    task: Task,
    *,
    steps: int = STEPS,
    device: str = "auto",
    say: Callable[[str], None] = lambda text: None,
) -> float:
    """The largest of 1, 1/2, 1/4, ... at which so many steps of training stay finite from a random A of that size."""
    sigma = 1.0
    while sigma >= SMALLEST:
        say(f"{experiment.name}: trying sigma {sigma:g} for {steps} steps")
        if stays_finite(with_sigma(experiment, sigma), task, steps, device):
            return sigma
        sigma /= 2
    raise ValueError(
        f"{experiment.name}: no step stays finite, down to sigma {SMALLEST:g}; a smaller optim.lr may help"
    )


def stays_finite(experiment: Experiment, task: Task, steps: int, device: str = "auto") -> bool:
    """Whether so many steps of training have finite losses and leave finite weights."""
    experiment = replace(experiment, model=experiment.model.resolve(task.spec))
    loop = experiment.loop
    with tempfile.TemporaryDirectory() as folder:
        run = Run(RunFolder.create(folder, experiment, task, None), task, quiet=True, device=device)
        taken = epoch = 0
        while taken < steps:
            split = task.train_at(epoch, loop.seed)
            for indices in epoch_batches(len(task.train), loop.batch_size, loop.seed, epoch)[: steps - taken]:
                batch = {name: values.to(run.accelerator.device) for name, values in split.batch(indices).items()}
                try:
                    run.step(batch)
                except Diverged:
                    return False
                taken += 1
            epoch += 1
        return all(bool(torch.isfinite(p).all()) for p in run.model.parameters())


def with_sigma(experiment: Experiment, sigma: float) -> Experiment:
    """The experiment with a random A of that size."""
    model: Any = experiment.model
    return replace(experiment, model=replace(model, mixer=replace(model.mixer, sigma=sigma)))


def is_random(experiment: Experiment) -> bool:
    """Whether A is drawn at random without a structure that keeps it stable, so that its size has to be found."""
    return "-random" in experiment.name and hasattr(getattr(experiment.model, "mixer", None), "sigma")


def with_found_sigmas(
    experiments: Sequence[Experiment],
    folder: Path,
    data_dir: Path | None,
    *,
    sigma: float | None = None,
    device: str = "auto",
    say: Callable[[str], None] = lambda text: None,
) -> tuple[list[Experiment], dict[str, float]]:
    """The experiments with the size of each random A, which is searched for once for each structure; and these sizes.

    It is that at which the trained one stays finite, without dropout; frozen ones, and those with dropout, have the
    same. What was found is kept in sigma.json in the folder.
    """
    path = folder / "sigma.json"
    found: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    changed: list[Experiment] = []
    for experiment in experiments:
        if not is_random(experiment):
            changed.append(experiment)
            continue
        model: Any = experiment.model
        structure = model.mixer.structure
        if structure not in found:
            found[structure] = sigma if sigma is not None else _search(experiment, data_dir, device, say)
            folder.mkdir(parents=True, exist_ok=True)
            files.write_json(path, found)
        changed.append(with_sigma(experiment, found[structure]))
    return changed, found


def _search(experiment: Experiment, data_dir: Path | None, device: str, say: Callable[[str], None]) -> float:
    model: Any = experiment.model
    trained = replace(model, dropout=0.0, mixer=replace(model.mixer, trainable=True))
    return largest_sigma(replace(experiment, model=trained), experiment.task.build(data_dir), device=device, say=say)


# What was found


def variant(name: str) -> tuple[str, bool, bool]:
    """The row of the paper that an experiment belongs to, whether A is frozen, and whether there is dropout."""
    text = name.removeprefix(PREFIX).removesuffix(SMALL)
    row = text.removesuffix("-frozen").removesuffix("-dropout")
    return row, text.endswith("-frozen"), text.endswith("-dropout")


def last_train_accuracy(sweep: SweepFolder, row: Row) -> float | None:
    """The accuracy in training, over the last epoch, as a mean over the seeds."""
    logged = [sweep.curves(member) for member in row.members]
    values = [lines[-1]["train_accuracy"] for lines in logged if lines and "train_accuracy" in lines[-1]]
    return statistics.mean(values) if values else None


def draw_ablation(sweep: SweepFolder) -> Path | None:
    """Draw ablation.png, the paper's figures: train and validation accuracy over epochs; None if nothing was run."""
    panels = [
        panel
        for panel in (
            _panel(sweep, "Unconstrained: training", "train_accuracy", _is_unconstrained),
            _panel(sweep, "Unconstrained: validation", "valid_accuracy", _is_unconstrained),
            _panel(sweep, "NPLR: training", "train_accuracy", lambda row, dropout: "nplr" in row and not dropout),
            _panel(sweep, "NPLR: validation", "valid_accuracy", lambda row, dropout: "nplr" in row and not dropout),
            _panel(sweep, "Dropout 0.1: training", "train_accuracy", lambda row, dropout: dropout),
            _panel(sweep, "Dropout 0.1: validation", "valid_accuracy", lambda row, dropout: dropout),
        )
        if panel.curves
    ]
    if not panels:
        return None
    path = sweep.path / "ablation.png"
    draw_panels(panels, path, columns=2)
    return path


def _is_unconstrained(row: str, dropout: bool) -> bool:
    return "nplr" not in row and not dropout


def _panel(sweep: SweepFolder, title: str, score: str, is_shown: Callable[[str, bool], bool]) -> Panel:
    curves = []
    for member in sweep.members:
        row, is_frozen, has_dropout = variant(member.experiment.name)
        logged = [line for line in sweep.curves(member) if score in line]
        if is_shown(row, has_dropout) and logged:
            name = f"{LABELS.get(row, row)}{', frozen' if is_frozen else ''}"
            colour, style = COLOUR_OF.get(row, COLOURS[-1]), "--" if is_frozen else "-"
            curves.append(Curve(name, [x["epoch"] for x in logged], [x[score] for x in logged], colour, style))
    return Panel(title, "epoch", "accuracy", curves)
