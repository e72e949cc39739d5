"""A custom series, as a person meets it: from CSV to scores, forecast and report."""

import csv
import errno
import json
import math
import os
import re
import signal
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from command import call
from trained import HORIZON, RECIPES, ROWS, START, write_series

from longwave import runs
from longwave.core import files
from longwave.train.loop import Run

TRAIN = ("train", *RECIPES["forecast"].arguments)


@pytest.fixture
def printed(trained_runs):
    return trained_runs.fetch("forecast")


def test_a_run_leaves_one_folder_with_a_page_that_needs_no_network(printed, tmp_path, capsys):
    assert re.search(r"S4 \(this run\) +│ +[\d.e-]+ │ +[\d.e-]+ │", printed)
    assert re.search(r"repeat-last +│ +\d+\.\d{4} │ +\d+\.\d{4} │", printed)
    assert re.search(r"report: .*/run/report.html", printed)
    assert {path.name for path in Path("run").iterdir()} == {
        *("config.json", "metrics.jsonl", "checkpoints", "best", "result.json", "report.html", "residuals.npz"),
    }
    page = Path("run/report.html").read_text()
    assert page.count('src="data:image/png;base64,') >= 3
    assert not re.search(r"https?://|<script|<link|@import|src=\"(?!data:)", page)
    config = json.loads(Path("run/config.json").read_text())
    assert set(config["versions"]) >= {"longwave", "torch", "python"}
    assert config["experiment"]["model"]["d_model"] == 8
    assert call(*TRAIN, "--out", "run") == 2
    assert "or resume it with:\n  longwave train --resume run\n" in capsys.readouterr().err


def test_evaluate_gives_the_scores_of_the_result(printed, capsys):
    result = json.loads(Path("run/result.json").read_text())
    for part in ("valid", "test"):
        assert call("evaluate", "run", "--split", part) == 0
        expected = "".join(f"{part} {score} {value:.6f}\n" for score, value in result[part].items())
        scores, _, intervals = capsys.readouterr().out.partition(
            "forecast: series.csv, prediction intervals, test set\n"
        )
        assert scores == expected
        assert intervals.count("this run") == (2 if part == "test" else 0)  # 80 and 95 %


