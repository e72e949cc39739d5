"""Labels of new audio files, with probabilities; scores on labelled files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from longwave.tasks.actions import OnDevice, check_distinct, check_kind, written
from longwave.tasks.audio.clip_lists import ClipList, from_folder
from longwave.tasks.audio.clips import ClipInput, read_clips
from longwave.tasks.base import Action, Scores, TrainedRun
from longwave.tasks.classify.predict import Labels, probabilities
from longwave.tasks.sequences.predict import check_finite


def classify(
    run: TrainedRun,
    folder: str | Path | None = None,
    csv: str | Path | None = None,
    *,
    sampling_rate: int | None = None,
    device: str = "auto",
) -> Labels:
    """Classify audio files with the best weights of a run: all below a folder, or those that a CSV file lists.

    They are read as in training; with `sampling_rate`, in Hz, they are resampled to that one, and dt is scaled.
    """
    check_kind(run, "predict", ACTION, "classifies audio")
    return _classify(run, _listed(run, folder, csv, labelled=False), sampling_rate, device)


def score(
    run: TrainedRun,
    folder: str | Path | None = None,
    csv: str | Path | None = None,
    *,
    sampling_rate: int | None = None,
    device: str = "auto",
) -> tuple[Scores, tuple[str, ...]]:
    """Score the best weights of a run on labelled audio files; returns scores and notes.

    The files are in a folder with one subfolder per class, or listed in a CSV file, and read as in `classify`. All of
    them are scored, whatever their split.
    """
    check_kind(run, "predict", ACTION, "classifies audio")
    listed = _listed(run, folder, csv, labelled=True)
    classes = run.fact("inputs", ClipInput.from_dict).classes
    known = dict(zip(listed.names, listed.labels, strict=True))
    if strange := sorted(set(listed.labels) - set(classes)):
        raise ValueError(
            f"{listed.source}: expected the classes of training, {', '.join(classes)}; got {', '.join(strange[:10])}"
        )
    found = _classify(run, listed, sampling_rate, device)
    y = np.array([classes.index(known[name]) for name in found.files])
    right = found.probabilities.argmax(axis=1) == y
    least = np.finfo(np.float64).tiny  # a class of probability 0 has a finite loss
    loss = -np.log(np.maximum(found.probabilities[np.arange(len(y)), y], least))
    scores = {"accuracy": float(right.mean()), "loss": float(loss.mean())}
    if getattr(run.settings, "balance", False):
        scores["balanced_accuracy"] = float(np.mean([right[y == k].mean() for k in np.unique(y)]))
    return scores, found.notes


def _listed(run: TrainedRun, folder: str | Path | None, csv: str | Path | None, labelled: bool) -> ClipList:
    if (folder is None) == (csv is None):
        raise ValueError(f"{run.path} classifies audio: expected either --folder FOLDER or --csv FILE")
    settings: Any = run.settings
    found: ClipList = (
        from_folder(Path(folder), labelled) if folder is not None else settings.read_list(Path(csv or ""), labelled)
    )
    return found


def _classify(run: TrainedRun, listed: ClipList, sampling_rate: int | None, device: str) -> Labels:
    inputs = run.fact("inputs", ClipInput.from_dict)
    settings: Any = run.settings
    if sampling_rate is not None:
        if sampling_rate < 1:
            raise ValueError(f"sampling_rate: expected a number of Hz above 0, got {sampling_rate}")
        if sampling_rate != inputs.sampling_rate:
            run.check_supports_rate("sampling_rate")
    model, size = run.load_best(device), run.batch_size
    # Memory-mapped from a temporary file: there may be more than fits into memory.
    with TemporaryDirectory(prefix="longwave-", ignore_cleanup_errors=True) as folder:
        rate = inputs.sampling_rate if sampling_rate is None else sampling_rate
        read = read_clips(listed, Path(folder), sampling_rate=rate, **settings.reading)
        if inputs.features == "raw" and read.clips.channels != inputs.channels:
            raise ValueError(
                f"{listed.source}: expected {inputs.channels} channels, as in training, got {read.clips.channels}"
            )
        split, notes = settings.arrange(read.clips, inputs, run.artifact)
        found = probabilities(model, split, size)
    check_finite(found, listed.source)
    return Labels(inputs.classes, found, (*listed.notes, *read.notes, *notes), read.clips.names)


@dataclass(frozen=True)
class Options(OnDevice):
    """Classify audio files: a label and the probability of each class per file.

    Example: longwave predict runs/audio-clips-seed0 --folder new/ --out labels.csv
    """

    folder: Path | None = None
    """A folder with WAV, FLAC and OGG files, searched recursively."""
    csv: Path | None = None
    """Or a CSV file with a column of file names, relative to it."""
    sampling_rate: int | None = None
    """Sampling rate in Hz to read files at, with dt scaled to match; none: resample to the rate of training."""
    out: Path = Path("labels.csv")
    """Where to write the labels."""


def _predict(run: TrainedRun, options: Options) -> Iterator[str]:
    check_distinct(csv=options.csv, out=options.out)
    listed = _listed(run, options.folder, options.csv, labelled=False)
    labels = _classify(run, listed, options.sampling_rate, options.device)
    yield from written(labels, options.out)


ACTION = Action(Options, _predict, classify)
