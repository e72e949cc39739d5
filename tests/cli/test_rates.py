"""`longwave evaluate` at other sampling rates, as a person meets it."""

import json
import re
from pathlib import Path

import pytest
from command import call

from longwave import runs


@pytest.fixture
def run(trained_runs):
    trained_runs.fetch("causal")
    return "run"


def test_scores_at_other_rates_stand_beside_those_of_training(run, capsys):
    assert call("evaluate", run, "--rate", "2", "--picture", "rates.png") == 0
    printed = capsys.readouterr().out
    known = json.loads(Path("run/result.json").read_text())["test"]
    original = re.search(r"│ +1 │ as in training +│ +(\S+) │ +(\S+) │", printed)
    assert [float(cell) for cell in original.groups()] == pytest.approx([known["accuracy"], known["loss"]], abs=1e-4)
    ((_, _), (_, scores)) = runs.evaluate_at(run, [1.0, 2.0])
    changed = re.search(r"│ +2 │ 1 in 2, others dropped +│ +(\S+) │ +(\S+) │", printed)
    assert [float(cell) for cell in changed.groups()] == pytest.approx([scores["accuracy"], scores["loss"]], abs=1e-4)
    assert Path("rates.png").read_bytes()[:4] == b"\x89PNG"


def test_several_rates_are_scored_in_their_order_with_and_without_a_filter(run, capsys):
    assert call("evaluate", run, "--rates", "4", "0.5", "1.5", "--antialias") == 0
    printed = capsys.readouterr().out
    assert re.findall(r"│ +([\d.]+) │ (.*?) +│", printed) == [
        ("0.5", "2 times as many, interpolated"),
        ("1", "as in training"),
        ("1.5", "1 in 1.5, filtered"),
        ("4", "1 in 4, filtered"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", "0"], "rate: expected a number from 1/64 to 64"),
        (["--antialias"], "--antialias: needs another sampling rate"),
        (["--picture", "x.png"], "--picture: needs another sampling rate"),
        (["--rate", "2", "--picture", "x.abc"], "picture: expected a picture ending in"),
    ],
)
def test_mistakes_are_named(run, arguments, message, capsys):
    assert call("evaluate", run, *arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "classify",
            r"rate: the model of classify \(S4 \+ random convolutions\) has no notion of the time between steps",
        ),
        ("tag", "rate: the sampling rate of tag cannot be changed"),
        ("images", "rate: the pixels of pmnist are in a random order"),
    ],
)
def test_runs_without_a_sampling_rate_are_refused_with_the_reason(name, message, trained_runs, capsys):
    trained_runs.fetch(name)
    assert call("evaluate", "run", "--rate", "2") == 2
    assert re.search(message, capsys.readouterr().err)
