"""Generate sound sample by sample, from silence or continuing a recording."""

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
from longwave.tasks.waveform.quantize import ENCODINGS, SILENCE, Code, scaled

Codes = NDArray[np.uint8]


@dataclass(frozen=True)
class Sound:
    """The model and facts needed to generate sound with a run."""

    sampling_rate: int
    encoding: str

    @classmethod
    def of(cls, run: TrainedRun) -> "Sound":
        check_kind(run, "generate", ACTION, "generates sound")
        return cls(
            run.fact("sampling_rate", lambda hertz: typed(hertz, int, "Hz")),
            run.fact("encoding", lambda name: typed(name, Code, "encoding")),
        )

    def prompt(self, path: Path | None, count: int) -> Codes:
        """(count, n) codes of a recording, or none: one channel, at the rate of training, scaled by its own range."""
        if path is None:
            return np.empty((count, 0), np.uint8)
        try:
            samples, rate = read_samples(path.expanduser())
        except BadFile as error:
            raise ValueError(f"{path}: {error}") from error
        mixed = resampled(samples.mean(axis=1, keepdims=True), rate, self.sampling_rate)[:, 0]
        codes = ENCODINGS[self.encoding].encode(scaled(mixed, float(mixed.min()), float(mixed.max())))
        return np.repeat(codes[None], count, axis=0)

    def decode(self, given: Codes, drawn: list[Codes]) -> NDArray[np.float32]:
        """The samples (count, n) of a prompt and the codes drawn after it, 1 being full scale."""
        return ENCODINGS[self.encoding].decode(np.concatenate((given, np.stack(drawn, axis=1)), axis=1))


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

    `choice` has temperature, top_k, top_p and seed of `longwave.generate`.
    """
    kind = Sound.of(run)
    given = kind.prompt(None if prompt is None else Path(prompt), count)
    length = steps(seconds, kind.sampling_rate, "seconds")
    return kind.decode(given, list(draw(run.load_best(device), given, length, **choice))), kind.sampling_rate


def draw(model: nn.Module, given: Codes, length: int, **choice: Any) -> Iterator[Codes]:
    """The next codes (n,) of the rows of `given` (n, k), step by step."""
    begin = torch.from_numpy(given).long()
    prompt = torch.cat((torch.full((len(begin), 1), SILENCE), begin), dim=1)
    drawn = stream(model, prompt, length, **choice)  # which refuses bad arguments at once
    return (codes.cpu().numpy().astype(np.uint8) for codes, _ in drawn)


@dataclass(frozen=True)
class Options(Sampling):
    """Generate sound, from silence or continuing a recording, as a WAV file.

    Example: longwave generate runs/waveform-music-seed0 --seconds 5 --out sample.wav

    Example: longwave generate runs/waveform-music-seed0 --prompt-wav begin.wav --seconds 2
    """

    seconds: float = 1.0
    """Seconds to generate."""
    prompt_wav: Path | None = None
    """A recording to continue, which comes first in the file; it is resampled and mixed down as in training."""
    count: int = 1
    """Number of sounds; several are called sample-1.wav, sample-2.wav and so on."""
    out: Path = Path("sample.wav")
    """The WAV file to write, 16-bit at the sampling rate of training."""


def _generate(run: TrainedRun, options: Options) -> Iterator[str]:
    if options.count < 1:
        raise ValueError(f"count: expected at least 1, got {options.count}")
    if options.out.suffix.lower() != ".wav":
        raise ValueError(f"out: expected a .wav file, got {str(options.out)!r}")
    check_distinct(**{"prompt-wav": options.prompt_wav, "out": options.out})
    kind = Sound.of(run)
    length = steps(options.seconds, kind.sampling_rate, "seconds")
    given = kind.prompt(options.prompt_wav, options.count)
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
    except KeyboardInterrupt:  # keep what there is
        stopped = True
    progress.end()
    taken = time.perf_counter() - began
    heard = len(made) / kind.sampling_rate
    print(f"{options.count} x {heard:.3g} s of sound in {taken:.1f} s", file=sys.stderr)
    if made:
        for k, samples in enumerate(kind.decode(given, made)):
            out = options.out if options.count == 1 else options.out.with_stem(f"{options.out.stem}-{k + 1}")
            files.write_bytes(out, wav_bytes(samples, kind.sampling_rate))
            yield f"sound: {out}\n"
    if stopped:
        raise KeyboardInterrupt


ACTION = Action(Options, _generate, continue_sound)
