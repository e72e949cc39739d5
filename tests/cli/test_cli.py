"""The command line, as a person meets it: help, mistakes, what there is to run."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command import call
from dense import run_python
from trained import RECIPES, write_series

from longwave import __version__
from longwave.cli.main import commands
from longwave.experiments import EXPERIMENTS
from longwave.layers import MIXERS

PROGRAM = Path(sys.executable).parent / "longwave"
FORECAST = RECIPES["forecast"].arguments


@pytest.fixture(autouse=True)
def _series(_own_folder):
    write_series()


# Help and mistakes


def test_the_program_is_installed():
    shown = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, timeout=120, check=True)
    assert shown.stdout == f"{__version__}\n"


def test_help_does_not_wait_for_torch():
    every = [["--help"], ["--version"], [], ["train", "--help"], ["show", "--help"], ["trian"]]
    code = f"""
import sys
from longwave.cli.main import main
for arguments in {every!r}:
    try:
        main(arguments)
    except SystemExit:
        heavy = [name for name in ("torch", "numpy", "matplotlib", "accelerate") if name in sys.modules]
        print("heavy:", heavy, arguments)
"""
    run = run_python(code)
    assert run.stdout.count("heavy: []") == len(every), run.stdout + run.stderr


def test_help_names_every_command(capsys):
    assert call("--help") == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^  {name} ", shown, re.MULTILINE) for name in commands())


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help(name, capsys):
    assert call(name, "--help") == 0
    assert f"longwave {name}" in capsys.readouterr().out


def test_nothing_is_a_mistake(capsys):
    assert call() == 2
    assert "usage: longwave" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["trian"], "no command 'trian'; expected one of list, show, train"),
        (["trian"], "did you mean 'train'?"),
        (["show", "eth1-720"], "experiment: there is no 'eth1-720'"),
        (["train", "etth1-720-smal"], "did you mean 'etth1-720-small'?"),
        (["train", "xyzzy"], "longwave list shows them all"),
        (["show", "etth1-720", "--model.d-modle", "4"], "--model.d-model"),
        (["train", "forecast", "--cvs", "series.csv"], "--csv"),
        (["show", "etth1-720", "--model.norm", "btch"], "'batch'"),
        (["show", "etth1-720", "--model.d-model", "four"], "--model.d-model"),
        (["show", "etth1-720", "--loop.epochs", "0"], "epochs: expected a number from 1 on, got 0"),
        (["show", "etth1-720", "--model.mixer.kind", "lsmt"], "mixer: there is no 'lsmt'"),
        (["show", "etth1-720", "--model.kind", "Sequence"], "did you mean 'SequenceModel'?"),
        (
            ["show", "scifar-resnet18", "--model.mixer.kind", "s4"],
            "--model.mixer.kind: a ResNet has no mixer; expected no such option",
        ),
        (["show", "etth1-720", "--model.mixer.kind", "lstm", "--model.mixer.d-state", "4"], "--model.mixer.d-state"),
        (["train", "--resume"], "--resume: expected the folder of one run"),
        (["train", "--resume", "nowhere"], "nowhere: expected the folder of a run"),
        (["evaluate", "nowhere"], "nowhere: expected the folder of a run"),
        (["predict", "nowhere", "--csv", "series.csv"], "nowhere: expected the folder of a run"),
        (["predict", "--csv", "series.csv"], "usage: longwave predict RUN [options]"),
        (["generate"], "usage: longwave generate RUN [options]"),
        (["evaluate", "nowhere", "--split", "tset"], "'test'"),
        (["train", *FORECAST, "--target", "prize"], "price"),
        (["train", *FORECAST, "--csv", "nothing.csv"], "nothing.csv"),
        (["train", *FORECAST, "--context", "500"], "too few"),
        (["train", *FORECAST, "--seeds", "3", "3"], "--seeds: expected each seed once, got 3 3"),
        (["train", *FORECAST, "--optim.precision", "fp16"], "precision: fp16 needs a GPU"),
        (["train", *FORECAST, "--loop.tracker", "tensorbord"], "tracker: there is no 'tensorbord'"),
        (["train", "forecast", "--horizon", "4"], "forecast: expected --csv FILE, got none"),
        (["train", "etth1-24-small", "--task.target", "OT"], "forecast: expected --csv FILE with --target, got none"),
        (
            ["train", *FORECAST, "--model.kind", "SequenceModel", "--model.decoder", "last"],
            "decoder: this task needs forecast or sequence, got last",
        ),
        (["train", *FORECAST, "--seeds", "0", "4294967296"], "seed: expected a number below 2^32"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_a_mistake_is_refused_with_what_is_right(arguments, hint, capsys):
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert hint in re.sub(r"\s*│?\n│?\s*", " ", captured.err)
    assert "Traceback" not in captured.err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["--model.mixer", "lstm"], "--model.mixer: this option is now --model.mixer.kind"),
        (["--model.d-state", "4"], "--model.d-state: this option is now --model.mixer.d-state"),
        (["--model.d_state=4"], "--model.d-state: this option is now --model.mixer.d-state"),
        (["--model.heads", "4"], "--model.heads: this option is now --model.mixer.heads"),
        (["--model.no-bidirectional"], "--model.no-bidirectional: this option is now --model.mixer.no-bidirectional"),
        (["--loop.tensorboard"], "--loop.tensorboard: this option is now --loop.tracker tensorboard"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_old_option_is_refused_with_its_new_name(old, new, capsys):
    assert call("show", "smnist", *old) == 2
    assert new in capsys.readouterr().err


# Showing


def shown_by(capsys, *arguments):
    assert call("show", *arguments) == 0
    return json.loads(capsys.readouterr().out)


def test_show_prints_every_setting_as_json_after_the_overrides(capsys):
    changes = {"model": {"d_model": 32}, "optim": {"lr": 0.5}, "loop": {"seed": 7}}
    shown = shown_by(capsys, "etth1-720", "--model.d-model", "32", "--optim.lr", "0.5", "--loop.seed", "7")
    plain = shown_by(capsys, "etth1-720")
    assert plain == EXPERIMENTS["etth1-720"].to_dict()
    assert shown == plain | {part: plain[part] | change for part, change in changes.items()}


def test_show_of_a_custom_series_takes_settings_without_a_prefix(capsys):
    shown = shown_by(capsys, "forecast", "--csv", "series.csv", "--horizon", "5")
    assert (shown["task"]["csv"], shown["task"]["horizon"]) == ("series.csv", 5)


@pytest.mark.parametrize("kind", MIXERS)
def test_a_mixer_is_chosen_by_its_kind_and_keeps_what_both_have(kind, capsys):
    shown = shown_by(capsys, "smnist", f"--model.mixer.kind={kind}")
    assert (
        shown["model"]["mixer"]
        == MIXERS[kind](bidirectional=True, **({"n_ssm": 2} if kind in ("s4", "lssl") else {})).to_dict()
    )
    assert shown["model"]["d_model"] == EXPERIMENTS["smnist"].model.d_model


def test_a_setting_of_the_chosen_mixer_is_read(capsys):
    shown = shown_by(capsys, "etth1-720", "--model.mixer.heads", "2", "--model.mixer.kind", "attention")
    assert shown["model"]["mixer"] == MIXERS["attention"](heads=2).to_dict()
    assert shown_by(capsys, "scifar", "--model.kind", "ResNet")["model"]["kind"] == "ResNet"


def test_list_names_every_experiment(capsys):
    assert call("list", "--all") == 0
    assert capsys.readouterr().out.split() == list(EXPERIMENTS)
    assert call("list") == 0
    shown = capsys.readouterr().out
    assert "etth1-{24,48,168,336,720}" in shown
    assert "classify --npz FILE" in shown
