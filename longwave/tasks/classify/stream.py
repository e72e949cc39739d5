"""Classify a stream: sound from a file or a pipe, or rows of numbers."""

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.io.audio import file_blocks, open_sound, raw_blocks, steps
from longwave.io.rows import NumberReader
from longwave.io.tail import PIPE
from longwave.models.stream import Stream, stream
from longwave.tasks.actions import check_distinct
from longwave.tasks.base import Action, TrainedRun
from longwave.tasks.row_writer import Row, Writing, check_follow, note, written

BLOCK_SECONDS = 1.0  # of a file, that are read at a time
TOGETHER = 1024  # rows at a time: few enough for outputs to come promptly


@dataclass(frozen=True)
class Options(Writing):
    """Classify a stream: the label and the probability of each class.

    Examples:
        longwave stream runs/fsdd-seed0 --wav long.wav --window 1 --out out.csv
        arecord -q -f S16_LE -r 16000 -t raw |
            longwave stream runs/audio-clips-seed0 --stdin --sampling-rate 16000
        tail -f log.csv | longwave stream runs/tag-my-seed0 --csv -
        longwave stream runs/classify-my-seed0 --csv log.csv --follow --window 500
    """

    wav: Path | None = None
    """An audio file of any length (WAV, FLAC, OGG), which is never loaded as a whole."""
    stdin: bool = False
    """Or raw samples from a pipe: 16 bits, little-endian, channels interleaved."""
    csv: Path | None = None
    """Or rows of numbers, one for each step, from a CSV file; - reads them from a pipe."""
    sampling_rate: float | None = None
    """Samples per second of --stdin."""
    hop: float = 0.1
    """Seconds of sound from one output to the next."""
    every: int = 1
    """Rows of a CSV file from one output to the next."""
    window: float | None = None
    """Only the last seconds, or rows, instead of the whole past: a bidirectional model (the default of classify)
    needs a window and is run on it alone; a causal one takes its mean over it."""
    latency: float | None = None
    """Seconds of sound to process at once: by default a hop, 1 for a file. Less takes more time."""


def labels(run: TrainedRun, options: Options) -> Iterator[Row]:
    """A row for each output: when, the likeliest class, and the probability of each."""
    given = [name for name in ("wav", "stdin", "csv") if getattr(options, name)]
    if len(given) != 1:
        got = " and ".join(f"--{name}" for name in given) or "none"
        raise ValueError(f"{run.path}: expected one of --wav FILE, --stdin and --csv FILE, got {got}")
    check_distinct(wav=options.wav, csv=None if options.csv == PIPE else options.csv, out=options.out)
    check_follow(options, options.csv)
    inputs: dict[str, Any] = run.fact("inputs", dict)
    _check_inputs(run, inputs)
    model = run.load_best(options.device)
    return _of_rows(run, model, inputs, options) if options.csv is not None else _of_sound(run, model, inputs, options)


def _of_sound(run: TrainedRun, model: Any, inputs: dict[str, Any], options: Options) -> Iterator[Row]:
    rate, trained, channels = options.sampling_rate, inputs.get("sampling_rate"), model.config.input_size
    with contextlib.ExitStack() as stack:
        if options.wav is None:
            if rate is None:
                raise ValueError("--sampling-rate: expected the samples per second of --stdin, got none")
            live, size = _opened(run, model, trained, rate, options, options.hop)
            blocks = raw_blocks(sys.stdin.buffer, size, channels)
        else:
            if rate is not None:
                raise ValueError(f"--sampling-rate: requires --stdin; {options.wav} has its own")
            file = stack.enter_context(open_sound(options.wav))
            rate = file.samplerate
            live, size = _opened(run, model, trained, rate, options, BLOCK_SECONDS)
            blocks = file_blocks(file, str(options.wav), size, channels)
        for block in blocks:
            yield from _outputs(live, block, inputs, "time", rate)


