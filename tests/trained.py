"""Tiny trained runs of every kind, each trained once for all tests that look at it."""

import contextlib
import csv
import io
import math
import os
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from audio_files import write_clips, write_tones
from command import call
from filelock import FileLock
from image_files import write_mnist
from pair_files import write_aan
from text_files import write_wikitext2
from token_files import write_reviews

from longwave.io.download import making
from longwave.tasks.sequences import data as sequences

TINY = ("--model.d-model", "8", "--model.n-layers", "1", "--model.mixer.d-state", "4", "--loop.epochs", "1", "--quiet")
START, ROWS, HORIZON, CONTEXT = datetime(2024, 1, 1), 150, 4, 24
EMPTY_CELLS, ABSENT_ROWS = (3, 50, 51, 52, 130, ROWS - 2), (20, 21, 90)  # of the series with gaps
KINDS = ("falling", "rising")


def write_series() -> None:
    """series.csv: hourly prices with a daily period."""
    with open("series.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["date", "price"])
        for k in range(ROWS):
            writer.writerow([START + timedelta(hours=k), f"{math.sin(k / 12 * math.pi) + 0.01 * k:.4f}"])


def write_gaps(cells=EMPTY_CELLS, rows=ABSENT_ROWS) -> None:
    """series.csv with some cells empty and some rows left out."""
    write_series()
    head, *lines = Path("series.csv").read_text().splitlines()
    kept = [f"{line.split(',')[0]}," if k in cells else line for k, line in enumerate(lines) if k not in rows]
    Path("series.csv").write_text("\n".join([head, *kept]) + "\n")


def slopes(count, channels=1, seed=0):
    """Noisy lines of unequal length, and whether they rise."""
    generator = np.random.default_rng(seed)
    labels = [KINDS[k % 2] for k in range(count)]
    x = []
    for label in labels:
        length = int(generator.integers(8, 15))
        line = np.linspace(-1, 1, length) * (1 if label == "rising" else -1) + 5
        x.append(line[:, None] + 0.1 * generator.standard_normal((length, channels)))
    return x, labels


def write_slopes() -> None:
    """my.npz: lines that rise or fall."""
    sequences.save_npz("my.npz", sequences.from_arrays(*slopes(40)))


def lines(count, seed=0):
    """Noisy lines of unequal length, and their height in the middle and at the end; some of these are not known."""
    generator = np.random.default_rng(seed)
    x, y = [], []
    for k in range(count):
        length = int(generator.integers(8, 15))
        level, rise = generator.standard_normal(2)
        x.append(level + rise * np.linspace(-1, 1, length) + 0.02 * generator.standard_normal(length))
        y.append([100 + 10 * level, np.nan if k % 5 == 0 else (level + rise) / 1000])
    return x, np.array(y)


def write_lines() -> None:
    """lines.npz: lines with two numbers each."""
    x, y = lines(60)
    given = sequences.from_arrays(x, y, target_kind="targets", names=["level", "end"])
    sequences.save_npz("lines.npz", given)


def switches(count, seed=0):
    """Noisy sequences of unequal length that are up or down for some steps each; some steps have no label."""
    generator = np.random.default_rng(seed)
    x, y = [], []
    for _ in range(count):
        length = int(generator.integers(12, 25))
        is_up = (np.arange(length) + int(generator.integers(10))) // 5 % 2 == 1
        x.append(np.where(is_up, 3.0, 1.0) + 0.5 * generator.standard_normal(length))
        y.append(np.where(np.arange(length) % 7 == 3, "", np.where(is_up, "up", "down")))
    return x, y


def write_switches() -> None:
    """switches.npz: sequences with a label at most of their steps."""
    sequences.save_npz("switches.npz", sequences.from_arrays(*switches(40), target_kind="tags"))


def write_sweep() -> None:
    """my.npz, and the sweep `swept` of two runs on it."""
    write_slopes()
    rates = ("--set", "optim.lr", "0.001,0.01")
    assert call("sweep", "classify", "--npz", "my.npz", *CAUSAL, *TINY, *rates, "--out", "swept") == 0


def write_made() -> None:
    """Small sets that can be made; Path-X, which takes longer, apart."""
    for name, count in {"listops": 120, "retrieval-synthetic": 40, "pathfinder": 40}.items():
        making.make(name, Path("data"), count)


class Recipe(NamedTuple):
    """How to come to a run."""

    write_data: Callable[[], object]  # in the folder at hand; data sets go to its folder `data`
    arguments: tuple[str, ...]  # of longwave train; nothing is trained without


CAUSAL = ("--model.kind", "SequenceModel", "--model.mixer.no-bidirectional")
FAST = ("--optim.lr", "0.03", "--optim.warmup", "0")
SERIES = ("--csv", "series.csv", "--target", "price", "--time", "date")
FORECAST = ("forecast", *SERIES, "--horizon", str(HORIZON), "--context", str(CONTEXT), "--loop.batch-size", "32", *TINY)
RECIPES = {
    "forecast": Recipe(write_series, FORECAST),
    "gaps": Recipe(write_gaps, (*FORECAST, "--fill", "mask")),
    "classify": Recipe(
        write_slopes,
        ("classify", "--npz", "my.npz", *TINY, "--loop.epochs", "6", "--loop.batch-size", "8", *FAST),
    ),
    "regress": Recipe(
        write_lines,
        ("regress", "--npz", "lines.npz", *TINY, "--loop.epochs", "10", "--loop.batch-size", "8", *FAST),
    ),
    "causal": Recipe(
        write_slopes,
        ("classify", "--npz", "my.npz", *CAUSAL, *TINY, "--loop.epochs", "8", *FAST),
    ),
    "tag": Recipe(
        write_switches,
        ("tag", "--npz", "switches.npz", *TINY, "--loop.epochs", "6", "--loop.batch-size", "8", *FAST),
    ),
    "causal tags": Recipe(
        write_switches,
        ("tag", "--npz", "switches.npz", "--model.mixer.no-bidirectional", *TINY),
    ),
    "audio": Recipe(
        lambda: write_clips(Path("clips"), 45),
        ("audio", "--folder", "clips", *TINY, "--loop.epochs", "12", "--loop.batch-size", "8", *FAST),
    ),
    "images": Recipe(
        lambda: write_mnist(Path("data"), train=30, test=10),
        ("pmnist-small", *TINY, "--task.augment", "--model.norm", "layer"),
    ),
    "text": Recipe(
        lambda: Path("my.txt").write_text("abc abd abe. " * 200), ("text", "--file", "my.txt", "--length", "32", *TINY)
    ),
    "tokens": Recipe(
        lambda: write_reviews(Path("data")),
        ("lra-text-small", *TINY, "--loop.epochs", "3", "--task.length", "60", "--task.min-count", "2", *FAST),
    ),
    "pairs": Recipe(
        lambda: write_aan(Path("data")),
        ("lra-retrieval-small", *TINY, "--loop.epochs", "3", "--loop.batch-size", "8", "--task.length", "60", *FAST),
    ),
    "words": Recipe(
        lambda: write_wikitext2(Path("data")),
        ("wikitext2-adaptive-small", "--model.cutoffs", "9", "--task.length", "8", "--task.rows", "2", *TINY),
    ),
    "waveform": Recipe(
        lambda: write_tones(Path("music")),
        ("waveform", "--folder", "music", "--length", "96", *TINY, "--loop.epochs", "2", *FAST),
    ),
    "sweep": Recipe(write_sweep, ("classify", "--npz", "my.npz", *CAUSAL, *TINY)),
    "made": Recipe(write_made, ()),
    "made images": Recipe(lambda: making.make("pathx", Path("data"), 30), ()),
    "density": Recipe(lambda: write_mnist(Path("data"), train=10, test=8), ("mnist-density-small", *TINY)),
}


class TrainedRuns:
    """Runs in a folder of their own, copied into that of a test: a test may do with its copy what it likes."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def fetch(self, name: str) -> str:
        """Put the run `run` and its data into the folder at hand; what was printed when it was trained."""
        home, here, printed = self.base / name, Path.cwd(), self.base / f"{name}.txt"
        with FileLock(self.base / f"{name}.lock"):  # trained once, whatever the number of test processes
            if not printed.exists():
                shutil.rmtree(home, ignore_errors=True)  # what a failure left
                printed.write_text(self._train(RECIPES[name], home))
        shutil.copytree(home, here, dirs_exist_ok=True)
        config = here / "run" / "config.json"
        if config.exists():
            config.write_text(config.read_text().replace(str(home), str(here)))
        return printed.read_text()

    def _train(self, recipe: Recipe, home: Path) -> str:
        home.mkdir()
        before = os.environ.get("LONGWAVE_DATA")
        with contextlib.chdir(home), contextlib.redirect_stdout(io.StringIO()) as out:
            os.environ["LONGWAVE_DATA"] = str(home / "data")
            try:
                recipe.write_data()
                code = call("train", *recipe.arguments, "--out", "run") if recipe.arguments else 0
            finally:
                os.environ.pop("LONGWAVE_DATA")
                if before is not None:
                    os.environ["LONGWAVE_DATA"] = before
        assert code == 0
        return out.getvalue()
