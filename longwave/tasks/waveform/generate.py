"""Sound drawn sample by sample: from silence, or going on from a recording."""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from longwave.core import files
from longwave.core.progress import Patient
from longwave.core.settings import typed
from longwave.io.audio import BadFile, read_samples, resampled, steps, wav_bytes
from longwave.models.generate import stream
from longwave.tasks.actions import check_distinct, check_kind
from longwave.tasks.base import Action, TrainedRun
from longwave.tasks.text.generate import Sampling
from longwave.tasks.waveform.quantize import ENCODINGS, SILENCE, scaled

Codes = NDArray[np.uint8]


@dataclass(frozen=True)
class Sound:
    """What a run must know to make sound."""

    sampling_rate: int
    encoding: str

    @classmethod
    def of(cls, run: TrainedRun) -> "Sound":
        """That of a run."""
        check_kind(run, "generate", ACTION, "generates sound")
        return cls(
            run.fact("sampling_rate", lambda hertz: typed(hertz, int, "Hz")),
            run.fact("encoding", _known_encoding),
        )

    def read(self, path: Path) -> Codes:
        """A recording as codes: one channel, at the sampling rate of training, scaled by its own range."""
        try:
            samples, rate = read_samples(path.expanduser())
        except BadFile as error:
            raise ValueError(f"{path}: {error}") from error
        mixed = resampled(samples.mean(axis=1, keepdims=True), rate, self.sampling_rate)[:, 0]
        return ENCODINGS[self.encoding].encode(scaled(mixed, float(mixed.min()), float(mixed.max())))

    def decode(self, codes: NDArray[np.integer]) -> NDArray[np.float32]:
        """Samples of which 1 is full scale."""
        return ENCODINGS[self.encoding].decode(codes)


def _known_encoding(name: Any) -> str:
    if name not in ENCODINGS:
        raise ValueError(f"{name!r:.80}, which is none of {', '.join(ENCODINGS)}")
    return str(name)


def continue_sound(
    run: TrainedRun,
    seconds: float,
    prompt: str | Path | None = None,
    count: int = 1,
    *,
    device: str = "auto",
    **choice: Any,
) -> tuple[NDArray[np.float32], int]:
    """Samples (count, n) of the recording `prompt`, if any, and `seconds` after it, and their sampling rate.

    `choice` is what `longwave.generate` takes of temperature, top_k, top_p and seed.
    """
    kind = Sound.of(run)
    given = np.empty(0, np.uint8) if prompt is None else kind.read(Path(prompt))
    length = steps(seconds, kind.sampling_rate, "seconds")
    codes = np.stack(list(draw(run.load_best(device), np.repeat(given[None], count, 0), length, **choice)), axis=1)
    return kind.decode(np.concatenate((np.repeat(given[None], count, 0), codes), axis=1)), kind.sampling_rate


def draw(model: nn.Module, given: Codes, length: int, **choice: Any) -> Iterator[Codes]:
    """Codes (n,) that follow those of each row of `given` (n, k), one step after the other."""
    begin = torch.from_numpy(given).long()
    prompt = torch.cat((torch.full((len(begin), 1), SILENCE), begin), dim=1)
    drawn = stream(model, prompt, length, **choice)  # which refuses what is wrong at once
    return (codes.cpu().numpy().astype(np.uint8) for codes, _ in drawn)


@dataclass(frozen=True)
class Options(Sampling):
    """Generate sound, from silence or going on from a recording, as a WAV file.

    Example: longwave generate runs/waveform-music-seed0 --seconds 5 --out sample.wav

    Example: longwave generate runs/waveform-music-seed0 --prompt-wav begin.wav --seconds 2
    """

    seconds: float = 1.0
    """Seconds to generate."""
    prompt_wav: Path | None = None
    """A recording to go on from, which comes first in the file; it is resampled and mixed down as in training."""
    count: int = 1
    """How many sounds; several are called sample-1.wav, sample-2.wav and so on."""
    out: Path = Path("sample.wav")
    """The WAV file to write, 16 bits at the sampling rate of training."""


def _generate(run: TrainedRun, options: Options) -> Iterator[str]:
    if options.count < 1:
        raise ValueError(f"count: expected at least 1, got {options.count}")
    if options.out.suffix.lower() != ".wav":
        raise ValueError(f"out: expected a file that ends in .wav, got {str(options.out)!r}")
    check_distinct(**{"prompt-wav": options.prompt_wav, "out": options.out})
    kind = Sound.of(run)
    length = steps(options.seconds, kind.sampling_rate, "seconds")
    given = np.empty(0, np.uint8) if options.prompt_wav is None else kind.read(options.prompt_wav)
    given = np.repeat(given[None], options.count, axis=0)
    choice, progress, began = options.choice(), Patient(), time.perf_counter()
    drawn = draw(run.load_best(options.device), given, length, **choice)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.print_seed(choice)
    progress.start(f"generating {options.seconds:g} seconds", length)
    made, stopped = [], False
    try:
        for codes in drawn:
            made.append(codes)
            progress.advance(1)
    except KeyboardInterrupt:  # what there is can be heard
        stopped = True
    progress.end()
    taken = time.perf_counter() - began
    heard = len(made) / kind.sampling_rate
    print(f"{options.count} x {heard:.3g} s of sound in {taken:.1f} s", file=sys.stderr)
    if made:
        yield from _write(options, kind.decode(np.concatenate((given, np.stack(made, axis=1)), axis=1)), kind)
    if stopped:
        raise KeyboardInterrupt


def _write(options: Options, samples: NDArray[np.float32], kind: Sound) -> Iterator[str]:
    for k, row in enumerate(samples):
        out = options.out if len(samples) == 1 else options.out.with_stem(f"{options.out.stem}-{k + 1}")
        files.write_bytes(out, wav_bytes(row, kind.sampling_rate))
        yield f"sound: {out}\n"


ACTION = Action(Options, _generate, continue_sound)
