"""Trackers of accelerate: TensorBoard, W&B, MLflow and others, beside a run's own metrics.jsonl."""

import contextlib
from collections.abc import Iterator

from accelerate import Accelerator
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

from longwave.core.registry import nearest
from longwave.core.settings import flat
from longwave.experiments import Experiment


def check(tracker: str | None) -> None:
    """Refuse a tracker that accelerate does not know, or that is not installed: accelerate would ignore it silently."""
    if tracker is None:
        return
    if tracker not in LOGGER_TYPE_TO_CLASS:
        raise ValueError(f"unknown tracker {tracker!r}; {nearest(tracker, LOGGER_TYPE_TO_CLASS)}")
    if tracker not in map(str, get_available_trackers()):
        raise ValueError(f"tracker: {tracker} is not installed; pip install {tracker}")


@contextlib.contextmanager
def tracking(accelerator: Accelerator, experiment: Experiment) -> Iterator[None]:
    """Start the trackers of a run, and finish them whatever happens."""
    if experiment.loop.tracker is None:
        yield
        return
    # Settings by their dotted names, as numbers and strings, which is what every tracker takes.
    named = flat(experiment.to_dict())
    plain = {name: value if isinstance(value, int | float | str) else str(value) for name, value in named.items()}
    accelerator.init_trackers(experiment.name, config=plain)
    try:
        yield
    finally:
        for tracker in accelerator.trackers:  # not end_training, which would destroy the process group, too
            tracker.finish()
