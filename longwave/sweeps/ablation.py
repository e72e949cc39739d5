"""The paper's ablation of initialisations as a sweep: how large a random A may be, and the figures."""

import functools
import math
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from longwave.core import files, terminal
from longwave.core.settings import typed
from longwave.experiments import Experiment
from longwave.experiments.prepared import prepare_on
from longwave.layers.lssl import GAUSSIAN
from longwave.models import ModelConfig
from longwave.pictures.curves import COLOURS, Curve, Panel, draw_panels
from longwave.sweeps import run
from longwave.sweeps.folder import Row, SweepFolder
from longwave.sweeps.plan import Member, plan
from longwave.tasks.base import Task
from longwave.train.folder import RunFolder
from longwave.train.loop import Diverged, Run
from longwave.train.order import epoch_batches

STEPS = 500  # that have to stay finite
SMALLEST = 2.0**-12
MAY_DIFFER = ("model.mixer.", "model.dropout", "loop.seed")  # settings in which rows of one table may differ
WORDS = {"legs": "HiPPO", GAUSSIAN: "random", "random-nplr": "random"}  # for initialisations
LABELS = ("HiPPO, dense", "random, dense", "random, diagonal", "HiPPO, NPLR (S4)", "random, NPLR")
COLOUR_OF = dict(zip(LABELS, COLOURS, strict=False))


def start(
    experiments: Sequence[Experiment],
    folder: str | Path,
    data_dir: str | Path | None = None,
    *,
    seeds: Sequence[int],
    sigma: float | None = None,
    jobs: int = 1,
    quiet: bool = False,
    device: str = "auto",
) -> SweepFolder:
    """Run rows of the ablation in a folder, beside those that are there; what does not fit is refused first.

    The size of a random A is `sigma`; None: that of the runs that are there, or the largest that stays finite. It is
    searched for once for each structure, and kept in sigma.json.
    """
    folder = Path(folder)
    check_folder(folder)
    known = _with_given(known_sigmas(folder), experiments, sigma, folder)

    def members() -> list[Member]:
        return plan(with_known_sigmas(experiments, known), {}, seeds, names_experiments=True)

    for experiment in experiments:
        if is_random(experiment) and structure(experiment) not in known:
            # The search takes minutes: what would be refused after it is refused before.
            run.check(members(), folder, data_dir, jobs=jobs, device=device, may_differ=MAY_DIFFER)
            say = run.silence if quiet else terminal.say
            known[structure(experiment)] = _search(experiment, data_dir, device, say)
            folder.mkdir(parents=True, exist_ok=True)
            files.write_json(folder / "sigma.json", known)
    options: dict[str, Any] = {"jobs": jobs, "quiet": quiet, "device": device, "write": write}
    return run.start(members(), folder, data_dir, may_differ=MAY_DIFFER, **options)


def resume(folder: str | Path, *, jobs: int = 1, quiet: bool = False, device: str = "auto") -> SweepFolder:
    """Go on with an ablation that was stopped, or look at one that is finished."""
    check_folder(Path(folder))
    return run.resume(folder, jobs=jobs, quiet=quiet, device=device, write=write)


def check_folder(folder: Path) -> None:
    """Refuse the folder of a sweep that is no ablation."""
    if (folder / "sweep.json").exists() and (sweep := SweepFolder.open(folder)).command != "ablate":
        raise ValueError(
            terminal.with_command(
                f"{folder}: expected the folder of an ablation, got that of another sweep; choose another folder with "
                "--out, or resume the sweep with",
                sweep.resume_command,
            )
        )


# The size of a random A


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
    prepared = prepare_on(experiment, task)
    task, loop = prepared.task, prepared.experiment.loop
    with tempfile.TemporaryDirectory() as folder:
        run = Run(RunFolder.create(folder, prepared, None), prepared, quiet=True, device=device)
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
    mixer = _mixer(experiment)
    return getattr(mixer, "init", None) == GAUSSIAN and hasattr(mixer, "sigma")


def structure(experiment: Experiment) -> str:
    """Of the state matrix: dense, diagonal or NPLR; for mixers that have none, their kind."""
    mixer = _mixer(experiment)
    kind = getattr(mixer, "kind", experiment.model.kind)
    return "NPLR" if kind == "s4" else str(getattr(mixer, "structure", kind))


def known_sigmas(folder: Path) -> dict[str, float]:
    """The sizes of a random A, by its structure, that the runs of a folder have, or that were found for them."""
    path, found = folder / "sigma.json", dict[str, float]()
    try:
        content = files.read_json(path) if path.exists() else {}
        if not isinstance(content, dict):
            raise ValueError(f"got {content!r:.80}")
        for name, value in content.items():
            found[name] = _checked_sigma(typed(value, float, name), name)
    except ValueError as error:
        raise ValueError(
            f"{path}: expected the sizes of random state matrices, as longwave ablate writes them ({error}); remove "
            "it, and those that no run has are searched for again"
        ) from error
    return found | (sigmas(SweepFolder.open(folder).members) if (folder / "sweep.json").exists() else {})


def sigmas(members: Sequence[Member]) -> dict[str, float]:
    """The sizes of a random A that runs have, by its structure."""
    return {structure(one.experiment): _mixer(one.experiment).sigma for one in members if is_random(one.experiment)}


def with_known_sigmas(experiments: Sequence[Experiment], known: dict[str, float]) -> list[Experiment]:
    """The experiments with the sizes that are known. Frozen rows, and those with dropout, have that of the trained."""
    return [
        with_sigma(one, known[structure(one)]) if is_random(one) and structure(one) in known else one
        for one in experiments
    ]


