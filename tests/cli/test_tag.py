"""Tagging as a person meets it: from a file to a label at each step, and a report."""

import csv
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command import call
from trained import TINY, switches

import longwave
from longwave import runs
from longwave.experiments import EXPERIMENTS
from longwave.layers import S4Config
from longwave.runs import load_run
from longwave.tasks.sequences import data as sequences
from longwave.tasks.tag.predict import tag


@pytest.fixture
def printed(trained_runs):
    return trained_runs.fetch("tag")


def read_rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def write_steps(path, columns=("level", "noise"), count=30):
    """A row for each step, two channels, with the sequences' names in the column `trip`."""
    x, y = switches(count)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["trip", "mode", *columns])
        for k, (row, tags) in enumerate(zip(x, y, strict=True)):
            for step, (value, label) in enumerate(zip(row, tags, strict=True)):
                cells = {"level": f"{value:.4f}", "noise": step % 3, "comment": "fine"}
                writer.writerow([f"trip {k}", label, *(cells[name] for name in columns)])
    return x, y


def test_custom_sequences_are_trained_scored_and_reported(printed, capsys):
    assert re.search(r"model +┃ ACCURACY ┃ +LOSS ┃ MACRO F1 ┃", printed)
    assert re.search(r"ridge on 9 steps +│ +\d\.\d{4} │ +- │", printed)
    result = json.loads(Path("run/result.json").read_text())
    assert result["test"]["accuracy"] > result["baselines"]["class prior"]["test"]["accuracy"] + 0.2
    assert result["test"]["loss"] < result["baselines"]["class prior"]["test"]["loss"]
    assert call("evaluate", "run") == 0
    assert capsys.readouterr().out == "".join(f"test {k} {v:.6f}\n" for k, v in result["test"].items())
    page = Path("run/report.html").read_text()
    for title in ("Confusion matrix", "Precision and recall", "Tagged sequences", "Learned kernels"):
        assert f"<h2>{title}</h2>" in page


def test_new_sequences_get_a_row_for_each_step(printed, capsys):
    new, _ = switches(5, seed=9)
    sequences.save_npz("new.npz", sequences.from_arrays(new))
    assert call("predict", "run", "--npz", "new.npz", "--out", "some/tags.csv") == 0
    assert f"{sum(map(len, new))} rows: some/tags.csv" in capsys.readouterr().out
    rows = read_rows("some/tags.csv")
    labels = tag(load_run(Path("run")), sequences.from_arrays(new)).labels
    assert [row["label"] for row in rows] == list(itertools.chain(*labels))
    assert [(row["sequence"], row["step"]) for row in rows[:2]] == [("0", "0"), ("0", "1")]
    assert call("predict", "run") == 2
    assert "run tags: expected --npz FILE or --csv FILE" in capsys.readouterr().err


def test_steps_go_from_csv_to_tags_and_channels_are_found_by_their_names(capsys):
    x, _ = write_steps("my.csv")
    settings = ["--csv", "my.csv", "--sequence", "trip", "--label", "mode", "--balance", *TINY]
    assert call("train", "tag", *settings, "--model.mixer.no-bidirectional", "--out", "run") == 0
    assert json.loads(Path("run/config.json").read_text())["task"]["inputs"]["columns"] == ["level", "noise"]
    assert call("predict", "run", "--csv", "my.csv", "--out", "first.csv") == 0
    write_steps("other.csv", columns=("noise", "comment", "level"))
    assert call("predict", "run", "--csv", "other.csv", "--out", "second.csv") == 0
    assert Path("first.csv").read_text() == Path("second.csv").read_text()
    rows = read_rows("first.csv")
    assert len(rows) == sum(map(len, x))
    assert rows[0]["sequence"] == "trip 0"
    write_steps("less.csv", columns=("level",))
    assert call("predict", "run", "--csv", "less.csv") == 2
    assert "channel: no column 'noise'" in capsys.readouterr().err


def test_arrays_in_python_are_kept_with_the_run(monkeypatch):
    settings = EXPERIMENTS["tag"]
    small = replace(
        settings,
        model=replace(settings.model, d_model=4, n_layers=1, mixer=S4Config(d_state=4)),
        loop=replace(settings.loop, epochs=1),
    )
    x, y = switches(30)
    finished = longwave.train_tagger(x, y, Path("run"), experiment=small, quiet=True)
    assert len(tag(load_run(Path("run")), sequences.from_arrays(x)).labels) == 30
    Path("elsewhere").mkdir()
    Path("run").rename("elsewhere/moved")
    monkeypatch.chdir("elsewhere")
    assert runs.evaluate(Path("moved"), "test") == finished.result["test"]
    with pytest.raises(ValueError, match="expected an experiment of kind tag, got classify"):
        longwave.train_tagger(x, y, Path("other"), experiment=EXPERIMENTS["classify"])
    assert not Path("other").exists()


def test_data_that_changed_since_the_training_is_refused(printed, capsys):
    x, y = switches(40)
    swapped = [np.where(tags == "up", "down", np.where(tags == "down", "up", "")) for tags in y]
    for new_x, new_y in ((x, swapped), ([row + 1 for row in x], y), (x[1:], y[1:])):
        sequences.save_npz("switches.npz", sequences.from_arrays(new_x, new_y, target_kind="tags"))
        for command in (["evaluate", "run"], ["train", "--resume=run"]):
            assert call(*command) == 2
            assert "the data is not what the run was trained on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ([], "tag: expected --npz FILE or --csv FILE, got neither"),
        (["--npz", "one.npz"], "one.npz: y: expected a label for each step of x, (n, length) = (9, 4), got shape (9,)"),
        (["--npz", "ragged.npz"], "y: expected a label for each step of x, (total,) = (8,), got shape (7,)"),
        (["--npz", "none.npz"], "none.npz: y: expected two or more classes, got none"),
        (["--csv", "bad.csv"], "sequence: no column 'sequence'"),
        (["--npz", "good.npz", "--model.decoder", "mean"], "decoder: this task needs sequence, got mean"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_written(arguments, hint, capsys):
    x, y = np.zeros((9, 4)), np.arange(36).reshape(9, 4) % 2
    np.savez("good.npz", x=x, y=y)
    np.savez("one.npz", x=x, y=y[:, 0])
    np.savez("none.npz", x=x, y=np.full((9, 4), -1))
    np.savez("ragged.npz", x=np.zeros(8), y=np.zeros(7), lengths=[4, 3, 1])
    Path("bad.csv").write_text("trip,label,t0\na,1,1\n")
    assert call("train", "tag", *TINY, *arguments) == 2
    assert hint in re.sub(r"\s*│?\n│?\s*", " ", capsys.readouterr().err)
    assert not Path("runs").exists()
