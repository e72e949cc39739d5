"""Speech Commands: one second of one spoken word, from its 16,000 samples or as 161 frames of MFCC.

    sc35  all 35 words, with the official lists; shorter clips get zeros behind their end
    sc10  ten of them; clips that are not exactly a second are left out, and 70/15/15 % of each word are drawn. The
          paper's own draw started from the order of a folder listing, which nobody can repeat; here it starts from
          names in order. Speakers are shared between the splits, as in the paper; `split="speaker"` keeps them apart.

Samples are scaled position by position over the training set, as the authors' code does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from longwave.core.progress import Patient, Progress
from longwave.core.random import shuffled
from longwave.core.settings import check_least
from longwave.io import audio
from longwave.io.audio import Clips
from longwave.io.download import catalogue
from longwave.io.mapped import Put, mapped
from longwave.tasks.audio.clip_lists import SpeechCommands, speech_commands
from longwave.tasks.audio.clips import (
    POSITIONS,
    ClipInput,
    ClipSplit,
    ClipTask,
    ClipTaskConfig,
    Features,
    Index,
    Scale,
    cache_folder,
    clip_task,
    everything,
    random_clips,
    rate_of,
    scale_by_channel,
    scale_by_position,
    scale_of,
    unlabelled,
)
from longwave.tasks.audio.mfcc import COEFFICIENTS, FRAME, frames_of, mfcc
from longwave.tasks.base import TASKS
from longwave.tasks.sequences.task import check_classes

RATE = LENGTH = 16_000
FRAME_RATE = RATE // (FRAME // 2)  # frames of MFCC a second
FLOOR = 1e-5  # that is added to a deviation
# The authors' code divides samples that are in [-1, 1] by 2^15 once more, before it adds the floor.
FLOOR_OF_SAMPLES = 32768 * FLOOR
SHARES = (0.7, 0.5)  # of all clips to train on; of the rest to validate
HELD = 0.15  # of all clips to validate, and as many to test, where speakers are kept apart


@dataclass(frozen=True)
class WordSet:
    """Some words of Speech Commands."""

    words: tuple[str, ...]  # in the order of their labels
    counts: tuple[int, int, int]  # clips to train, validate and test, of the whole set
    paper: dict[str, float]  # accuracy of S4 in tab:sc, by features
    is_official: bool  # whether the published lists say what is for validation and test


TEN = "yes no up down left right on off stop go"
ALL = (
    "bed cat down five forward go house left marvin no on right sheila tree up visual yes backward bird dog eight "
    "follow four happy learn nine off one seven six stop three two wow zero"
)
SETS = {
    "sc10": WordSet(tuple(TEN.split()), (24_482, 5_246, 5_247), {"raw": 0.9832, "mfcc": 0.9396}, False),
    "sc35": WordSet(tuple(ALL.split()), (84_843, 9_981, 11_005), {}, True),
}


@TASKS.register("speech-commands")
@dataclass(frozen=True)
class SpeechCommandsConfig(ClipTaskConfig):
    """A task of spoken words to classify."""

    data: Literal["sc10", "sc35"] = "sc10"
    """Ten words, or all 35."""
    features: Features = "raw"
    """16,000 samples, or 161 frames of 20 MFCC."""
    split: Literal["paper", "speaker"] = "paper"
    """As in the paper (35 words: the official lists; ten words: at random), or 70/15/15 with no speaker in two."""
    resplit: Literal["none", "speaker"] = "none"
    """Where only a part of the clips is there: divide it 70/15/15, with no speaker in two splits."""
    split_seed: int = 0
    """Seed of what is drawn."""
    scale: float = 1.0
    """What samples in [-1, 1] are multiplied by before MFCC; the authors' code has 2^-15, which hides what is quiet."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, split_seed=0)
        if not self.scale > 0:
            raise ValueError(f"scale: expected a number above 0, got {self.scale}")
        if self.noise and self.features == "mfcc":
            raise ValueError(
                f"noise: it goes into samples (--task.features raw); expected 0 for MFCC, got {self.noise}"
            )

    def build(self, data_dir: Path | None = None) -> ClipTask:
        """The task with its clips."""
        folder, progress, notes = catalogue.require("speech-commands", data_dir), Patient(), []
        chosen, cache = SETS[self.data], cache_folder(data_dir)
        found = speech_commands(folder, chosen.words)
        read = audio.read(
            found.clips.paths, found.clips.names, str(folder), sampling_rate=RATE, cache=cache, progress=progress
        )
        kept = np.arange(len(found.clips))
        if not chosen.is_official:
            kept = np.flatnonzero(read.clips.lengths == LENGTH)
            if left_out := len(found.clips) - len(kept):
                notes.append(
                    f"clips left out because they are not exactly a second long, as in the paper: {left_out:,}"
                )
        assert found.clips.labels is not None
        words = self._words(found, kept, notes)
        labels = np.array([words.index(word) if word in words else -1 for word in found.clips.labels], np.int64)
        rows = self._splits(found, labels, kept, str(folder), notes)
        clips = read.clips if self.features == "raw" else self._frames(read.clips, cache, progress)
        progress.end()
        counts = {name: np.bincount(labels[own], minlength=len(words)) for name, own in rows.items()}
        check_classes(counts, words, str(folder), "", notes)
        comparable = self.split == "paper" and self.resplit == "none"
        paper = {"accuracy": chosen.paper[self.features]} if comparable and self.features in chosen.paper else {}
        scale = self._scale(clips, rows["train"])
        task = self._task(clips, labels, rows, words, scale)
        return replace(
            task, origin=str(folder), notes=(*read.notes, *notes), paper=paper, rates=self.rates, noise=self.noise
        )

    def on_random_data(self, rows: int, seed: int = 0) -> ClipTask:
        """The task on noise."""
        words = SETS[self.data].words
        length, channels = (LENGTH, 1) if self.features == "raw" else (frames_of(LENGTH), COEFFICIENTS)
        clips = random_clips(rows, length, RATE if self.features == "raw" else FRAME_RATE, channels, seed)
        ones = np.ones((length, 1) if self.features == "raw" else channels, np.float32)
        return self._task(clips, np.arange(rows) % len(words), everything(rows), words, Scale(0 * ones, ones))

    def arrange(self, clips: Clips, inputs: ClipInput, artifact: Callable[[str], bytes]) -> tuple[ClipSplit, list[str]]:
        """New clips in the form that a trained model sees, and notes."""
        notes = []
        if self.features == "mfcc" and clips.sampling_rate != RATE:
            raise ValueError(
                f"sampling_rate: frames of MFCC are made at {RATE:,} Hz, as in training, and cannot be made at "
                f"{clips.sampling_rate:,} Hz; leave it away, and files are resampled"
            )
        if others := int((clips.lengths != clips.sampling_rate).sum()):
            notes.append(f"clips that were filled up with zeros, or cut, to the one second of training: {others:,}")
        if self.features == "mfcc":
            frames = np.concatenate([self._mfcc(clips, k) for k in range(len(clips))])
            lengths = np.full(len(clips), frames_of(LENGTH))
            return unlabelled(Clips(frames, lengths, FRAME_RATE, clips.names), scale_of(inputs), inputs.length), notes
        scale, rate = Scale.from_bytes(artifact(POSITIONS)), rate_of(clips, inputs)
        return unlabelled(clips, scale, inputs.length, rate), notes

    # Splits

    def _words(self, found: SpeechCommands, kept: Index, notes: list[str]) -> tuple[str, ...]:
        """The classes: all words of the set, or those that there are clips of, where a part is divided anew."""
        words, labels = SETS[self.data].words, found.clips.labels
        assert labels is not None
        here = {labels[k] for k in kept.tolist()}
        if self.resplit == "none" or here == set(words):
            return words
        missing = [word for word in words if word not in here]
        notes.append(f"words without a clip, which are left out: {', '.join(missing)}")
        return tuple(word for word in words if word in here)

    def _splits(
        self, found: SpeechCommands, labels: Index, kept: Index, source: str, notes: list[str]
    ) -> dict[str, Index]:
        chosen = SETS[self.data]
        total = sum(chosen.counts)
        if self.resplit == "speaker":
            notes.append(
                f"{len(kept):,} of the {total:,} clips of {self.data} are divided anew by speaker: this score is not "
                "comparable with the paper's"
            )
            return by_speaker(found.speakers, kept, self.split_seed, source)
        lists = "" if found.official is not None or not chosen.is_official else ", and its official lists are missing"
        if len(kept) != total or lists:
            raise ValueError(
                f"{source}: expected all {total:,} clips of {self.data}, got {len(kept):,}{lists}; get the rest with "
                "longwave data get speech-commands, or divide what there is with --task.resplit speaker (a score that "
                "is not comparable with the paper's)"
            )
        if self.split == "speaker":
            notes.append(
                "no speaker is in two splits, unlike in the paper: this score is not comparable with the paper's"
            )
            return by_speaker(found.speakers, kept, self.split_seed, source)
        if chosen.is_official:
            assert found.official is not None
            official = np.array(found.official)
            return {name: np.flatnonzero(official == name) for name in ("train", "valid", "test")}
        train, rest = stratified(labels, kept, SHARES[0], self.split_seed)
        valid, test = stratified(labels, rest, SHARES[1], self.split_seed + 1)
        return {"train": train, "valid": valid, "test": test}

    # Features and scales

    def _scale(self, clips: Clips, train: Index) -> Scale:
        if self.features == "raw":
            return scale_by_position(clips, train, LENGTH, FLOOR_OF_SAMPLES)
        return scale_by_channel(clips, train, frames_of(LENGTH), FLOOR)

    def _frames(self, clips: Clips, cache: Path, progress: Progress) -> Clips:
        """The MFCC of all clips, kept like the clips themselves."""

        def make(put: Put) -> dict[str, Any]:
            progress.start("computing MFCC", len(clips))
            for k in range(len(clips)):
                put(self._mfcc(clips, k))
                progress.advance(1)
            return {}

        found = mapped(cache, f"mfcc-{clips.digest[:32]}-{self.scale:g}", make)
        return Clips(found.values, np.full(len(clips), frames_of(LENGTH)), FRAME_RATE, clips.names, found.digest)

    def _mfcc(self, clips: Clips, k: int) -> Any:
        """(161, 20) of clip k, filled up with zeros or cut to a second."""
        x = np.zeros(LENGTH)
        own = clips.clip(k)[:LENGTH, 0]
        x[: len(own)] = own
        return mfcc(self.scale * x).astype(np.float32)

    def _task(
        self, clips: Clips, labels: Index, rows: dict[str, Index], words: tuple[str, ...], scale: Scale
    ) -> ClipTask:
        is_raw = self.features == "raw"
        inputs = ClipInput(
            classes=words,
            mean=(0.0,) if is_raw else tuple(scale.mean.tolist()),
            deviation=(1.0,) if is_raw else tuple(scale.deviation.tolist()),
            length=LENGTH if is_raw else frames_of(LENGTH),
            sampling_rate=RATE,
            features=self.features,
            by_position=is_raw,
        )
        return clip_task(f"{self.data}-{self.features}", clips, labels, rows, inputs, scale=scale)


