"""Free spoken digits: 3,000 clips of ten digits by six speakers, at 8 kHz and of unequal lengths.

Takes 0 to 4 of each digit and speaker are the official test set, and the next five are for validation. Speakers are the
same in all splits.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from longwave.core.settings import at_least
from longwave.io.download import catalogue
from longwave.tasks.audio.clip_lists import TEST_TAKES, spoken_digits
from longwave.tasks.audio.clips import (
    ClipInput,
    ClipTask,
    ClipTaskConfig,
    cache_folder,
    clip_task,
    one_scale,
    random_clips,
    read_clips,
)
from longwave.tasks.base import SPLITS, TASKS

DIGITS = tuple("0123456789")
RATE = 8000
LENGTH = 3500  # samples of a clip, on average


@TASKS.register("spoken-digits")
@dataclass(frozen=True)
class SpokenDigitsConfig(ClipTaskConfig):
    """Spoken digits to classify from their samples."""

    valid_takes: int = at_least(1, 5)
    """Takes of each digit and speaker for validation, after the five of the official test set."""

    def build(self, data_dir: Path | None = None) -> ClipTask:
        folder = catalogue.require("fsdd", data_dir)
        listed = spoken_digits(folder, self.valid_takes)
        read = read_clips(listed, cache_folder(data_dir), sampling_rate=RATE)
        labels, splits = np.array([int(label) for label in listed.labels]), np.array(listed.splits)
        rows = {name: np.flatnonzero(splits == name) for name in SPLITS}
        for split, own in rows.items():
            if missing := sorted(set(DIGITS) - {listed.labels[k] for k in own}):
                first = TEST_TAKES + self.valid_takes  # training take
                raise ValueError(
                    f"{folder}: expected at least takes 0 to {first} of every digit, got none of {', '.join(missing)} "
                    f"for the {split} set"
                )
        mean, deviation = one_scale(read.clips, rows["train"], str(folder))
        task = clip_task("fsdd", read.clips, labels, rows, _inputs(mean, deviation))
        return replace(task, origin=str(folder), notes=read.notes, rates=self.rates, noise=self.noise)

    def on_random_data(self, rows: int, seed: int = 0) -> ClipTask:
        clips = random_clips(rows, LENGTH, RATE, 1, seed)
        splits = dict.fromkeys(SPLITS, np.arange(rows))
        return clip_task("fsdd", clips, np.arange(rows) % 10, splits, _inputs(0.0, 1.0))


def _inputs(mean: float, deviation: float) -> ClipInput:
    return ClipInput(classes=DIGITS, mean=(mean,), deviation=(deviation,), length=None, sampling_rate=RATE)