def _with_given(
    known: dict[str, float], experiments: Sequence[Experiment], sigma: float | None, folder: Path
) -> dict[str, float]:
    """The sizes that are known, and the one that was given for the others; it must not be another for the same."""
    if sigma is None:
        return known
    _checked_sigma(sigma, "--sigma")
    given = {structure(one): sigma for one in experiments if is_random(one)}
    for name, value in given.items():
        if known.get(name, value) != value:
            raise ValueError(
                f"--sigma: expected {known[name]:g}, which {folder} has for a random {name} A, got {sigma:g}; leave "
                "--sigma out, or choose another folder with --out"
            )
    return known | given


def _checked_sigma(sigma: float, name: str) -> float:
    if not 0 < sigma < math.inf:
        raise ValueError(f"{name}: expected a number above 0, got {sigma:g}")
    return float(sigma)


def _search(experiment: Experiment, data_dir: str | Path | None, device: str, say: Callable[[str], None]) -> float:
    """The size at which the row stays finite if A is trained, and without dropout."""
    model: Any = experiment.model
    trained = replace(model, dropout=0.0, mixer=replace(model.mixer, trainable=True))
    task = experiment.task.build(None if data_dir is None else Path(data_dir).expanduser())
    return largest_sigma(replace(experiment, model=trained), task, device=device, say=say)


def _mixer(experiment: Experiment) -> Any:
    return getattr(experiment.model, "mixer", None)


# What was found


def label(experiment: Experiment) -> str:
    """What tables and figures call the state matrix, as the settings have it."""
    init = getattr(_mixer(experiment), "init", None)
    if init is None:
        return experiment.model.label
    words = f"{WORDS.get(init, init)}, {structure(experiment)}"
    return f"{words} (S4)" if words == "HiPPO, NPLR" else words


def is_trained(experiment: Experiment) -> bool:
    """Whether A is trained."""
    trainable = getattr(_mixer(experiment), "trainable", True)
    return trainable if isinstance(trainable, bool) else "A" in trainable


def dropout(experiment: Experiment) -> float:
    """The dropout of the model."""
    return float(getattr(experiment.model, "dropout", 0.0))


def train_accuracy(sweep: SweepFolder, row: Row) -> float | None:
    """The accuracy in training, over the last epoch, as a mean over the seeds; None unless all runs are finished."""
    values = [_last_train_accuracy(sweep, member) for member in row.members]
    known = [value for value in values if value is not None]
    return statistics.mean(known) if row.mean is not None and len(known) == len(values) else None


def _last_train_accuracy(sweep: SweepFolder, member: Member) -> float | None:
    logged = sweep.curves(member)
    return logged[-1].get("train_accuracy") if logged else None


def trained_parameters(sweep: SweepFolder, member: Member) -> int | None:
    """The number of parameters that are trained, without those that are frozen; None before a run has begun."""
    place = sweep.place(member)
    if not (place / "config.json").exists():
        return None
    return _count_trained(RunFolder.open(place, published=False).config.experiment.model)


@functools.cache
def _count_trained(model: ModelConfig) -> int:
    """Of a new model; result.json counts all parameters."""
    with torch.random.fork_rng(devices=[]):
        return sum(p.numel() for p in model.build().parameters() if p.requires_grad)


def write(sweep: SweepFolder) -> None:
    """Write the table and the picture of what has been run so far."""
    # Folders of an earlier version do not name an experiment that was run alone.
    named = [one._replace(values={"experiment": one.experiment.name}) for one in sweep.members]
    replace(sweep, members=named).write_table(
        {
            "train_accuracy": lambda member: _last_train_accuracy(sweep, member),
            "trained_parameters": lambda member: trained_parameters(sweep, member),
        }
    )
    draw_ablation(sweep)


def draw_ablation(sweep: SweepFolder) -> Path | None:
    """Draw ablation.png, the paper's figures: train and validation accuracy over epochs; None if nothing was run."""
    groups: dict[str, list[Member]] = {"Unconstrained": [], "NPLR": []}
    for member in sorted(sweep.members, key=lambda one: dropout(one.experiment)):
        share, is_nplr = dropout(member.experiment), structure(member.experiment) == "NPLR"
        name = f"Dropout {share:g}" if share else "NPLR" if is_nplr else "Unconstrained"
        groups.setdefault(name, []).append(member)
    panels = []
    for name, members in groups.items():
        training = _panel(sweep, f"{name}: training", "train_accuracy", members)
        validation = _panel(sweep, f"{name}: validation", "valid_accuracy", members)
        if training.curves or validation.curves:
            panels += [training, validation]
    if not panels:
        return None
    path = sweep.path / "ablation.png"
    draw_panels(panels, path, columns=2, shares_y=True)
    return path


def _panel(sweep: SweepFolder, title: str, score: str, members: Sequence[Member]) -> Panel:
    curves = []
    for member in members:
        logged = [line for line in sweep.curves(member) if score in line]
        if logged:
            name, is_frozen = label(member.experiment), not is_trained(member.experiment)
            colour, style = COLOUR_OF.get(name, COLOURS[-1]), "--" if is_frozen else "-"
            shown = f"{name}, frozen" if is_frozen else name
            curves.append(Curve(shown, [x["epoch"] for x in logged], [x[score] for x in logged], colour, style))
    return Panel(title, "epoch", "accuracy", curves, is_whole=True)