def _opened(
    run: TrainedRun, model: Any, trained: float | None, rate: float, options: Options, latency: float
) -> tuple[Stream, int]:
    """A stream of sound of so many samples per second, and those of a block."""
    if not rate > 0:
        raise ValueError(f"--sampling-rate: expected samples per second, above 0, got {rate}")
    hop = steps(options.hop, rate, "--hop")
    window = None if options.window is None else steps(options.window, rate, "--window")
    size = steps(latency if options.latency is None else options.latency, rate, "--latency")
    if trained is not None and trained != rate:
        note(f"the model was trained at {trained:g} samples per second, and these are {rate:g}: dt is scaled")
    return _stream(run, model, hop, window, 1.0 if trained is None else trained / rate), size


def _of_rows(run: TrainedRun, model: Any, inputs: dict[str, Any], options: Options) -> Iterator[Row]:
    assert options.csv is not None
    if options.every < 1:
        raise ValueError(f"--every: expected a number of rows, at least 1, got {options.every}")
    if options.window is not None and options.window != int(options.window):
        raise ValueError(f"--window: expected a whole number of rows, got {options.window}")
    window = None if options.window is None else int(options.window)
    live = _stream(run, model, options.every, window, 1.0)
    columns, channels = inputs.get("columns"), model.config.input_size
    numbers = NumberReader(options.csv, options.follow, options.from_start, columns, channels)
    start = live.state
    with numbers.rows:
        for some in numbers:
            if some.is_new_file:
                live.state = start
            for k in range(0, len(some.values), TOGETHER):
                block = some.values[k : k + TOGETHER]
                if some.is_past:
                    live.skip(_prepared(block, inputs, live))
                else:
                    yield from _outputs(live, block, inputs, "row", 1)


def _stream(run: TrainedRun, model: Any, hop: int, window: int | None, rate: float) -> Stream:
    try:
        return stream(model, hop=hop, window=window, rate=rate)
    except ValueError as error:
        raise ValueError(f"{run.path}: {error}") from error


def _outputs(live: Stream, block: NDArray[Any], inputs: dict[str, Any], place: str, rate: float) -> Iterator[Row]:
    """Yield the outputs due after a block (steps, channels); `rate` is the number of steps per unit of the place."""
    first = live.steps // live.hop + 1
    for count, chances in enumerate(_probabilities(live.push(_prepared(block, inputs, live))), first):
        classes, steps = inputs["classes"], count * live.hop
        likeliest = classes[int(np.argmax(chances))]
        at = steps if place == "row" else round(steps / rate, 6)
        yield {place: at, "label": likeliest, "probabilities": dict(zip(classes, chances.tolist(), strict=True))}


def _prepared(block: NDArray[Any], inputs: dict[str, Any], live: Stream) -> Tensor:
    """Standardise a block (steps, channels) for a stream."""
    mean, deviation = (np.array(inputs[name], np.float64) for name in ("mean", "deviation"))
    return torch.from_numpy(((block - mean) / deviation).astype(np.float32)).unsqueeze(0).to(live.device)


def _probabilities(outputs: Tensor) -> NDArray[np.float64]:
    """(outputs, classes) of one sequence."""
    chances: NDArray[np.float64] = outputs[0].double().softmax(-1).cpu().numpy()
    if not np.isfinite(chances).all():
        raise ValueError("the model output is NaN or inf; the values are too far from those of training")
    return chances


def _check_inputs(run: TrainedRun, inputs: dict[str, Any]) -> None:
    """Refuse a run whose steps cannot be scaled one by one."""
    if inputs.get("by_position") or inputs.get("positions") or not inputs.get("mean"):
        raise ValueError(
            f"{run.path}: each step is normalised by the mean at its position, and a stream has no position; train "
            "a run with one mean and deviation for all steps"
        )
    if inputs.get("features", "raw") != "raw":
        raise ValueError(
            f"{run.path}: its steps are frames of {inputs['features']}, of whole clips; use a run on raw sound"
        )


ACTION = Action(
    Options,
    lambda run, options: written(labels(run, options), options),
    lambda run, **options: labels(run, Options(**options)),
)
