"""Tones of four pitches: the commands that the example names, on few of them, with a small model."""

import importlib.util
import re
import shlex

import numpy as np
import pytest
from command import call
from dense import ROOT

PATH = ROOT / "examples" / "tones.py"
SMALL = ["--model.d-model", "4", "--model.n-layers", "1", "--model.mixer.d-state", "4", "--loop.epochs", "1", "--quiet"]


@pytest.fixture
def tones():
    spec = importlib.util.spec_from_file_location("tones", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("own_folder", "_few_features")
def test_the_commands_of_the_example_run(tones, capsys):
    x, y = tones.make(40, 32)
    np.savez("tones.npz", x=x, y=y)
    train, evaluate = re.findall(r"^    longwave (.*)$", tones.__doc__, re.M)
    assert call(*shlex.split(train), *SMALL) == 0
    assert call(*shlex.split(evaluate)) == 0
    assert re.findall(r"│ +([\d.]+) │", capsys.readouterr().out)[-1]


def test_each_class_has_its_pitch(tones):
    x, y = tones.make(400)
    spectrum = np.abs(np.fft.rfft(x, axis=1))
    for label, pitch in tones.PITCHES.items():
        peak = spectrum[y == label].mean(0).argmax() * 100 / x.shape[1]
        assert peak == pytest.approx(pitch, rel=0.12)
