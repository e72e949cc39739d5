"""Custom audio clips to classify: a folder with one subfolder per class, or a CSV file of file names and labels."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from longwave.core.settings import at_least
from longwave.io.audio import Channels, Clips
from longwave.tasks.audio.clip_lists import ClipList, from_csv, from_folder
from longwave.tasks.audio.clips import (
    FEW_BAD,
    ClipInput,
    ClipSplit,
    ClipTask,
    ClipTaskConfig,
    cache_folder,
    clip_task,
    one_scale,
    read_clips,
)
from longwave.tasks.base import TASKS
from longwave.tasks.sequences.targets import class_names
from longwave.tasks.sequences.task import class_splits, note_rare_class

LONG = 30  # seconds; a batch of longer clips takes a lot of memory


@TASKS.register("audio")
@dataclass(frozen=True)
class AudioConfig(ClipTaskConfig):
    """Custom audio clips to classify."""

    folder: Path | None = None
    """A folder with one subfolder of WAV, FLAC or OGG files per class; docs: audio."""
    csv: Path | None = None
    """Or a CSV file with a header, one row per file; file names are relative to it."""
    column: str = "file"
    """The column with the file names (with csv)."""
    label: str = "label"
    """The column with the labels (with csv)."""
    split: str | None = None
    """The column with train, valid or test (with csv); by default the splits are drawn, 80/10/10 of each class."""
    split_seed: int = at_least(0, 0)
    """Seed of the splits, if they are drawn."""
    sampling_rate: int | None = at_least(1, None)
    """Sampling rate in Hz that all clips are resampled to; none: the most common one."""
    channels: Channels = "mix"
    """Mix all channels down to one, or keep them; then all files must have the same number."""
    seconds: float | None = None
    """Cut longer clips to their first seconds; none: keep their full length."""
    max_bad: int = at_least(0, FEW_BAD)
    """Unreadable files that may be skipped; they are listed. More are refused."""
    balance: bool = False
    """Weight all classes equally, regardless of their sizes, in the loss and when choosing the best weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"seconds: expected a number above 0, got {self.seconds}")

    @property
    def reading(self) -> dict[str, Any]:
        return {"channels": self.channels, "max_bad": self.max_bad}

    def read_list(self, csv: Path, labelled: bool) -> ClipList:
        return from_csv(csv, self.column, self.label, labelled=labelled)

    def listed(self) -> ClipList:
        """The files and their labels."""
        if (self.folder is None) == (self.csv is None):
            given = "neither" if self.folder is None else "both"
            raise ValueError(f"audio: expected either --folder FOLDER or --csv FILE, got {given}")
        if self.folder is not None:
            return from_folder(self.folder)
        assert self.csv is not None
        return from_csv(self.csv, self.column, self.label, self.split)

    def build(self, data_dir: Path | None = None) -> ClipTask:
        listed = self.listed()
        read = read_clips(listed, cache_folder(data_dir), sampling_rate=self.sampling_rate, **self.reading)
        names = [listed.labels[k] for k in read.rows.tolist()]
        classes = class_names(names)
        if len(classes) < 2:
            raise ValueError(f"{listed.source}: expected at least two classes, got only {classes[0]!r}")
        labels = np.array([classes.index(name) for name in names], np.int64)
        notes = [*listed.notes, *read.notes]
        given = None if listed.splits is None else [listed.splits[k] for k in read.rows.tolist()]
        source, seed = listed.source, self.split_seed
        rows, _ = class_splits(given, labels, classes, seed, source, notes, drawn_from=source, what="clip")
        mean, deviation = (
            (value,) * read.clips.channels for value in one_scale(read.clips, rows["train"], listed.source)
        )
        inputs = ClipInput(
            classes=classes, mean=mean, deviation=deviation, length=None, sampling_rate=read.clips.sampling_rate
        )
        longest = self._longest(read.clips, notes)
        task = clip_task("audio", read.clips, labels, rows, inputs, longest=longest, balance=self.balance)
        note_rare_class(np.array(task.counts["train"]), classes, "clips", self.balance, notes)
        return replace(task, origin=listed.source, notes=tuple(notes), rates=self.rates, noise=self.noise)

    def _longest(self, clips: Clips, notes: list[str]) -> int | None:
        """The length in samples that clips are cut to."""
        longest = int(clips.lengths.max())
        if self.seconds is None:
            if longest > LONG * clips.sampling_rate:
                notes.append(
                    f"the longest clip is {longest / clips.sampling_rate:,.0f} seconds: if memory runs out, cut clips "
                    "with --seconds, or use smaller batches with --loop.batch-size"
                )
            return None
        most = max(1, round(self.seconds * clips.sampling_rate))
        if cut := int((clips.lengths > most).sum()):
            notes.append(f"clips cut to their first {self.seconds:g} seconds: {cut:,}")
        return most

    def arrange(self, clips: Clips, inputs: ClipInput, artifact: Any) -> tuple[ClipSplit, list[str]]:
        split, notes = super().arrange(clips, inputs, artifact)
        return replace(split, longest=None if self.seconds is None else self._longest(clips, notes)), notes
