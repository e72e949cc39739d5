"""Regression as a person meets it: from a file to predictions and a report."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command import call
from trained import TINY, lines

import longwave
from longwave import runs
from longwave.experiments import EXPERIMENTS
from longwave.layers import S4Config
from longwave.runs import load_run
from longwave.tasks.regress.predict import regress
from longwave.tasks.sequences import data as sequences


@pytest.fixture
def printed(trained_runs):
    return trained_runs.fetch("regress")


def small_regression():
    settings = EXPERIMENTS["regress"]
    return replace(
        settings,
        model=replace(settings.model, d_model=4, n_layers=1, mixer=S4Config(d_state=4)),
        loop=replace(settings.loop, epochs=1),
    )


def test_custom_sequences_are_trained_scored_and_reported(printed, capsys):
    assert re.search(r"model +┃ +MSE ┃ +MAE LEVEL ┃ +RMSE LEVEL ┃ +MAE END ┃ +RMSE END ┃ +R2 ┃", printed)
    assert "ridge on summary" in printed
    result = json.loads(Path("run/result.json").read_text())
    assert result["test"]["mse"] < 0.5 * result["baselines"]["mean of training set"]["test"]["mse"]
    assert result["test"]["r2"] > 0.5
    assert call("evaluate", "run") == 0
    assert capsys.readouterr().out == "".join(f"test {k} {v:.6f}\n" for k, v in result["test"].items())
    page = Path("run/report.html").read_text()
    for title in ("Predicted against true", "Residuals", "Worst examples", "Learned kernels"):
        assert f"<h2>{title}</h2>" in page


def test_new_sequences_get_a_row_each(printed, capsys):
    new, _ = lines(20, seed=9)
    sequences.save_npz("new.npz", sequences.from_arrays(new))
    assert call("predict", "run", "--npz", "new.npz", "--out", "some/predictions.csv") == 0
    assert "20 rows: some/predictions.csv" in capsys.readouterr().out
    with open("some/predictions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    by_hand = regress(load_run(Path("run")), sequences.from_arrays(new)).values
    np.testing.assert_allclose([[float(row[name]) for name in ("level", "end")] for row in rows], by_hand, rtol=1e-6)
    assert call("predict", "run") == 2
    assert "run predicts numbers: expected --npz FILE or --csv FILE" in capsys.readouterr().err
    assert call("predict", "run", "--npz", "new.npz", "--out", "new.npz") == 2
    assert "--out: new.npz is also --npz; name another file" in capsys.readouterr().err


def test_several_columns_of_a_csv_file_are_predicted(capsys):
    x, y = lines(30)
    with open("my.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["yield", *(f"t{k}" for k in range(14)), "moisture"])
        for row, (first, second) in zip(x, y, strict=True):
            cells = [*(f"{v:.3f}" for v in row), *[""] * (14 - len(row))]
            writer.writerow([first, *cells, "" if np.isnan(second) else second])
    settings = ["--csv", "my.csv", "--target", "yield", "--target", "moisture", *TINY]
    assert call("train", "regress", *settings, "--out", "run") == 0
    assert "MAE MOISTURE" in capsys.readouterr().out
    assert call("predict", "run", "--csv", "my.csv") == 0
    head, *rows = Path("predictions.csv").read_text().splitlines()
    assert (head, len(rows)) == ("yield,moisture", 30)
    Path("new.csv").write_text("t0,t1\n1,2\n")
    assert call("predict", "run", "--csv", "new.csv") == 0  # without the columns that are to be predicted


def test_arrays_in_python_are_kept_with_the_run(monkeypatch):
    x, y = lines(30)
    finished = longwave.train_regressor(x, y, Path("run"), experiment=small_regression(), names=["a", "b"], quiet=True)
    assert regress(load_run(Path("run")), sequences.from_arrays(x)).targets == ("a", "b")
    Path("elsewhere").mkdir()
    Path("run").rename("elsewhere/moved")
    monkeypatch.chdir("elsewhere")
    assert runs.evaluate(Path("moved"), "test") == finished.result["test"]
    with pytest.raises(ValueError, match="expected an experiment of kind regress, got classify"):
        longwave.train_regressor(x, y, Path("other"), experiment=EXPERIMENTS["classify"])
    with pytest.raises(ValueError, match="names: expected one for each of 2 targets, got 1"):
        longwave.train_regressor(x, y, Path("other"), names=["a"])
    assert not Path("other").exists()


def test_data_that_changed_since_the_training_is_refused(printed, capsys):
    x, y = lines(60)
    changed = np.where(np.arange(60)[:, None] == 11, np.nan, y)
    for new_x, new_y in ((x, -y), ([row + 1 for row in x], y), (x, changed), (x[1:], y[1:])):
        given = sequences.from_arrays(new_x, new_y, target_kind="targets", names=["level", "end"])
        sequences.save_npz("lines.npz", given)
        for command in (["evaluate", "run"], ["train", "--resume=run"]):
            assert call(*command) == 2
            assert "the data is not what the run was trained on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ([], "regress: expected --npz FILE or --csv FILE, got neither"),
        (["--npz", "text.npz"], "text.npz: y: expected numbers, one or several per sequence, got <U1"),
        (["--npz", "inf.npz"], "inf.npz: y: sequence 2, target 1: expected a number, or NaN where it is not known"),
        (["--npz", "deep.npz"], "y: expected one number per sequence, (n,), or several, (n, targets), got shape"),
        (["--npz", "few.npz"], "y: expected one for each of 9 sequences, got 8"),
        (["--npz", "names.npz"], "names: expected distinct names, got a, a"),
        (["--csv", "bad.csv"], "target: no column 'target'"),
        (
            ["--csv", "bad.csv", "--target", "mass"],
            "line 2, column 'mass': expected a number such as 1234.5",
        ),
        (["--csv", "bad.csv", "--target", "mass", "--target", "mass"], "names: expected distinct names"),
        (["--npz", "good.npz", "--model.decoder", "sequence"], "decoder: this task needs mean or last, got sequence"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_written(arguments, hint, capsys):
    x, y = np.zeros((9, 4)), np.arange(18.0).reshape(9, 2)
    np.savez("good.npz", x=x, y=y)
    np.savez("text.npz", x=x, y=list("abcabcabc"))
    np.savez("inf.npz", x=x, y=np.where(y == 5, np.inf, y))
    np.savez("deep.npz", x=x, y=y[:, :, None])
    np.savez("few.npz", x=x, y=y[:8])
    np.savez("names.npz", x=x, y=y, names=["a", "a"])
    text = "heavy" if "--target" in arguments and arguments.count("--target") == 1 else "1"
    Path("bad.csv").write_text(f"mass,t0\n{text},1\n" + "2,3\n" * 9)
    assert call("train", "regress", *TINY, *arguments) == 2
    assert hint in re.sub(r"\s*│?\n│?\s*", " ", capsys.readouterr().err)
    assert not Path("runs").exists()
