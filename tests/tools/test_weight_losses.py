"""The tool that gives the losses of a run by the type of its weights, on a tiny run."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from longwave.ops import WEIGHT_TYPES
from longwave.ops.cpu import library
from longwave.runs import load_run


@pytest.fixture
def tool(load_tool, monkeypatch):
    monkeypatch.setattr(library, "vector_bits", lambda: 128)  # which the tiny model's 8 features fill
    return load_tool("weight_losses")


@pytest.mark.usefixtures("compiled")
def test_the_loss_in_float32_is_that_of_the_forward_pass_and_the_others_are_near_it(tool, trained_runs, monkeypatch):
    trained_runs.fetch("text")
    monkeypatch.setattr(tool, "SIDE_BY_SIDE", 2)
    run = load_run("run")
    model, split = run.load_best("cpu").eval(), run.build_task().valid
    found, tokens = tool.losses(model, split, 3)
    batch = split.batch(range(3))
    with torch.no_grad():
        loss = cross_entropy(model(batch["x"])[0].flatten(0, 1), batch["y"].flatten())
    assert tokens == batch["y"].numel()
    assert found["float32"] == pytest.approx(float(loss) / math.log(2), rel=1e-5)
    assert list(found) == list(WEIGHT_TYPES)
    assert all(value == pytest.approx(found["float32"], rel=0.02) for value in found.values())
    assert len(set(found.values())) == len(found)


@pytest.mark.usefixtures("compiled")
def test_a_line_for_each_type(tool, trained_runs, capsys):
    trained_runs.fetch("text")
    tool.main(["run", "--sequences", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(WEIGHT_TYPES)
    assert "bits per token, +0.000000;" in lines[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["run", "--sequences", "0"], "--sequences: expected at least 1"), (["absent"], "absent")],
)
def test_what_cannot_be_measured_is_refused(tool, arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        tool.main(arguments)
    assert message in capsys.readouterr().err
