"""A U-Net on colour images from end to end: train, stop and resume, score, report, draw and complete."""

import dataclasses
import json
import signal
from pathlib import Path

import numpy as np
import pytest
from command import call
from image_files import write_cifar10
from trained import FAST, TINY

from longwave.models import UNet
from longwave.runs import load_run
from longwave.tasks.density import task as density
from longwave.tasks.density.generate import complete_images
from longwave.tasks.images.data import read_cifar10
from longwave.train.loop import Run

HEIGHT, WIDTH = 4, 4  # 48 values an image, four groups of the 12 that the centre sees as one step
LOOP = ("--loop.epochs", "2", "--loop.batch-size", "4", "--loop.validations", "1")  # ten steps
TRAIN = ("train", "cifar-density-small", *TINY, "--model.poolings", "3", "4", *FAST, *LOOP)


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard():
    """A shell that runs the tests in the background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _few_pixels(monkeypatch):
    """Files in the published format, of whose images a corner is used: 3,072 steps an image would take seconds each."""

    def corner(path):
        return tuple((pixels[:, :HEIGHT, :WIDTH], labels) for pixels, labels in read_cifar10(path))

    monkeypatch.setitem(density.SETS, "cifar", dataclasses.replace(density.SETS["cifar"], read=corner))
    write_cifar10(Path("data"), count=4)


def test_colour_images_are_trained_resumed_scored_reported_drawn_and_completed(monkeypatch, capsys):
    assert call(*TRAIN, "--out", "whole") == 0
    shown = capsys.readouterr().out
    assert "S4 U-Net (this run)" in shown
    assert "BITS PER DIM" in shown

    step = Run.step

    def struck(self, *arguments):
        if self.position.step == 6:  # after a validation, in the second epoch
            signal.raise_signal(signal.SIGINT)
        return step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "step", struck)
        assert call(*TRAIN, "--out", "run") == 130
    assert call("train", "--resume", "run", "--quiet") == 0
    same = [Path(name, "best", "model.safetensors").read_bytes() for name in ("run", "whole")]
    assert same[0] == same[1]  # to the bit, the average of the weights included

    result = json.loads(Path("run/result.json").read_text())
    assert result["test"]["bits_per_dim"] < result["baselines"]["uniform"]["test"]["bits_per_dim"] == 8
    capsys.readouterr()
    assert call("evaluate", "run") == 0
    assert capsys.readouterr().out == "".join(f"test {name} {value:.6f}\n" for name, value in result["test"].items())

    page = Path("run/report.html").read_text(encoding="utf-8")
    for text in ("<h2>Samples</h2>", 'alt="completed test images"', "summed over its colours"):
        assert text in page

    settings = UNet.from_pretrained("run").config
    assert (settings.vocabulary, settings.output_size, settings.length) == (769, 256, 3 * HEIGHT * WIDTH)
    for options, out in ((["--count", "2"], "samples.png"), (["--complete", "--images", "3", "1"], "completions.png")):
        assert call("generate", "run", "--seed", "0", *options) == 0
        assert capsys.readouterr().out == f"picture: {out}\n"
        assert Path(out).read_bytes().startswith(b"\x89PNG")

    originals, made = complete_images(load_run("run"), [3, 1], 2, seed=0)
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    for image, label in zip(originals, (8, 6), strict=True):  # the sixth file: red is the row, green the column
        np.testing.assert_array_equal(image, np.stack([rows, columns, np.full_like(rows, 10 * label)], axis=-1))
    assert (made.shape, made.dtype) == ((2, 2, HEIGHT, WIDTH, 3), np.uint8)
    np.testing.assert_array_equal(made[:, :, :2], np.repeat(originals[:, None, :2], 2, axis=1))
    assert (made[:, 0, 2:] != made[:, 1, 2:]).any()
