"""Runs side by side: what differs, what came of it, and what is refused."""

import json
import shutil
from pathlib import Path

import pytest
from command import call

from longwave.sweeps.compare import compare


@pytest.fixture
def two_runs(own_folder, trained_runs):
    """A run, and one that differs from it in a setting and has not come to its end."""
    trained_runs.fetch("causal")
    shutil.copytree("run", "other")
    config = json.loads(Path("other/config.json").read_text())
    config["experiment"]["optim"]["lr"] = 0.5
    config["experiment"]["model"]["mixer"] = {"kind": "lstm"}
    Path("other/config.json").write_text(json.dumps(config))
    Path("other/result.json").unlink()
    return "run", "other"


def test_settings_that_differ_scores_and_curves_stand_side_by_side(two_runs, capsys):
    first, second = compare(two_runs)
    assert (first.settings["optim.lr"], second.settings["optim.lr"]) == (0.03, 0.5)
    assert first.settings["model.mixer.d_state"] == 4
    assert "model.mixer.d_state" not in second.settings
    assert not any(name.startswith(("task.", "loop.")) for name in first.settings)
    assert (first.name, second.name, second.result) == ("run", "other", None)
    assert call("compare", *two_runs, "--out", "curves.png") == 0
    shown = capsys.readouterr().out
    assert "model.mixer.kind" in shown
    assert f"{first.result['test']['accuracy']:.4f}" in shown
    assert Path("curves.png").stat().st_size > 10_000


def test_a_copy_of_a_run_has_the_same_settings(two_runs, capsys):
    Path("elsewhere").mkdir()
    shutil.copytree("run", "elsewhere/run")
    assert call("compare", "run", "elsewhere/run") == 0
    assert "the runs have the same settings" in capsys.readouterr().out
    assert compare(("run", "elsewhere/run"))[1].name == "elsewhere/run"


def test_test_scores_of_runs_of_a_sweep_are_shown_on_demand_alone(two_runs, capsys):
    shutil.copytree("run", "swept/member")
    Path("swept/sweep.json").write_text("{}")
    result = json.loads(Path("swept/member/result.json").read_text())
    result["test"] = {"accuracy": 0.7654}
    Path("swept/member/result.json").write_text(json.dumps(result))
    assert call("compare", "run", "swept/member") == 0
    shown = capsys.readouterr().out
    assert "test accuracy" in shown  # of the other
    assert "0.7654" not in shown
    assert "the test scores of 1 runs of a sweep are not shown" in shown
    assert call("compare", "run", "swept/member", "--test") == 0
    shown = capsys.readouterr().out
    assert "0.7654" in shown
    assert "not shown" not in shown


def test_what_cannot_be_compared_is_refused(two_runs, capsys):
    for arguments, message in (
        (("run",), "expected the folders of two runs or more, got 1"),
        (("run", "./run"), "runs: expected each once"),
        (("run", "nowhere"), "nowhere: no such run folder"),
        (("run", "other", "--out", "curves.txt"), "out: expected a picture"),
    ):
        assert call("compare", *arguments) == 2
        assert message in capsys.readouterr().err
