"""Intervals of a trained run: the commands and Python agree, and point forecasts stay as they are."""

import csv
import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from command import call
from folder_hub import FolderHub
from trained import CONTEXT, HORIZON, ROWS, START

import longwave
from longwave.publish import push_to_hub
from longwave.tasks.forecast import intervals
from longwave.tasks.forecast.predict import Forecasts
from longwave.tasks.forecast.series import read_series

NAMES = ["price-lo-80", "price-hi-80", "price-lo-95", "price-hi-95"]


@pytest.fixture(autouse=True)
def run(own_folder, trained_runs):
    trained_runs.fetch("forecast")
    return longwave.open("run")


def predicted(*arguments):
    assert call("predict", "run", "--csv", "series.csv", "--out", "f.csv", *arguments) == 0
    with open("f.csv", newline="") as file:
        return list(csv.DictReader(file))


def add_rows(count):
    """Go on with the series, further and further from its course."""
    with open("series.csv", "a") as file:
        for k in range(ROWS, ROWS + count):
            file.write(f"{START + timedelta(hours=k)},{np.sin(k / 12 * np.pi) + 0.01 * k + (k % 7):.4f}\n")


def test_columns_follow_the_point_forecasts_which_do_not_change_by_a_bit(run):
    plain, found = predicted(), predicted("--level", "95", "80")
    assert list(found[0]) == ["date", "price", *NAMES]
    assert [row["price"] for row in found] == [row["price"] for row in plain]
    for row in found:
        low_80, high_80, low_95, high_95 = (float(row[name]) for name in NAMES)
        assert low_95 <= low_80 <= float(row["price"]) <= high_80 <= high_95
    in_python = run.predict("series.csv", level=[80, 95])
    np.testing.assert_array_equal(in_python.values, run.predict("series.csv").values)
    assert f"{in_python.intervals[1].low[0, 0]:.12g}" == found[0]["price-lo-95"]


def test_pooled_steps_are_noted_and_too_few_errors_are_refused(run, capsys):
    held_out = np.load("run/residuals.npz")["residuals"]
    needed = len(held_out) + 1
    level = 100 * needed / (needed + 1)
    predicted("--level", f"{level:.6f}")
    assert "pools the errors of neighbouring steps" in capsys.readouterr().out
    assert call("predict", "run", "--csv", "series.csv", "--level", "50", "99.99") == 2
    error = capsys.readouterr().err
    assert (
        f"level: 99.99 needs the errors of at least 9999 forecasts, and of 'price' there are {held_out.size}" in error
    )


@pytest.mark.parametrize("level", [["0"], ["80", "80"], ["100"], ["nan"], ["much"]])
def test_bad_levels_are_refused(level):
    assert call("predict", "run", "--csv", "series.csv", "--level", *level) == 2
    assert call("train", "forecast", "--csv", "series.csv", "--horizon", "4", "--level", *level) == 2


def test_errors_in_new_rows_count_once_they_are_later_than_the_held_out_ones(run):
    def trailing():
        forecasts = Forecasts(run.run, "cpu", [80])
        series = read_series("series.csv", **vars(forecasts.reading))
        model = run.model
        call = intervals.forecasts_of(model, forecasts.settings.independent, HORIZON)
        return forecasts.intervals.trailing(series, call)

    assert len(trailing()) == 0  # the rows of training, validation and test: their errors are in the file
    before = run.predict("series.csv", level=80).intervals[0]
    add_rows(60)
    after = run.predict("series.csv", level=80).intervals[0]
    assert len(trailing()) == 60
    assert (after.high - after.low).mean() > 2 * (before.high - before.low).mean()
    lines = Path("series.csv").read_text().splitlines()
    Path("series.csv").write_text("\n".join([lines[0], *lines[-(CONTEXT + HORIZON + 5) :]]) + "\n")
    assert len(trailing()) == 6


def test_every_run_scores_its_intervals_beside_those_of_nlinear(trained_runs):
    found = json.loads(Path("run/result.json").read_text())["intervals"]
    assert (found["split"], set(found)) == ("test", {"split", "this run", "nlinear"})
    for levels in (found["this run"], found["nlinear"]):
        assert set(levels) == {"80", "95"}
        assert levels["80"]["width"] < levels["95"]["width"]
        assert all(0 <= of["coverage"] <= 1 and of["pinball"] > 0 for of in levels.values())
    assert "this run  │  80 % │" in trained_runs.fetch("forecast")
    assert "pinball loss" in Path("run/report.html").read_text()


def test_a_run_without_errors_names_the_command_that_adds_them(run, capsys):
    expected = predicted("--level", "80")
    result, stored = json.loads(Path("run/result.json").read_text()), Path("run/residuals.npz").read_bytes()
    for name in ("files", "intervals"):
        result.pop(name)
    Path("run/result.json").write_text(json.dumps(result))
    Path("run/residuals.npz").unlink()
    capsys.readouterr()
    assert call("predict", "run", "--csv", "series.csv", "--level", "80") == 2
    assert "add them with:\n  longwave evaluate run --residuals\n" in capsys.readouterr().err
    assert call("evaluate", "run", "--residuals") == 0
    assert Path("run/residuals.npz").read_bytes() == stored
    assert predicted("--level", "80") == expected


def test_a_kind_without_intervals_refuses_to_store_errors(trained_runs, capsys):
    trained_runs.fetch("text")
    assert call("evaluate", "run", "--residuals") == 2
    assert "residuals: a run of kind text has no intervals" in capsys.readouterr().err


def test_a_published_run_keeps_its_intervals(run, tmp_path):
    expected = run.predict("series.csv", level=[80]).intervals[0]
    push_to_hub("run", "me/prices", client=FolderHub(tmp_path / "hub"))
    found = longwave.open(tmp_path / "hub" / "me" / "prices").predict("series.csv", level=[80]).intervals[0]
    np.testing.assert_array_equal(found.low, expected.low)


def test_a_stream_has_intervals_from_held_out_windows(run):
    plain = list(run.stream(csv=Path("series.csv"), every=25))
    rows = list(run.stream(csv=Path("series.csv"), every=25, level=(80.0, 95.0)))
    widths = []
    for before, row in zip(plain, rows, strict=True):
        assert list(row["forecast"]) == ["price", *NAMES]
        assert row["forecast"]["price"] == before["forecast"]["price"]
        widths.append(np.subtract(row["forecast"]["price-hi-80"], row["forecast"]["price-lo-80"]))
    np.testing.assert_allclose(widths, widths[:1] * len(widths), rtol=1e-9)
