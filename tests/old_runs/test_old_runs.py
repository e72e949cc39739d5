"""Runs of longwave 0.1.0, with config.json in format 1: they are scored, used and resumed as when they were trained.

Beside each run stands what that version predicted or generated with it, and its data, unless the tests can make it.
Paths in config.json were made relative to the folder of the test.
"""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from command import call
from image_files import write_cifar10
from safetensors.torch import load_file
from text_files import write_wikitext2

from longwave import runs
from longwave.layers import MIXERS
from longwave.layers.attention import AttentionConfig
from longwave.train.folder import RunFolder

FOLDER = Path(__file__).parent
NAMES = sorted(path.name for path in FOLDER.iterdir() if (path / "run").is_dir())
CLOSE = 1e-5  # float32 on another machine


@pytest.fixture
def fetch(own_folder):
    """A function that copies a run and its data into the folder of the test."""

    def copy(name):
        shutil.copytree(FOLDER / name, own_folder, dirs_exist_ok=True)
        if name == "words":
            write_wikitext2(Path("data"))
        elif name == "resnet":
            write_cifar10(Path("data"), count=6)
        return Path("run")

    return copy


def rows(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def test_the_files_are_small_and_of_format_1():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 300_000
    for name in NAMES:
        for path in (FOLDER / name / "run" / "config.json", FOLDER / name / "run" / "best" / "config.json"):
            assert json.loads(path.read_text())["format"] == 1


@pytest.mark.parametrize("name", NAMES)
def test_an_old_run_is_scored_as_it_was(name, fetch):
    folder = fetch(name)
    expected = json.loads((folder / "result.json").read_text())
    for part in ("valid", "test"):
        assert runs.evaluate(folder, part) == pytest.approx(expected[part], rel=CLOSE)


def test_the_mixer_of_an_old_run_is_known_again(fetch):
    assert RunFolder.open(fetch("classify")).config.experiment.model.mixer == AttentionConfig(heads=2)
    assert RunFolder.open(fetch("words")).config.experiment.model.mixer == MIXERS["gru"]()


def test_an_old_run_forecasts_as_it_did(fetch):
    fetch("forecast")
    expected = rows("forecast.csv")
    assert call("predict", "run", "--csv", "series.csv", "--out", "new.csv") == 0
    found = rows("new.csv")
    assert found[0] == ["date", *expected[0][1:]]  # as in the series; the column was once called time
    assert [row[0] for row in found[1:]] == [row[0] for row in expected[1:]]
    np.testing.assert_allclose(
        *([[float(value) for value in row[1:]] for row in table[1:]] for table in (found, expected)), rtol=CLOSE
    )


def test_an_old_run_classifies_as_it_did(fetch):
    fetch("classify")
    expected = rows("labels.csv")
    assert call("predict", "run", "--npz", "run/data.npz", "--out", "new.csv") == 0
    found = rows("new.csv")
    assert [row[0] for row in found] == [row[0] for row in expected]
    np.testing.assert_allclose(
        *([[float(value) for value in row[1:]] for row in table[1:]] for table in (found, expected)), rtol=CLOSE
    )


@pytest.mark.parametrize(("name", "prompt", "length"), [("text", "the ", "40"), ("words", "the sea", "8")])
def test_an_old_run_generates_as_it_did(name, prompt, length, fetch, capsys):
    """Words with a space before each, as all were shown then."""
    fetch(name)
    assert call("generate", "run", "--prompt", prompt, "--length", length, "--seed", "1", "--tokenised") == 0
    assert capsys.readouterr().out == Path("generated.txt").read_text(encoding="utf-8")


@pytest.mark.usefixtures("_pages_are_not_rendered")
def test_an_old_run_goes_on_from_its_checkpoint_to_the_weights_that_it_ended_with(fetch):
    """The checkpoint is that of the validation before the last."""
    folder = fetch("forecast")
    expected = load_file(folder / "best" / "model.safetensors")
    result = json.loads((folder / "result.json").read_text())
    lines = len((folder / "metrics.jsonl").read_text().splitlines())
    finished = runs.resume(folder, quiet=True)
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == lines
    assert finished.result["best_step"] == result["best_step"]
    assert finished.result["test"] == pytest.approx(result["test"], rel=1e-4)
    for name, values in load_file(folder / "best" / "model.safetensors").items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=1e-5)
