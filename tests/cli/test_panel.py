"""Many series in one file, as a person meets them: train with --id, evaluate, predict, stream."""

import csv
import json
import math
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from command import call
from trained import TINY

LENGTHS = {"Oslo": 120, "Rome": 90}
HORIZON, CONTEXT = 4, 14
TRAIN = ("train", "forecast", "--csv", "sales.csv", "--target", "sales", "--id", "store", "--horizon", str(HORIZON))


def write_sales(path="sales.csv", lengths=LENGTHS):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["day", "store", "sales"])
        for k, (store, rows) in enumerate(lengths.items()):
            for row in range(rows):
                value = 10**k * (5 + math.sin(row / 7 * 2 * math.pi) + 0.1 * math.cos(row * row))
                writer.writerow([date(2024, 1, 1) + timedelta(days=row), store, f"{value:.4f}"])


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_many_series_from_training_to_streaming(capsys):
    write_sales()
    assert call(*TRAIN, "--context", str(CONTEXT), *TINY, "--out", "run") == 0
    facts = json.loads(Path("run/config.json").read_text())["task"]
    assert (facts["series"], facts["shortest"], facts["longest"], facts["time_column"]) == (2, 90, 120, "day")
    assert Path("run/scales.npz").exists()
    assert call("evaluate", "run") == 0
    score = json.loads(Path("run/result.json").read_text())["test"]["mse"]
    shown = capsys.readouterr().out
    assert f"test mse {score:.6f}" in shown
    coverage = json.loads(Path("run/result.json").read_text())["intervals"]["this run"]["80"]["coverage"]
    assert "prediction intervals, test set" in shown
    assert f"{100 * coverage:.1f} %" in shown

    assert call("backtest", "run", "--csv", "sales.csv", "--stride", "2", "--out", "b.csv") == 0
    rows = read("b.csv")
    assert {row["store"]: row["cutoff"] for row in reversed(rows)} == {"Oslo": "2024-04-05", "Rome": "2024-03-12"}
    assert all(float(row["lo"]) < float(row["hi"]) for row in rows)
    assert (
        call("backtest", "run", "--csv", "sales.csv", "--start", "2024-01-20", "--stride", "90", "--out", "b.csv") == 0
    )
    shown = capsys.readouterr().out
    assert "nan" not in shown
    assert "the model was trained on the rows before" in shown

    write_sales("new.csv", {"Lima": 40, "Oslo": 130, "Rome": 90})
    assert call("predict", "run", "--csv", "new.csv", "--level", "50", "--out", "f.csv") == 0
    shown = capsys.readouterr().out
    assert "note: 1 series was not trained on, and is scaled by the rows that are given: 'Lima' (40 rows" in shown
    assert "12 rows: f.csv" in shown
    rows = read("f.csv")
    assert list(rows[0]) == ["store", "day", "sales", "sales-lo-50", "sales-hi-50"]
    assert [row["store"] for row in rows] == ["Lima"] * 4 + ["Oslo"] * 4 + ["Rome"] * 4
    assert rows[4]["day"] == "2024-05-10"
    assert all(float(row["sales-lo-50"]) < float(row["sales"]) < float(row["sales-hi-50"]) for row in rows)
    assert Path("f.png").exists()

    lines = Path("new.csv").read_text().splitlines()
    Path("days.csv").write_text("\n".join([lines[0], *sorted(lines[1:])]) + "\n")  # the stores take turns
    assert call("stream", "run", "--csv", "days.csv", "--every", "10", "--jsonl") == 0
    streamed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["store"] for row in streamed} == {"Lima", "Oslo", "Rome"}
    last = next(row for row in reversed(streamed) if row["store"] == "Oslo")
    assert last["time"] == "2024-05-09 00:00:00"
    np.testing.assert_allclose(last["forecast"]["sales"], [float(row["sales"]) for row in rows[4:8]], rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--id", "shop"], "id: no column 'shop'"),
        (["--horizon", "50"], "no store has enough rows for a horizon of 50"),
        (["--multivariate"], "multivariate: expected one target of many series (id), got all columns"),
    ],
)
def test_a_panel_that_cannot_be_trained_on_is_refused_and_nothing_is_written(arguments, message, capsys):
    write_sales()
    assert call(*TRAIN, *TINY, "--out", "run", *arguments) == 2
    assert message in capsys.readouterr().err
    assert not Path("run").exists()
