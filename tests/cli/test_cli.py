"""The command line, as a person meets it: help, mistakes, and a series of one's own from CSV to forecast."""

import csv
import json
import math
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import torch
from command import call
from dense import run_python

from longwave.cli.main import COMMANDS
from longwave.train.experiments import EXPERIMENTS

# The report hands torch tensors to matplotlib, which asks numpy for them in a way that numpy 2 means to end.
PROGRAM = Path(sys.executable).parent / "longwave"
START, ROWS, HORIZON = datetime(2024, 1, 1), 150, 4
SMALL = [
    *("--csv", "series.csv", "--target", "price", "--time", "date", "--horizon", str(HORIZON), "--context", "24"),
    *("--model.d-model", "4", "--model.d-state", "4", "--loop.epochs", "1", "--loop.batch-size", "32"),
]


@pytest.fixture(autouse=True)
def _series(_own_folder):
    """The test's own folder has a series of hourly prices with a daily period."""
    with open("series.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["date", "price"])
        for k in range(ROWS):
            writer.writerow([START + timedelta(hours=k), f"{math.sin(k / 12 * math.pi) + 0.01 * k:.4f}"])


def program(*arguments):
    """A command in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [PROGRAM, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


# Help and mistakes


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], [], ["train", "--help"], ["show", "--help"], ["trian"]], ids=" ".join
)
def test_help_does_not_wait_for_torch(arguments):
    code = f"""
import sys
from longwave.cli.main import main
try:
    main({arguments!r})
except SystemExit:
    print("heavy:", [name for name in ("torch", "numpy", "matplotlib", "accelerate") if name in sys.modules])
"""
    run = run_python(code)
    assert run.stdout.endswith("heavy: []\n"), run.stderr


def test_help_names_every_command(capsys):
    assert call("--help") == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^  {name} ", shown, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"plot"}))
def test_every_command_has_help(name, capsys):
    assert call(name, "--help") == 0
    assert f"longwave {name}" in capsys.readouterr().out


def test_nothing_is_a_mistake(capsys):
    assert call() == 2
    assert "usage: longwave" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["trian"], "no command 'trian'; did you mean 'train'?"),
        (["xyzzy"], "no command 'xyzzy'; there are list, show, train"),
        (["show", "eth1-720"], "no experiment 'eth1-720'; did you mean etth1-720"),
        (["train", "etth1-720-smal"], "no experiment 'etth1-720-smal'; did you mean etth1-720-small"),
        (["train", "xyzzy"], "`longwave list` shows them all"),
        (["show", "etth1-720", "--model.d-modle", "4"], "--model.d-model"),
        (["train", "forecast", "--cvs", "series.csv"], "--csv"),
        (["show", "etth1-720", "--model.norm", "btch"], "'batch'"),
        (["show", "etth1-720", "--model.d-model", "four"], "--model.d-model"),
        (["show", "etth1-720", "--loop.epochs", "0"], "epochs: expected a number from 1 on, got 0"),
        (["train", "--resume"], "--resume: expected the folder of one run"),
        (["train", "--resume", "nowhere"], "nowhere: expected the folder of a run"),
        (["evaluate", "nowhere"], "nowhere: expected the folder of a run"),
        (["predict", "nowhere", "--csv", "series.csv"], "nowhere: expected the folder of a run"),
        (["evaluate", "nowhere", "--part", "tset"], "'test'"),
        (["train", "forecast", *SMALL, "--target", "prize"], "price"),
        (["train", "forecast", *SMALL, "--csv", "nothing.csv"], "nothing.csv"),
        (["train", "forecast", *SMALL, "--context", "500"], "too few"),
        (["train", "forecast", *SMALL, "--seeds", "3", "3"], "--seeds: expected each seed once, got 3 3"),
        (["train", "forecast", *SMALL, "--optim.precision", "fp16"], "precision: fp16 wants a GPU"),
        (["train", "forecast", "--horizon", "4"], "forecast: expected --csv FILE, got none"),
        (["train", "etth1-24-small", "--task.target", "OT"], "forecast: expected --csv FILE with --target, got none"),
        (
            ["train", "forecast", *SMALL, "--model.decoder", "last", "--model.window", "none"],
            "decoder: a forecast wants",
        ),
        (["train", "forecast", *SMALL, "--seeds", "0", "4294967296"], "seed: expected a number below 2^32"),
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


# Showing


def test_show_prints_every_setting_as_json_after_the_overrides(capsys):
    assert call("show", "etth1-720", "--model.d-model", "32", "--optim.lr", "0.5", "--loop.seed", "7") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["name"] == "etth1-720"
    assert shown["model"]["d_model"] == 32
    assert shown["optim"]["lr"] == 0.5
    assert shown["loop"]["seed"] == 7
    assert call("show", "etth1-720") == 0
    plain = json.loads(capsys.readouterr().out)
    changed = {
        (part, k) for part in ("model", "optim", "loop", "task") for k in plain[part] if plain[part] != shown[part]
    }
    assert {part for part, _ in changed} == {"model", "optim", "loop"}
    assert sum(plain[part][k] != shown[part][k] for part, k in changed) == 3


def test_show_of_ones_own_series_takes_settings_without_a_prefix(capsys):
    assert call("show", "forecast", "--csv", "series.csv", "--horizon", "5") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["task"]["csv"], shown["task"]["horizon"]) == ("series.csv", 5)


def test_list_names_every_experiment(capsys):
    assert call("list", "--all") == 0
    assert capsys.readouterr().out.split() == list(EXPERIMENTS)
    assert call("list") == 0
    assert "etth1-{24,48,168,336,720}" in capsys.readouterr().out


# A series of one's own, from start to end


def test_train_evaluate_and_predict_from_csv_to_forecast(tmp_path, capsys):
    trained = program("train", "forecast", *SMALL, "--out", "run")
    assert trained.returncode == 0, trained.stderr
    assert re.search(r"S4 \(this run\) +│ +\d\.\d{4} │ +\d\.\d{4} │", trained.stdout)
    assert f"report: {tmp_path / 'run' / 'report.html'}" in trained.stdout
    assert "validation mse" in trained.stderr  # progress stays out of the result

    assert call("train", "forecast", *SMALL, "--out", "run") == 2  # there is one already
    assert "run: there is a run already; go on with longwave train --resume run" in capsys.readouterr().err

    config = json.loads(Path("run/config.json").read_text())
    assert config["command"] == " ".join(["longwave train forecast", *SMALL, "--out run"])
    result = json.loads(Path("run/result.json").read_text())
    evaluated = program("evaluate", "run")
    assert evaluated.returncode == 0, evaluated.stderr
    assert evaluated.stdout == "".join(f"test {score} {value:.6f}\n" for score, value in result["test"].items())

    predicted = program("predict", "run", "--csv", "series.csv", "--out", "forecast.csv")
    assert predicted.returncode == 0, predicted.stderr
    with open("forecast.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    stamps = [datetime.fromisoformat(row["time"]) for row in rows]
    assert stamps == [START + timedelta(hours=ROWS + k) for k in range(HORIZON)]
    assert all(math.isfinite(float(row["price"])) for row in rows)
    assert Path("forecast.png").read_bytes().startswith(b"\x89PNG")


def test_a_forecast_has_its_digits_its_notes_and_files_of_its_own(capsys):
    settings = [*SMALL, "--horizon", "1", "--fill", "linear", "--model.vocabulary", "5"]
    rows = [line.split(",") for line in Path("series.csv").read_text().splitlines()[1:]]
    body = [f"{date},{float(price) + 1e9:.4f}" for date, price in rows]
    head = 'date,"a ""strange"", long $name$ that goes on and on"'
    settings[settings.index("price")] = 'a "strange", long $name$ that goes on and on'
    Path("series.csv").write_text("\n".join([head, *body]) + "\n")
    assert call("train", "forecast", *settings, "--out", "run", "--quiet") == 0

    Path("new.csv").write_text("\n".join([head, *body[:-1], body[-1].split(",")[0] + ","]) + "\n")
    for arguments, hint in (
        (["--out", "new.csv"], "--out: new.csv is also --csv; name another file"),
        (["--out", "a.png"], "--picture: a.png is also --out; name another file"),
        (["--picture", "a"], "picture: expected a picture ending in one of"),
    ):
        assert call("predict", "run", "--csv", "new.csv", *arguments) == 2
        assert hint in capsys.readouterr().err
    assert call("predict", "run", "--csv", "new.csv") == 0
    assert "note: " in capsys.readouterr().out  # of the value that was filled in
    with open("forecast.csv", newline="") as file:
        ((_, name), (_, value)) = csv.reader(file)
    assert name == settings[3]
    assert 0 < abs(float(value) - 1e9) < 20
    assert re.search(r"\.\d", value)


def test_a_series_that_changed_where_only_the_test_part_sees_it_is_refused(capsys):
    assert call("train", "forecast", *SMALL, "--out", "run", "--quiet") == 0
    lines = Path("series.csv").read_text().splitlines()
    Path("series.csv").write_text("\n".join([*lines[:-1], lines[-1].split(",")[0] + ",99"]) + "\n")
    capsys.readouterr()
    assert call("evaluate", "run") == 2
    assert "the data is not what the run was trained on; digest" in capsys.readouterr().err


def test_a_file_whose_name_is_no_text_does_not_lose_the_report(monkeypatch):
    name = os.fsdecode(b"s\xff.csv")
    Path("series.csv").rename(name)
    settings = [name if argument == "series.csv" else argument for argument in SMALL]
    monkeypatch.setattr(sys, "argv", ["longwave", "train", "forecast", *settings])  # what the report shows
    assert call("train", "forecast", *settings, "--out", "run", "--quiet") == 0
    assert "s?.csv" in Path("run/report.html").read_text()


def test_a_run_leaves_one_folder_with_a_page_that_needs_no_network(capsys):
    assert call("train", "forecast", *SMALL, "--out", "some where/run", "--quiet") == 0
    captured = capsys.readouterr()
    assert captured.err == ""  # quiet
    folder = Path("some where/run")
    assert {path.name for path in folder.iterdir()} == {
        *("config.json", "metrics.jsonl", "checkpoints", "best", "result.json", "report.html"),
    }
    page = (folder / "report.html").read_text()
    assert page.count('src="data:image/png;base64,') >= 3
    assert not re.search(r"https?://|<script|<link|@import|src=\"(?!data:)", page)
    config = json.loads((folder / "config.json").read_text())
    assert set(config["versions"]) >= {"longwave", "torch", "python"}
    assert config["experiment"]["model"]["d_model"] == 4


def test_several_seeds_end_in_their_mean_and_spread(capsys):
    assert call("train", "forecast", *SMALL, "--out", "run", "--seeds", "1", "2", "--quiet") == 0
    scores = [json.loads(Path(f"run-seed{seed}/result.json").read_text())["test"]["mse"] for seed in (1, 2)]
    assert scores[0] != scores[1]
    mean, spread = sum(scores) / 2, abs(scores[0] - scores[1]) / math.sqrt(2)
    shown = capsys.readouterr().out
    assert "seeds 1, 2:" in shown
    assert f"test mse {mean:.4f} +- {spread:.4f}" in shown


def test_a_folder_in_the_way_of_any_seed_stops_before_the_first_is_trained(capsys):
    Path("run-seed2").mkdir()
    Path("run-seed2/config.json").write_text("{}")
    assert call("train", "forecast", *SMALL, "--out", "run", "--seeds", "1", "2") == 2
    assert "run-seed2: there is a run already" in capsys.readouterr().err
    assert not Path("run-seed1").exists()


def test_a_run_that_diverges_ends_with_exit_code_1_and_says_what_broke(capsys):
    assert call("train", "forecast", *SMALL, "--out", "run", "--optim.lr", "1e38") == 1
    shown = capsys.readouterr().err
    assert re.search(r"longwave: the run failed: .* is not finite at step \d+ \(learning rate .* weight", shown)


def test_ctrl_c_ends_with_exit_code_130_and_the_command_it_prints_goes_on(capsys):
    code = f"""
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from longwave.cli.main import main
from longwave.train.loop import Run
step = Run._step

def struck(self, *arguments):
    if self.position.step == 1:
        os.kill(os.getpid(), signal.SIGINT)
    return step(self, *arguments)

Run._step = struck
main({["train", "forecast", *SMALL, "--out", "run"]!r})
"""
    run = run_python(code, cwd=Path.cwd(), threads=torch.get_num_threads())  # the same bits want as many
    assert run.returncode == 130, run.stderr
    assert "Traceback" not in run.stderr
    command = re.search(r"go on with: longwave (.*)", run.stderr)[1].split()
    assert command == ["train", "--resume", "run"]
    assert call(*command) == 0
    assert call("train", "forecast", *SMALL, "--out", "whole") == 0
    capsys.readouterr()
    same = [Path(name, "best", "model.safetensors").read_bytes() for name in ("run", "whole")]
    assert same[0] == same[1]


# What the other commands owe


def test_doctor_finds_this_installation_well(capsys):
    assert call("doctor") == 0
    assert "broken" not in capsys.readouterr().out


def test_bench_gives_json_and_nothing_else(capsys):
    assert call("bench", "accuracy", "--quick", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kernel", "layer"])
def test_speed_benches_give_json_and_nothing_else(name, capsys):
    assert call("bench", name, "--quick", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"]
