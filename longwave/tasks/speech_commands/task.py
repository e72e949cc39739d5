"""Speech Commands: one second of one spoken word, from its 16,000 samples or as 161 frames of MFCC.

    sc35  all 35 words, with the official lists; shorter clips are padded with zeros
    sc10  ten of them; clips that are not exactly one second long are skipped, and 70/15/15 % of each word drawn. The
          paper's own draw started from the order of a directory listing, which nobody can repeat; here it starts from
          sorted names. Speakers are shared between splits, as in the paper; `split="speaker"` makes them disjoint.

Samples are scaled position by position over the training set, as the authors' code does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from longwave.core.progress import Patient
from longwave.core.random import shuffled
from longwave.core.settings import at_least
from longwave.io.audio import Clips
from longwave.io.download import catalogue
from longwave.io.mapped import Put, mapped
from longwave.tasks.audio.clip_lists import ClipList, speech_commands
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
    random_clips,
    rate_of,
    read_clips,
    scale_by_channel,
    scale_by_position,
    scale_of,
    unlabelled,
)
from longwave.tasks.audio.mfcc import COEFFICIENTS, FRAME, frames_of, mfcc
from longwave.tasks.base import SPLITS, TASKS
from longwave.tasks.sequences.task import check_classes

RATE = LENGTH = 16_000
FRAME_RATE = RATE // (FRAME // 2)  # MFCC frames per second
FLOOR = 1e-5  # added to a deviation
# The authors' code divides samples that are in [-1, 1] by 2^15 once more, before it adds the floor.
FLOOR_OF_SAMPLES = 32768 * FLOOR
SHARES = (0.7, 0.5)  # of all clips to train on; of the rest to validate
HELD = 0.15  # share for validation, and for the test, with disjoint speakers


@dataclass(frozen=True)
class WordSet:
    """Some words of Speech Commands."""

    words: tuple[str, ...]  # in the order of their labels
    counts: tuple[int, int, int]  # training, validation and test clips of the full set
    paper: dict[str, float]  # accuracy of S4 in tab:sc, by features
    is_official: bool  # whether it is split by the published lists


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
    """Spoken words to classify."""

    data: Literal["sc10", "sc35"] = "sc10"
    """Ten words, or all 35."""
    features: Features = "raw"
    """16,000 samples, or 161 frames of 20 MFCC."""
    split: Literal["paper", "speaker"] = "paper"
    """As in the paper (35 words: the official lists; ten words: random), or 70/15/15 with disjoint speakers."""
    resplit: Literal["none", "speaker"] = "none"
    """If only some of the clips are on disk: split those 70/15/15, with disjoint speakers."""
    split_seed: int = at_least(0, 0)
    """Seed of random splits."""
    scale: float = 1.0
    """Factor on samples in [-1, 1] before MFCC; the authors' code has 2^-15, which hides quiet sounds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.scale > 0:
            raise ValueError(f"scale: expected a number above 0, got {self.scale}")
        if self.noise and self.features == "mfcc":
            raise ValueError(
                f"noise: expected 0 with MFCC, as noise is added to samples (--task.features raw), got {self.noise}"
            )

    def build(self, data_dir: Path | None = None) -> ClipTask:
        folder, notes = catalogue.require("speech-commands", data_dir), []
        chosen, cache = SETS[self.data], cache_folder(data_dir)
        listed, speakers = speech_commands(folder, chosen.words)
        read = read_clips(listed, cache, sampling_rate=RATE)
        kept = np.arange(len(listed))
        if not chosen.is_official:
            kept = np.flatnonzero(read.clips.lengths == LENGTH)
            if left_out := len(listed) - len(kept):
                notes.append(
                    f"clips skipped because they are not exactly one second long, as in the paper: {left_out:,}"
                )
        words = self._words({listed.labels[k] for k in kept.tolist()}, notes)
        labels = np.array([words.index(word) if word in words else -1 for word in listed.labels], np.int64)
        rows = self._splits(listed, speakers, labels, kept, notes)
        clips = read.clips if self.features == "raw" else self._frames(read.clips, cache)
        counts = {name: np.bincount(labels[own], minlength=len(words)) for name, own in rows.items()}
        check_classes(counts, words, str(folder), "", notes)
        comparable = self.split == "paper" and self.resplit == "none"
        paper = {"accuracy": chosen.paper[self.features]} if comparable and self.features in chosen.paper else {}
        if self.features == "raw":
            scale = scale_by_position(clips, rows["train"], LENGTH, FLOOR_OF_SAMPLES)
        else:
            scale = scale_by_channel(clips, rows["train"], frames_of(LENGTH), FLOOR)
        task = self._task(clips, labels, rows, words, scale)
        return replace(
            task, origin=str(folder), notes=(*read.notes, *notes), paper=paper, rates=self.rates, noise=self.noise
        )

    def on_random_data(self, rows: int, seed: int = 0) -> ClipTask:
        words = SETS[self.data].words
        length, channels = (LENGTH, 1) if self.features == "raw" else (frames_of(LENGTH), COEFFICIENTS)
        clips = random_clips(rows, length, RATE if self.features == "raw" else FRAME_RATE, channels, seed)
        ones = np.ones((length, 1) if self.features == "raw" else channels, np.float32)
        splits = dict.fromkeys(SPLITS, np.arange(rows))
        return self._task(clips, np.arange(rows) % len(words), splits, words, Scale(0 * ones, ones))

    def arrange(self, clips: Clips, inputs: ClipInput, artifact: Callable[[str], bytes]) -> tuple[ClipSplit, list[str]]:
        notes = []
        if self.features == "mfcc" and clips.sampling_rate != RATE:
            raise ValueError(
                f"sampling_rate: expected {RATE:,} Hz, as MFCC are computed at the rate of training, got "
                f"{clips.sampling_rate:,} Hz; omit it to have files resampled"
            )
        if others := int((clips.lengths != clips.sampling_rate).sum()):
            notes.append(f"clips padded with zeros or cut to one second, as in training: {others:,}")
        if self.features == "mfcc":
            frames = np.concatenate([self._mfcc(clips, k) for k in range(len(clips))])
            lengths = np.full(len(clips), frames_of(LENGTH))
            return unlabelled(Clips(frames, lengths, FRAME_RATE, clips.names), scale_of(inputs), inputs.length), notes
        scale, rate = Scale.from_bytes(artifact(POSITIONS)), rate_of(clips, inputs)
        return unlabelled(clips, scale, inputs.length, rate), notes

    # Splits

    def _words(self, here: set[str], notes: list[str]) -> tuple[str, ...]:
        """The classes: all words of the set, or those with clips if a part of the set is resplit."""
        words = SETS[self.data].words
        if self.resplit == "none" or here == set(words):
            return words
        missing = [word for word in words if word not in here]
        notes.append(f"words skipped because they have no clips: {', '.join(missing)}")
        return tuple(word for word in words if word in here)

    def _splits(
        self, listed: ClipList, speakers: tuple[str, ...], labels: Index, kept: Index, notes: list[str]
    ) -> dict[str, Index]:
        chosen, source = SETS[self.data], listed.source
        total = sum(chosen.counts)
        if self.resplit == "speaker":
            notes.append(
                f"{len(kept):,} of the {total:,} clips of {self.data} are resplit by speaker: this score is not "
                "comparable with the paper's"
            )
            return by_speaker(speakers, kept, self.split_seed, source)
        lists = "" if listed.splits is not None or not chosen.is_official else ", and its official lists are missing"
        if len(kept) != total or lists:
            raise ValueError(
                f"{source}: expected all {total:,} clips of {self.data}, got {len(kept):,}{lists}; get the rest with "
                "longwave data get speech-commands, or split the available clips with --task.resplit speaker (the "
                "score is then not comparable with the paper's)"
            )
        if self.split == "speaker":
            notes.append(
                "no speaker is in two splits, unlike in the paper: this score is not comparable with the paper's"
            )
            return by_speaker(speakers, kept, self.split_seed, source)
        if chosen.is_official:
            official = np.array(listed.splits)
            return {name: np.flatnonzero(official == name) for name in SPLITS}
        train, rest = stratified(labels, kept, SHARES[0], self.split_seed)
        valid, test = stratified(labels, rest, SHARES[1], self.split_seed + 1)
        return {"train": train, "valid": valid, "test": test}

    # Features

    def _frames(self, clips: Clips, cache: Path) -> Clips:
        """The MFCC of all clips, cached like the clips themselves."""
        progress = Patient()

        def make(put: Put) -> dict[str, Any]:
            progress.start("computing MFCC", len(clips))
            for k in range(len(clips)):
                put(self._mfcc(clips, k))
                progress.advance(1)
            progress.end()
            return {}

        found = mapped(cache, f"mfcc-{clips.digest[:32]}-{self.scale:g}", make)
        return Clips(found.values, np.full(len(clips), frames_of(LENGTH)), FRAME_RATE, clips.names, found.digest)

    def _mfcc(self, clips: Clips, k: int) -> Any:
        """(161, 20) of clip k, padded with zeros or cut to one second."""
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
    """A share of the examples `members`, stratified by class, and the rest.

    The size is rounded down; examples missing after rounding down go to the classes that were rounded most.
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
    """Splits that share no speaker: speakers in random order, until a split has its share of examples."""
    names, own = np.unique(np.array(speakers)[members], return_inverse=True)
    if len(names) < 3:
        raise ValueError(f"{source}: expected clips of at least three speakers, one per split, got {len(names)}")
    order = shuffled(len(names), seed)
    before = np.empty(len(names), np.int64)  # clips of the speakers before each
    before[order] = np.cumsum(np.bincount(own)[order]) - np.bincount(own)[order]
    share = before / len(members)
    place = np.where(share < HELD, 0, np.where(share < 2 * HELD, 1, 2))  # test, valid, train
    place[order[:1]], place[order[-1:]] = 0, 2
    if not (place == 1).any():
        place[order[1]] = 1
    splits = ("test", "valid", "train")
    return {name: members[place[own] == splits.index(name)] for name in SPLITS}
