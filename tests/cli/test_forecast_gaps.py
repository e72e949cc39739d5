"""A custom series with gaps, as a person meets it: from CSV to scores, forecast and report."""

import csv
import json
import re
from pathlib import Path

import pytest
from command import call
from trained import ABSENT_ROWS, CONTEXT, EMPTY_CELLS, HORIZON, RECIPES, ROWS, write_gaps, write_series

from longwave.tasks.forecast.baselines import BASELINES
from longwave.train.folder import RunFolder

TRAIN = ("train", *RECIPES["gaps"].arguments)


@pytest.fixture
def printed(trained_runs):
    return trained_runs.fetch("gaps")


def test_a_series_with_gaps_is_trained_and_scored_and_the_gaps_are_said(printed, capsys):
    missing = len(EMPTY_CELLS) + len(ABSENT_ROWS)
    assert all(baseline in printed for baseline in BASELINES)
    folder = RunFolder.open("run")
    assert folder.config.task["notes"][0].startswith(f"{missing} of {ROWS} values are missing; models see the last")
    assert f"{missing} of {ROWS} values are missing" in Path("run/report.html").read_text()
    assert folder.build_task().data.series.known.sum() == ROWS - missing
    result = json.loads(Path("run/result.json").read_text())
    for part in ("valid", "test"):
        assert call("evaluate", "run", "--split", part) == 0
        assert f"{part} mse {result[part]['mse']:.6f}" in capsys.readouterr().out


def test_a_run_on_gaps_goes_on_and_knows_its_gaps_again(printed, capsys):
    before = Path("run/best/model.safetensors").read_bytes()
    assert call("train", "--resume", "run") == 0
    assert Path("run/best/model.safetensors").read_bytes() == before
    write_gaps(cells=EMPTY_CELLS[:-1])
    assert call("evaluate", "run") == 2
    assert "the data is not what the run was trained on; digest" in capsys.readouterr().err


def test_a_run_on_gaps_forecasts_with_a_note(printed, capsys):
    assert call("predict", "run", "--csv", "series.csv", "--out", "new.csv", "--picture", "new.png") == 0
    assert f"note: 2 of the {CONTEXT} values of the context are missing\n" in capsys.readouterr().out
    with open("new.csv", newline="") as file:
        _, *rows = csv.reader(file)
    assert len(rows) == HORIZON
    write_gaps(cells=range(ROWS - CONTEXT, ROWS))
    assert call("predict", "run", "--csv", "series.csv") == 2
    shown = capsys.readouterr().err
    assert f"column 'price': no known value in its last {CONTEXT} rows" in shown
    assert not Path("forecast.csv").exists()


def test_the_help_says_both_ways_to_fill(capsys):
    assert call("train", "forecast", "--help") == 0
    text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    assert "--fill {None,linear,mask}" in text
    assert "linear interpolates, mask keeps the gaps" in text


def test_without_gaps_a_masked_run_is_the_plain_run_to_the_bit():
    write_series()
    assert call(*TRAIN, "--out", "masked") == 0
    assert call("train", *RECIPES["forecast"].arguments, "--out", "plain") == 0
    weights = [Path(name, "best", "model.safetensors").read_bytes() for name in ("masked", "plain")]
    assert weights[0] == weights[1]
    results = [json.loads(Path(name, "result.json").read_text()) for name in ("masked", "plain")]
    for part in ("valid", "test", "baselines"):
        assert results[0][part] == results[1][part]
