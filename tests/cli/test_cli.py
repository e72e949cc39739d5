"""The command line, as a person meets it: help, mistakes, what there is to run."""

import dataclasses
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command import call
from dense import run_python
from trained import RECIPES, write_series

from longwave import __version__, cli
from longwave.cli.main import COMMANDS
from longwave.core import files
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


def test_the_package_runs_as_a_module():
    shown = subprocess.run([sys.executable, "-m", "longwave", "--version"], capture_output=True, text=True, timeout=120)
    assert shown.stdout == f"{__version__}\n", shown.stderr


def test_help_does_not_wait_for_torch():
    every = [["--help"], ["--version"], [], ["train", "--help"], ["show", "--help"], ["trian"], ["bench", "--help"]]
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


def test_mistakes_are_refused_without_torch(tmp_path):
    """Which takes seconds to import. One interpreter for all: what one mistake imports would be seen after it."""
    every = [
        ["train", "etth1-720-smal"],
        ["show", "xyzzy"],
        ["train", "forecast", "--csv", "nothing.csv"],
        ["train", "forecast", "--csv", "series.csv", "--csv=nothing.csv"],
        ["train", "classify", "--npz", "nothing.npz"],
        ["train", "text", "--file=nothing.txt"],
        ["train", "etth1-24", "--task.csv", "nothing.csv"],
        ["train", "--config"],
        ["train", "--config", "nothing.json"],
        ["show", "--config=series.csv"],
        ["train", "--resume"],
        ["train", "--resume", "nowhere"],
        ["train", "--resume=nowhere", "--device", "cpu"],
        ["train", "--resume", "nowhere", "--devise", "cpu"],
        ["evaluate", "nowhere"],
        ["evaluate", "nowhere", "--splt", "test"],
        ["predict", "nowhere", "--csv", "series.csv"],
        ["generate", "nowhere"],
        ["import", "nothing.pt", "--out", "new"],
        ["import", "series.csv", "--out", "new", "--data", "wikitext104"],
        ["predict", "run", "--csv", "nothing.csv"],
        ["bench"],
        ["bench", "kernle"],
    ]
    Path("run").mkdir()
    Path("run/config.json").write_text('{"format": 2, "experiment": {}}')
    code = f"""
import sys
from longwave.cli.main import main
for arguments in {every!r}:
    try:
        main(arguments)
    except SystemExit as ended:
        print(ended.code, "torch" in sys.modules, arguments)
"""
    run = run_python(code, cwd=tmp_path)
    assert run.stdout.splitlines() == [f"2 False {arguments}" for arguments in every], run.stderr
    for words in ("did you mean 'etth1-720-small'?", "--csv: nothing.csv: no such file", "nowhere: no such run folder"):
        assert words in run.stderr


def test_experiments_of_installed_packages_are_listed_and_found(tmp_path):
    (tmp_path / "toy_plugin.py").write_text(
        "from dataclasses import replace\n"
        "from longwave.experiments import EXPERIMENTS, register\n"
        "register(replace(EXPERIMENTS['smnist-small'], name='toy'))\n"
    )
    info = tmp_path / "toy_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[longwave.plugins]\ntoy = toy_plugin\n")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from longwave.cli.main import main
for arguments in (["list"], ["list", "--all"], ["show", "toy"], ["show", "toi"]):
    try:
        main(arguments)
    except SystemExit as ended:
        print("exit", ended.code)
