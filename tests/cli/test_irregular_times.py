"""Rows at irregular times, from the command line: train, evaluate, predict, backtest, stream."""

import csv
import json
import math
import random
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from command import call
from trained import TINY

ROWS, HORIZON, CONTEXT = 120, 4, 14
SIZES = ("--horizon", str(HORIZON), "--context", str(CONTEXT), "--target", "level")
TRAIN = ("train", "forecast", "--csv", "tank.csv", "--irregular", *SIZES, "--quiet", "--out", "run")
S4D = ("--model.mixer.kind", "s4d")
TIMES = [datetime(2024, 1, 1)]
for seconds in random.Random(0).choices(range(300, 4000), k=ROWS - 1):
    TIMES.append(TIMES[-1] + timedelta(seconds=seconds))


def write(path, times, with_level=True):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["at", "level"] if with_level else ["at"])
        for time in times:
            level = 3 + math.sin(time.timestamp() / 9000)
            writer.writerow([time, f"{level:.4f}"] if with_level else [time])


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_irregular_times_from_training_to_streaming(capsys):
    write("tank.csv", TIMES)
    assert call(*TRAIN, *S4D, *TINY) == 0
    assert "ignore the time between rows" in Path("run/report.html").read_text()
    assert call("evaluate", "run") == 0
    score = json.loads(Path("run/result.json").read_text())["test"]["mse"]
    assert f"test mse {score:.6f}" in capsys.readouterr().out

    write("known.csv", TIMES[:-HORIZON])
    write("when.csv", TIMES[-HORIZON:], with_level=False)
    assert call("predict", "run", "--csv", "known.csv", "--out", "usual.csv", "--level", "50") == 0
    assert call("predict", "run", "--csv", "known.csv", "--future-csv", "when.csv", "--out", "given.csv") == 0
    usual, given = read("usual.csv"), read("given.csv")
    assert [row["at"] for row in given] == [str(time) for time in TIMES[-HORIZON:]]
    gaps = {datetime.fromisoformat(b["at"]) - datetime.fromisoformat(a["at"]) for a, b in pairwise(usual)}
    assert len(gaps) == 1

    assert call("backtest", "run", "--csv", "tank.csv", "--stride", "1", "--out", "b.csv") == 0
    rows = [row for row in read("b.csv") if row["cutoff"] == str(TIMES[-HORIZON - 1])]
    assert [float(row["forecast"]) for row in rows] == pytest.approx([float(row["level"]) for row in given], rel=1e-6)

    capsys.readouterr()
    assert call("stream", "run", "--csv", "known.csv", "--every", str(ROWS - HORIZON), "--jsonl") == 0
    streamed = json.loads(capsys.readouterr().out)
    assert streamed["time"] == str(TIMES[-HORIZON - 1])
    assert streamed["forecast"]["level"] == pytest.approx([float(row["level"]) for row in usual], rel=1e-6)

    assert call("export", "run", "--out", "model.onnx") == 2
    assert "forecasts read the gaps between rows at irregular times" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "irregular: S4 steps by the bilinear rule, which does not decay over long gaps"),
        ([], "use S4D (s4d), whose steps are exact over any gap (--model.mixer.kind s4d)"),
        (["--model.mixer.kind", "lstm"], "irregular: only S4D (s4d) takes rows at irregular times"),
        ([*S4D, "--time", "none"], "irregular: expected a column of times"),
        ([*S4D, "--fill", "linear"], "fill: linear interpolation is for rows on a grid"),
    ],
)
def test_what_does_not_go_with_irregular_times_is_refused_and_nothing_is_written(arguments, message, capsys):
    write("tank.csv", TIMES)
    assert call(*TRAIN, *arguments) == 2
    assert message in capsys.readouterr().err
    assert not Path("run").exists()


def test_public_sets_have_even_steps(capsys):
    assert call("train", "etth1-24-small", "--task.irregular") == 2
    assert "expected --csv FILE with --irregular, got none" in capsys.readouterr().err