def stratified(labels: Index, members: Index, share: float, seed: int) -> tuple[Index, Index]:
    """Some of the examples `members`, and the others: in all, and as nearly as can be of each class, that share.

    The size is rounded down; what the classes lack after rounding down goes to those that were rounded most.
    """
    total = int(share * len(members))
    counts = np.bincount(labels[members])
    wanted = counts * (total / len(members))
    taken = np.floor(wanted).astype(np.int64)
    order = np.argsort(-(wanted - taken), kind="stable")
    taken[order[: total - int(taken.sum())]] += 1
    shuffled_members = members[shuffled(len(members), seed)]
    own = [shuffled_members[labels[shuffled_members] == k] for k in range(len(counts))]
    chosen = np.concatenate([some[:n] for some, n in zip(own, taken.tolist(), strict=True)])
    return np.sort(chosen), np.setdiff1d(members, chosen)


def by_speaker(speakers: tuple[str, ...], members: Index, seed: int, source: str) -> dict[str, Index]:
    """Examples with no speaker in two splits: speakers in a random order, until a split has its share of examples."""
    names, own = np.unique(np.array(speakers)[members], return_inverse=True)
    if len(names) < 3:
        raise ValueError(f"{source}: expected clips of three speakers or more, one for each split, got {len(names)}")
    order = shuffled(len(names), seed)
    before = np.empty(len(names), np.int64)  # clips of the speakers before each
    before[order] = np.cumsum(np.bincount(own)[order]) - np.bincount(own)[order]
    share = before / len(members)
    place = np.where(share < HELD, 0, np.where(share < 2 * HELD, 1, 2))  # to test, to validate, to train
    place[order[:1]], place[order[-1:]] = 0, 2
    if not (place == 1).any():
        place[order[1]] = 1
    splits = ("test", "valid", "train")
    return {name: members[place[own] == splits.index(name)] for name in ("train", "valid", "test")}
