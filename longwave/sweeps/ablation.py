"""The paper's ablation of initialisations as a sweep, after a search for the scale of a random A."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from longwave.core import terminal
from longwave.experiments import Experiment
from longwave.experiments.prepared import prepare_on
from longwave.layers.lssl import GAUSSIAN
from longwave.sweeps import run
from longwave.sweeps.folder import SweepFolder
from longwave.sweeps.picture import mixer_of, structure
from longwave.sweeps.plan import Member, plan
from longwave.tasks.base import Task
from longwave.train.loop import Diverged, Run
from longwave.train.trained import MemoryRun

STEPS = 500  # that have to stay finite
SMALLEST = 2.0**-12
MAY_DIFFER = ("model.mixer.", "model.dropout", "loop.seed")  # settings in which rows of one table may differ


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
    """Run rows of the ablation in a folder, in addition to its own; what does not fit is refused first.

    `sigma` is the scale of a random A; None: that of the folder's runs, or the largest at which training stays finite,
    searched for once per structure.
    """
    run.check_jobs(jobs, device)
    known = _known_sigmas(Path(folder), experiments, sigma)

    def members() -> list[Member]:
        rows = [with_sigma(one, known[structure(one)]) if structure(one) in known else one for one in experiments]
        return plan(rows, {}, seeds)

    for experiment in filter(is_random, experiments):
        if structure(experiment) not in known:
            # The search takes minutes: refuse first what would be refused after it.
            run.prepare(members(), folder, data_dir, MAY_DIFFER)
            say = run.silence if quiet else terminal.say
            known[structure(experiment)] = _search(experiment, data_dir, device, say)
    return run.start(members(), folder, data_dir, jobs=jobs, quiet=quiet, device=device, may_differ=MAY_DIFFER)


def sigmas(members: Sequence[Member]) -> dict[str, float]:
    """The scales of a random A in the runs, by its structure."""
    return {structure(one.experiment): mixer_of(one.experiment).sigma for one in members if is_random(one.experiment)}


def largest_sigma(
    experiment: Experiment,
    task: Task,
    *,
    steps: int = STEPS,
    device: str = "auto",
    say: Callable[[str], None] = run.silence,
) -> float:
    """The largest of 1, 1/2, 1/4, ... at which training from a random A of that scale stays finite for `steps`."""
    sigma = 1.0
    while sigma >= SMALLEST:
        say(f"{experiment.name}: trying sigma {sigma:g} for {steps} steps")
        if stays_finite(with_sigma(experiment, sigma), task, steps, device):
            return sigma
        sigma /= 2
    raise ValueError(f"{experiment.name}: training diverges even at sigma {SMALLEST:g}; a smaller optim.lr may help")


def stays_finite(experiment: Experiment, task: Task, steps: int, device: str = "auto") -> bool:
    """Whether losses and weights stay finite for `steps` steps of training."""
    prepared = prepare_on(experiment, task)
    run = Run(MemoryRun.create(prepared), prepared, quiet=True, device=device)
    batches = itertools.chain.from_iterable(map(run.loading.train_batches, itertools.count()))  # epoch by epoch
    for batch, is_ours in itertools.islice(batches, steps):
        try:
            run.step(batch, is_ours)
        except Diverged:
            return False
    return all(bool(torch.isfinite(p).all()) for p in run.model.parameters())


def is_random(experiment: Experiment) -> bool:
    """Whether A is random without a structure that keeps it stable, so that its scale has to be found."""
    mixer = mixer_of(experiment)
    return getattr(mixer, "init", None) == GAUSSIAN and hasattr(mixer, "sigma")


def with_sigma(experiment: Experiment, sigma: float) -> Experiment:
    """The experiment with this scale of A, if its A is random."""
    model: Any = experiment.model
    if not is_random(experiment):
        return experiment
    return replace(experiment, model=replace(model, mixer=replace(model.mixer, sigma=sigma)))


def _known_sigmas(folder: Path, experiments: Sequence[Experiment], sigma: float | None) -> dict[str, float]:
    """The scales of a folder's runs, and `sigma` for other structures; another for the same structure is refused."""
    known = sigmas(SweepFolder.open(folder).members) if (folder / "sweep.json").exists() else {}
    if sigma is None:
        return known
    if not 0 < sigma < math.inf:
        raise ValueError(f"--sigma: expected a number above 0, got {sigma:g}")
    given = {structure(one): sigma for one in experiments if is_random(one)}
    for name in given:
        if known.get(name, sigma) != sigma:
            raise ValueError(
                f"--sigma: expected {known[name]:g}, which {folder} has for a random {name} A, got {sigma:g}; leave "
                "--sigma out, or choose another folder with --out"
            )
    return known | given


def _search(experiment: Experiment, data_dir: str | Path | None, device: str, say: Callable[[str], None]) -> float:
    """The scale at which the row stays finite if A is trained, without dropout."""
    model: Any = experiment.model
    trained = replace(model, dropout=0.0, mixer=replace(model.mixer, trainable=True))
    task = experiment.task.build(None if data_dir is None else Path(data_dir).expanduser())
    return largest_sigma(replace(experiment, model=trained), task, device=device, say=say)
