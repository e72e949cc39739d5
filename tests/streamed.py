"""What tests of `longwave stream` share: what it is to give, and others who write to the file that it follows."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
import torch

from longwave import load_model
from longwave.train.folder import RunFolder


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def expected(run, x, ends, window=None):
    """The probabilities after so many steps of x, by forward passes of their own."""
    inputs = RunFolder.open(run).config.task["inputs"]
    model = load_model(run / "best").eval()
    z = torch.from_numpy(((x - inputs["mean"]) / inputs["deviation"]).astype(np.float32)).unsqueeze(0)
    seen = []
    model.decoder.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    with torch.no_grad():
        model(z)
        means = [seen[0][:, 0 if window is None else max(0, end - window) : end].mean(1) for end in ends]
        return [model.decoder.linear(mean)[0].softmax(-1).tolist() for mean in means]


def check_probabilities(rows, truth):
    """To 1e-4: single precision, and six digits in the file."""
    assert len(rows) == len(truth)
    for row, chances in zip(rows, truth, strict=True):
        found = [float(row["p_falling"]), float(row["p_rising"])]
        assert found == pytest.approx(chances, abs=1e-4)
        assert row["label"] == ("falling" if found[0] > found[1] else "rising")


class Writers:
    """What others do to a file while it is followed: one thing at each wait for more of it, and Ctrl-C in the end.

    So nothing depends on the clock.
    """

    def __init__(self, *actions):
        self.actions = iter(actions)

    def __call__(self):
        action = next(self.actions, None)
        if action is None:
            raise KeyboardInterrupt
        action()


def append(text, path="grow.csv"):
    """Add to a file."""

    def write():
        with open(path, "a") as file:
            file.write(text)

    return write


def rotate(text, path="grow.csv"):
    """Put another file in the place of one, as loggers do."""

    def write():
        Path(path).rename(f"{path}.1")
        Path(path).write_text(text)

    return write


def truncate(text, path="grow.csv"):
    """Write a file anew."""
    return lambda: Path(path).write_text(text)


def rotate_slowly(text, path="grow.csv"):
    """The same, with a while between where there is no file."""
    return [lambda: Path(path).rename(f"{path}.1"), lambda: None, truncate(text, path)]