def test_predict_writes_the_rows_that_follow_and_a_picture(printed, capsys):
    assert call("predict", "run", "--csv", "series.csv", "--out", "some/forecast.csv") == 0
    assert capsys.readouterr().out == f"{HORIZON} rows: some/forecast.csv\npicture: some/forecast.png\n"
    with open("some/forecast.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    stamps = [datetime.fromisoformat(row["date"]) for row in rows]
    assert stamps == [START + timedelta(hours=ROWS + k) for k in range(HORIZON)]
    assert all(math.isfinite(float(row["price"])) for row in rows)
    assert Path("some/forecast.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_of_a_forecast_shows_its_own_options(printed, capsys):
    assert call("predict", "run", "--help") == 0
    shown = capsys.readouterr().out
    assert "longwave predict run" in shown
    assert "--picture" in shown
    assert "--npz" not in shown
    assert call("predict", "run") == 2
    assert "--csv" in capsys.readouterr().err
    assert call("predict", "run", "--csv", "series.csv", "--device", "cuda:99") == 2
    assert "device: 'cuda:99' is not available" in capsys.readouterr().err
    assert call("generate", "run") == 2
    assert "run: a run of kind forecast cannot generate; use longwave predict run" in capsys.readouterr().err


def test_a_forecast_has_its_digits_its_notes_and_files_of_its_own(capsys):
    write_series()
    settings = [*TRAIN, "--horizon", "1", "--fill", "linear"]
    rows = [line.split(",") for line in Path("series.csv").read_text().splitlines()[1:]]
    body = [f"{date},{float(price) + 1e9:.4f}" for date, price in rows]
    name = 'a "strange", long $name$ that goes on and on'
    head = 'date,"a ""strange"", long $name$ that goes on and on"'
    settings[settings.index("price")] = name
    Path("series.csv").write_text("\n".join([head, *body]) + "\n")
    assert call(*settings, "--out", "run") == 0

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
        ((_, written), (_, value)) = csv.reader(file)
    assert written == name
    assert 0 < abs(float(value) - 1e9) < 20
    assert re.search(r"\.\d", value)


def test_a_series_that_changed_where_only_the_test_part_sees_it_is_refused(printed, capsys):
    lines = Path("series.csv").read_text().splitlines()
    Path("series.csv").write_text("\n".join([*lines[:-1], lines[-1].split(",")[0] + ",99"]) + "\n")
    assert call("evaluate", "run") == 2
    assert "the data is not what the run was trained on; digest" in capsys.readouterr().err


def test_a_file_whose_name_is_no_text_does_not_lose_the_report_and_quiet_is_quiet(monkeypatch, capsys):
    write_series()
    name = os.fsdecode(b"s\xff.csv")
    Path("series.csv").rename(name)
    settings = [name if argument == "series.csv" else argument for argument in TRAIN]
    monkeypatch.setattr(sys, "argv", ["longwave", *settings])  # what the report shows
    assert call(*settings, "--out", "some where/run") == 0
    assert capsys.readouterr().err == ""
    assert "s?.csv" in Path("some where/run/report.html").read_text()
    command = json.loads(Path("some where/run/config.json").read_text())["command"]
    assert command.startswith("longwave train forecast --csv ")


def test_several_seeds_end_in_their_mean_and_spread_and_progress_stays_out_of_the_result(capsys):
    write_series()
    deep = ("--model.kind", "SequenceModel", "--model.decoder", "forecast")  # it starts otherwise with each seed
    loud = [argument for argument in (*TRAIN, *deep) if argument != "--quiet"]
    assert call(*loud, "--out", "run", "--seeds", "1", "2") == 0
    scores = [json.loads(Path(f"run-seed{seed}/result.json").read_text())["test"]["mse"] for seed in (1, 2)]
    assert scores[0] != scores[1]
    mean, spread = sum(scores) / 2, abs(scores[0] - scores[1]) / math.sqrt(2)
    shown = capsys.readouterr()
    assert "seeds 1, 2:" in shown.out
    for name in ("coverage", "width", "pinball"):
        assert re.search(rf"  test {name} at 95 % \d\.\d{{4}} \+- \d\.\d{{4}}\n", shown.out)
    assert f"test mse {mean:.4f} +- {spread:.4f}" in shown.out
    assert "validation mse" in shown.err
    assert "validation" not in shown.out


def test_a_full_disk_leaves_the_run_that_should_have_been_overwritten_and_says_so(printed, capsys, monkeypatch):
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}

    def full(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(files, "write_json", full)
    assert call(*TRAIN, "--out", "run", "--overwrite") == 2
    assert capsys.readouterr().err == (
        "longwave: error: [Errno 28] No space left on device: 'run/.new/config.json'; make room, then repeat the "
        "command; the earlier run in run is unchanged\n"
    )
    assert {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()} == before


def test_a_run_is_overwritten_only_when_asked_and_only_by_one_that_can_be_trained(printed, capsys):
    Path("run/mine.txt").write_text("kept")
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    assert call(*TRAIN, "--out", "run", "--target", "prize") == 2
    assert "prize" in capsys.readouterr().err  # the data comes first: there is no use in another folder
    assert call(*TRAIN, "--out", "run") == 2
    error = (
        "run: run already exists; replace it with --overwrite, choose another folder with --out, or resume it with:\n"
    )
    assert error in capsys.readouterr().err
    for wrong in (["--target", "prize"], ["--optim.precision", "fp16"], ["--model.decoder", "mean"]):
        assert call(*TRAIN, "--out", "run", "--overwrite", *wrong) == 2
    assert {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()} == before
    assert call(*TRAIN, "--out", "run", "--overwrite", "--horizon", "2") == 0
    assert json.loads(Path("run/config.json").read_text())["experiment"]["task"]["horizon"] == 2
    assert Path("run/mine.txt").read_text() == "kept"
    assert not Path("run/.new").exists()
    assert call("evaluate", "run", "--device", "cpu") == 0
    result = json.loads(Path("run/result.json").read_text())
    assert f"test mse {result['test']['mse']:.6f}" in capsys.readouterr().out


def test_the_config_of_a_run_trains_the_same_again(printed):
    assert call("train", "--config", "run/config.json", "--out", "again", "--quiet") == 0
    same = [Path(name, "best", "model.safetensors").read_bytes() for name in ("run", "again")]
    assert same[0] == same[1]


def test_runs_on_two_files_do_not_collide(monkeypatch):
    folders = []
    monkeypatch.setattr(runs, "start_seeds", lambda _, found, *__, **___: folders.append(found) or ())
    write_series()
    Path("other.csv").write_bytes(Path("series.csv").read_bytes())
    for arguments in ([], ["--csv", "other.csv"], ["--csv", "other.csv", "--seeds", "1", "2"], ["--out", "a/b"]):
        assert call(*TRAIN, *arguments) == 0
    assert folders == [
        {0: Path("runs/forecast-series-seed0")},
        {0: Path("runs/forecast-other-seed0")},
        {seed: Path(f"runs/forecast-other-seed{seed}") for seed in (1, 2)},
        {0: Path("a/b")},
    ]


def test_a_folder_in_the_way_of_any_seed_stops_before_the_first_is_trained(capsys):
    write_series()
    Path("run-seed2").mkdir()
    Path("run-seed2/config.json").write_text("{}")
    assert call(*TRAIN, "--out", "run", "--seeds", "1", "2") == 2
    assert "run-seed2: run already exists" in capsys.readouterr().err
    assert not Path("run-seed1").exists()


def test_a_run_that_diverges_ends_with_exit_code_1_and_says_what_broke(capsys):
    write_series()
    assert call(*TRAIN, "--out", "run", "--optim.lr", "1e30") == 1
    shown = capsys.readouterr().err
    assert re.search(r"longwave: the run failed: .* is not finite at step \d+ \(learning rate .* weight", shown)


@pytest.fixture
def _ctrl_c_is_heard():
    """A shell that runs the tests in the background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c_is_heard")
def test_ctrl_c_ends_with_exit_code_130_and_the_command_it_prints_goes_on(printed, monkeypatch, capfd):
    Path("run").rename("whole")
    step = Run.step

    def struck(self, *arguments):
        if self.position.step == 1:
            signal.raise_signal(signal.SIGINT)
        return step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "step", struck)
        assert call(*TRAIN, "--out", "run") == 130
    said = capfd.readouterr().err
    assert "Traceback" not in said
    command = re.search(r"resume with:\n  longwave (.*)", said)[1].split()
    assert command == ["train", "--resume", "run"]
    assert call(*command) == 0
    same = [Path(name, "best", "model.safetensors").read_bytes() for name in ("run", "whole")]
    assert same[0] == same[1]
