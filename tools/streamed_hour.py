"""Stream an hour of sound that is made of the test clips of a run: its speed, its memory and its exactness.

    python tools/streamed_hour.py runs/fsdd-seed0
    python tools/streamed_hour.py runs/fsdd-seed0 --window 0.5 --seconds 600

Clips in a random order, with silence between them, become one file, which goes through `longwave stream`. Its first
part goes through a forward pass as a whole, too, and the probabilities of both are compared. What is said right after
the end of each clip is scored against its label. Time is that of the processor; OMP_NUM_THREADS=1 keeps it to one core.
"""

import argparse
import contextlib
import io
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from longwave.bench.measure import can_measure_memory, resident_bytes
from longwave.core.random import shuffled
from longwave.tasks.audio.clips import ClipTask
from longwave.tasks.classify.stream import Options, labels
from longwave.train.folder import RunFolder

LOOKS = 6  # at the memory, beside that at the beginning


def write_sound(task: ClipTask, path: Path, seconds: float, pause: float) -> list[tuple[float, str]]:
    """Join test clips, as many as are needed, to a file; when each ends, in seconds, and its label."""
    test, rate = task.test, task.inputs.sampling_rate
    silence = np.zeros((round(pause * rate), test.clips.channels), np.float32)
    ends: list[tuple[float, str]] = []
    with soundfile.SoundFile(path, "w", rate, test.clips.channels, "FLOAT") as file:
        while file.tell() < seconds * rate:
            file.write(silence)
            for k in shuffled(len(test), len(ends)).tolist():
                file.write(test.clips.clip(int(test.rows[k])))
                ends.append((file.tell() / rate, task.inputs.classes[test.labels[k]]))
                file.write(silence)
                if file.tell() >= seconds * rate:
                    break
    return ends


def streamed(run: RunFolder, options: Options, length: float) -> dict[str, Any]:
    """Times, labels and probabilities of all outputs, the processor's seconds, and the memory as sound goes by."""
    start, rows, memory = time.process_time(), [], []
    looks = [length * k / LOOKS for k in range(1, LOOKS + 1)]
    for row in labels(run, options):
        rows.append((row["time"], row["label"], list(row["probabilities"].values())))
        if can_measure_memory() and (not memory or row["time"] + options.hop >= looks[len(memory) - 1]):
            memory.append((row["time"], resident_bytes()))
    times, words, chances = zip(*rows, strict=True)
    seconds = time.process_time() - start
    return {"times": times, "labels": words, "chances": np.array(chances), "seconds": seconds, "memory": memory}


@torch.no_grad()
def whole(run: RunFolder, task: ClipTask, path: Path, seconds: float, hop: float, window: float | None) -> Any:
    """The probabilities (outputs, classes) of one forward pass over the first seconds of a file."""
    rate, model, seen = task.inputs.sampling_rate, run.load_best("cpu"), []
    samples, _ = soundfile.read(path, frames=round(seconds * rate), dtype="float32", always_2d=True)
    hook = model.decoder.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    model(torch.from_numpy(task.test.scale(samples)).unsqueeze(0))
    hook.remove()
    sums = torch.nn.functional.pad(seen[0][0].double().cumsum(0), (0, 0, 1, 0))
    ends = torch.arange(round(hop * rate), len(samples) + 1, round(hop * rate))
    starts = torch.zeros_like(ends) if window is None else (ends - round(window * rate)).clamp(min=0)
    means = (sums[ends] - sums[starts]) / (ends - starts).unsqueeze(1)
    linear = model.decoder.linear.double()
    return linear(means).softmax(-1).numpy()


def share_of_clips(found: dict[str, Any], ends: list[tuple[float, str]]) -> float:
    """The share of clips whose label is that of the first output after their end."""
    at = np.searchsorted(found["times"], [end for end, _ in ends])
    said = [found["labels"][k] == label for k, (_, label) in zip(at, ends, strict=True) if k < len(found["labels"])]
    return float(np.mean(said))


def main(arguments: list[str] | None = None) -> None:
    """Print what was found, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run on audio that can stream")
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets")
    parser.add_argument("--seconds", type=float, default=3600, help="of sound, at least")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds of silence between clips")
    parser.add_argument("--hop", type=float, default=0.1, help="seconds from one output to the next")
    parser.add_argument("--window", type=float, help="the mean over the last so many seconds")
    parser.add_argument("--whole", type=float, default=60, help="seconds that also go through a forward pass at once")
    options = parser.parse_args(arguments)
    run = RunFolder.open(options.run)
    task = run.build_task(options.data_dir)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hour.wav"
        ends = write_sound(task, path, options.seconds, options.pause)
        length = soundfile.info(path).duration
        settings = Options(wav=path, hop=options.hop, window=options.window, device="cpu")
        with contextlib.redirect_stderr(io.StringIO()):
            found = streamed(run, settings, length)
        expected = whole(run, task, path, min(options.whole, length), options.hop, options.window)
    print(
        json.dumps(
            {
                "sound, seconds": round(length, 3),
                "clips": len(ends),
                "processor seconds": round(found["seconds"], 3),
                "real-time factor": round(found["seconds"] / length, 4),
                "memory, MB": {f"{at:.0f} s": round(size / 1e6, 1) for at, size in found["memory"]},
                "outputs compared with one forward pass": len(expected),
                "largest difference of a probability": float(
                    np.abs(found["chances"][: len(expected)] - expected).max()
                ),
                "right after the end of a clip": round(share_of_clips(found, ends), 4),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
