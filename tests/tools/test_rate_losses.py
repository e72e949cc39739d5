"""The tool that tells the losses of the signal from those of the rate, on a tiny run."""

import json

import pytest
import torch

from longwave import runs


@pytest.fixture
def tool(load_tool):
    return load_tool("rate_losses")


def test_it_scores_as_evaluate_does_and_the_same_signal_at_the_old_rate(tool, trained_runs, capsys):
    trained_runs.fetch("audio")
    tool.main(["run", "--rate", "2"])
    found = json.loads(capsys.readouterr().out)
    scores = {rate: score["accuracy"] for rate, score in runs.evaluate_at("run", [1, 2])}
    [(_, filtered)] = runs.evaluate_at("run", [2], antialias=True)
    assert found["as it is"] == pytest.approx(scores[1])
    assert found["dropped, at rate 2"] == pytest.approx(scores[2])
    assert found["filtered, at rate 2"] == pytest.approx(filtered["accuracy"])
    assert set(found) == {
        "as it is",
        *(f"{how}, {where}" for how in ("dropped", "filtered") for where in ("at rate 2", "brought back to rate 1")),
    }


def test_a_signal_is_brought_back_to_its_own_rate(tool):
    """By a model that knows the number of its steps, and a task whose clips are all of one class."""

    class Task:
        test = type("Split", (), {"__len__": lambda self: 3, "batch": lambda self, k: BATCHES[k[0]]})()

    BATCHES = [{"x": torch.ones(1, n, 1), "y": torch.tensor([0])} for n in (8, 9, 10)]
    seen = []

    def model(x, rate):
        seen.append((x.shape[1], rate))
        return torch.tensor([[1.0, 0.0]]), None

    assert set(tool.losses(model, Task(), 2).values()) == {1.0}
    at = [(8, 1.0), (9, 1.0), (10, 1.0)]
    coarse, back = [(4, 2.0), (5, 2.0), (5, 2.0)], [(8, 1.0), (10, 1.0), (10, 1.0)]
    assert seen == [*at, *coarse, *back, *coarse, *back]


@pytest.mark.parametrize(
    ("kind", "rate", "message"),
    [
        ("audio", "1", "--rate: expected a whole number from 2 on"),
        ("classify", "2", "has no notion of the time between steps"),
        ("images", "2", "expected a run on samples of audio"),
        (None, "2", "run"),
    ],
)
def test_what_cannot_be_compared_is_refused(tool, trained_runs, kind, rate, message, capsys):
    if kind is not None:
        trained_runs.fetch(kind)
    with pytest.raises(SystemExit, match="2"):
        tool.main(["run", "--rate", rate])
    assert message in capsys.readouterr().err