"""
    run = run_python(code)
    assert re.search("From installed packages\n  toy  ", run.stdout), run.stderr
    assert "\ntoy\n" in run.stdout
    assert '"name": "toy"' in run.stdout
    assert re.findall(r"exit (\w+)", run.stdout) == ["None", "None", "None", "2"]
    assert "unknown experiment 'toi'" in run.stderr


@pytest.mark.parametrize("name", ["etth1-720-small", "scifar-resnet18", "text"])
def test_help_explains_every_option_and_offers_nothing_that_the_task_decides(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    assert call("train", name, "--help") == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in (
        "Folder of the run; by default runs/NAME-seedN",
        "Replace an existing run in that folder",
        "Folder with the data sets",
        "Train once with each of these seeds",
        "Print only the result, no progress",
        "Where to train: auto",
    ):
        assert text in shown
    assert "set by the task" not in shown
    for option in ("input-size", "output-size", "vocabulary", "time-size", "horizon", "mixer.length", "image-width"):
        assert f"--model.{option}" not in shown
    assert call("show", name, "--model.output-size", "3") == 2
    assert "--model.output-size" in capsys.readouterr().err


def test_help_names_every_command(capsys):
    assert call("--help") == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^  {name} ", shown, re.MULTILINE) for name in COMMANDS)


def test_the_table_of_commands_is_what_their_modules_say():
    modules = {module.name for module in pkgutil.iter_modules(cli.__path__) if not module.name.startswith("_")}
    assert set(COMMANDS) == modules - {"main"}
    for name, text in COMMANDS.items():
        docstring = importlib.import_module(f"longwave.cli.{name}").__doc__
        assert docstring.splitlines()[0] == f"`longwave {name}`: {text}."


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name, capsys):
    assert call(name, "--help") == 0
    assert f"longwave {name}" in capsys.readouterr().out


def test_nothing_is_a_mistake(capsys):
    assert call() == 2
    assert "usage: longwave" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["trian"], "unknown command 'trian'; expected one of list, show, train"),
        (["trian"], "did you mean 'train'?"),
        (["show", "eth1-720"], "unknown experiment 'eth1-720'"),
        (["train", "etth1-720-smal"], "did you mean 'etth1-720-small'?"),
        (["train", "xyzzy"], "longwave list shows them all"),
        (["show", "etth1-720", "--model.d-modle", "4"], "--model.d-model"),
        (["train", "forecast", "--cvs", "series.csv"], "--csv"),
        (["show", "etth1-720", "--model.norm", "btch"], "'batch'"),
        (["show", "etth1-720", "--model.d-model", "four"], "--model.d-model"),
        (["show", "etth1-720", "--loop.epochs", "0"], "epochs: expected at least 1, got 0"),
        (["show", "etth1-720", "--model.mixer.kind", "lsmt"], "unknown mixer 'lsmt'"),
        (["show", "etth1-720", "--model.kind", "Sequence"], "did you mean 'SequenceModel'?"),
        (
            ["show", "scifar-resnet18", "--model.mixer.kind", "s4"],
            "--model.mixer.kind: a ResNet has no mixer; expected no such option",
        ),
        (["show", "etth1-720", "--model.mixer.kind", "lstm", "--model.mixer.d-state", "4"], "--model.mixer.d-state"),
        (["train", "--resume"], "--resume: expected one folder, as in longwave train --resume runs/NAME-seed0"),
        (["train", "--resume", "nowhere"], "nowhere: no such run folder"),
        (["evaluate", "nowhere"], "nowhere: no such run folder"),
        (["predict", "nowhere", "--csv", "series.csv"], "nowhere: no such run folder"),
        (["predict", "--csv", "series.csv"], "usage: longwave predict RUN [options]"),
        (["generate"], "usage: longwave generate RUN [options]"),
        (["evaluate", "nowhere", "--split", "tset"], "'test'"),
        (["train", *FORECAST, "--target", "prize"], "price"),
        (["train", *FORECAST, "--csv", "nothing.csv"], "nothing.csv"),
        (["train", *FORECAST, "--context", "500"], "too few"),
        (["train", *FORECAST, "--seeds", "3", "3"], "--seeds: expected each seed once, got 3 3"),
        (["train", *FORECAST, "--optim.precision", "fp16"], "precision: fp16 needs a GPU"),
        (["train", *FORECAST, "--loop.tracker", "tensorbord"], "unknown tracker 'tensorbord'"),
        (["train", "forecast", "--horizon", "4"], "forecast: expected --csv FILE, got none"),
        (["train", "etth1-24-small", "--task.target", "OT"], "forecast: expected --csv FILE with --target, got none"),
        (
            ["train", *FORECAST, "--model.kind", "SequenceModel", "--model.decoder", "last"],
            "decoder: this task needs forecast or sequence, got last",
        ),
        (["train", *FORECAST, "--seeds", "0", "4294967296"], "seed: expected a number below 2^32"),
        (["train", *FORECAST, "--device", "cuda:99"], "device: 'cuda:99' is not available; expected one of auto, cpu"),
        (["train", *FORECAST, "--device", "gpu"], "device: 'gpu' is not available; expected one of auto, cpu"),
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


def test_the_settings_of_s4d_are_taken_from_the_command_line(capsys):
    """Behind an experiment whose S4 starts from legs, of which S4D takes the diagonal."""
    settings = ["--model.mixer.kind", "s4d", "--model.mixer.rule", "bilinear", "--model.mixer.trainable", "B", "dt"]
    assert call("show", "smnist-small", *settings) == 0
    mixer = json.loads(capsys.readouterr().out)["model"]["mixer"]
    assert (mixer["kind"], mixer["init"], mixer["rule"], mixer["trainable"]) == ("s4d", "legs", "bilinear", ["B", "dt"])


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


@pytest.mark.parametrize("name", ["etth1-720", "smnist", "scifar-resnet18", "wikitext2-words", "text"])
def test_what_show_prints_is_read_again(name, capsys):
    changes = ["--loop.epochs", "3", "--optim.lr", "0.5"]
    shown = shown_by(capsys, name, *changes)
    Path("my.json").write_text(json.dumps(shown))
    assert shown_by(capsys, "--config", "my.json") == shown
    again = shown_by(capsys, "--config=my.json", "--loop.epochs", "4")
    assert again == shown | {"loop": shown["loop"] | {"epochs": 4}}


def test_settings_of_a_file_may_be_replaced_by_those_of_another_kind(capsys):
    Path("my.json").write_text(json.dumps(shown_by(capsys, "forecast", "--csv", "series.csv", "--horizon", "5")))
    shown = shown_by(capsys, "--config", "my.json", "--horizon", "6", "--model.mixer.kind", "lstm")
    assert (shown["name"], shown["task"]["csv"], shown["task"]["horizon"]) == ("forecast", "series.csv", 6)
    assert shown["model"]["mixer"]["kind"] == "lstm"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "my.json: expected a JSON file with settings, as longwave show NAME prints them"),
        ("{", "my.json: expected a JSON file with settings"),
        ("[1, 2]", "my.json: expected a JSON file with settings, as longwave show NAME prints them, got [1, 2]"),
        ('{"name": "a", "modle": {}}', "my.json: unknown setting 'modle'"),
        ('{"name": "a", "task": {"kind": "forecats"}}', "my.json: task: unknown kind 'forecats'"),
        ('{"name": "a", "task": {"kind": "text"}, "loop": {"epoch": 1}}', "my.json: loop: unknown setting 'epoch'"),
        ('{"name": "a", "task": {"kind": "text"}, "loop": {"epochs": "x"}}', "loop: epochs: expected a whole number"),
        ('{"name": "a"}', "my.json: "),
        ('{"task": {"kind": "text"}}', "my.json: "),
    ],
    ids=str,
)
def test_a_file_that_holds_no_settings_is_refused(content, message, capsys):
    if content is not None:
        Path("my.json").write_text(content)
    assert call("train", "--config", "my.json") == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("kind", MIXERS)
def test_a_mixer_is_chosen_by_its_kind_and_keeps_what_both_have(kind, capsys):
    shown = shown_by(capsys, "smnist", f"--model.mixer.kind={kind}")
    named = {"bidirectional": True, "n_ssm": 2, "dt_transform": "softplus"}  # what smnist has of its own
    both = {field.name for field in dataclasses.fields(MIXERS[kind])} & named.keys()
    assert shown["model"]["mixer"] == MIXERS[kind](**{name: named[name] for name in both}).to_dict()
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
    assert "NAME-original has the settings of the paper's first version" in shown


def test_the_help_of_an_original_setting_says_in_what_it_is_not(capsys):
    assert call("train", "lra-text-original", "--help") == 0
    assert "--model.mixer.low-rank pq" in " ".join(capsys.readouterr().out.split())
    assert call("train", "lra-text", "--help") == 0
    assert "first version" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "kind", "option", "instead"),
    [
        ("predict", "forecast", "--npz", "expected --csv instead"),
        ("predict", "classify", "--folder", "expected --csv or --npz instead"),
        ("predict", "audio", "--npz", "expected --csv or --folder instead"),
        ("stream", "forecast", "--wav", "expected --csv instead"),
        ("generate", "text", "--csv", "it reads no file"),
    ],
)
def test_an_input_of_another_kind_of_run_is_refused_with_that_of_this_kind(
    command, kind, option, instead, trained_runs, capsys
):
    trained_runs.fetch(kind)
    for given in ([option, "run"], [f"{option}=run"]):
        assert call(command, "run", *given) == 2
        message = f"{option}: run is a run of kind {kind}; {instead}"
        assert capsys.readouterr().err == f"longwave: error: {message}\n"


def test_the_list_begins_with_custom_data_and_has_the_same_columns_throughout_within_80(capsys):
    assert call("list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Your data"
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if line.startswith("  ")]
    assert len(rows) > 70
    assert all(line[:2].isspace() and line[42:44].isspace() and not line[44].isspace() for line in rows)


# Runs


@pytest.mark.parametrize(
    "command",
    [
        ("predict", "run", "--csv", "series.csv", "--out", "forecast.csv"),
        ("evaluate", "run"),
        ("train", "--resume", "run", "--quiet"),
        ("publish", "run", "me/model", "--preview", "files"),
    ],
)
@pytest.mark.usefixtures("_pages_are_not_rendered")
def test_a_command_reads_the_settings_of_its_run_once(command, trained_runs, monkeypatch):
    trained_runs.fetch("forecast")
    read, found = files.read_json, []
    monkeypatch.setattr(files, "read_json", lambda path: found.append(Path(path)) or read(path))
    assert call(*command) == 0
    assert found.count(Path("run/config.json")) == 1
