"""Sweeps from beginning to end: what is kept, what goes on, what is chosen by, and what is never looked at."""

import dataclasses
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import call
from trained import write_slopes

from longwave import runs
from longwave.core import lock
from longwave.core.terminal import command_line
from longwave.experiments import EXPERIMENTS
from longwave.layers import S4Config
from longwave.models import SequenceConfig
from longwave.sweeps import run
from longwave.sweeps.folder import SweepFolder
from longwave.sweeps.plan import plan
from longwave.train.loop import Diverged, Interrupted, TrainingError

TINY = (
    *("--model.kind", "SequenceModel", "--model.d-model", "4", "--model.n-layers", "1", "--model.mixer.d-state", "4"),
    *("--loop.epochs", "2", "--loop.batch-size", "16", "--quiet"),
)


@pytest.fixture(autouse=True)
def _quick(own_folder, _few_features, monkeypatch):
    """Data to sweep over; the page of a run, which takes longer than its training, is empty."""
    monkeypatch.setattr(runs, "write_report", lambda folder, *_: (folder.path / "report.html").write_text(""))
    write_slopes()


def members(rates=(0.001, 0.1), seeds=(0,), epochs=2):
    experiment = EXPERIMENTS.find("classify")
    experiment = dataclasses.replace(
        experiment,
        task=dataclasses.replace(experiment.task, npz=Path("my.npz")),
        model=SequenceConfig(d_model=4, n_layers=1, mixer=S4Config(d_state=4)),
        loop=dataclasses.replace(experiment.loop, epochs=epochs, batch_size=16),
    )
    return plan([experiment], {"optim.lr": rates}, seeds)


def wait_for_the_end(place):
    """Wait until no process holds the folder of a run."""
    while True:
        try:
            with lock.hold(place):
                return
        except lock.Busy:
            time.sleep(0.1)


def weights(folder):
    return {path.parent.parent.name: path.read_bytes() for path in sorted(Path(folder).glob("*/best/*.safetensors"))}


def test_a_sweep_is_sorted_by_the_validation_set_and_shows_the_test_set_for_the_best_alone(capsys):
    arguments = ("sweep", "classify", "--npz", "my.npz", *TINY, "--set", "optim.lr", "0.0001,0.1", "--seeds", "0", "1")
    assert call(*arguments) == 0
    shown = capsys.readouterr()
    assert "its test" not in shown.out
    sweep = SweepFolder.open("runs/sweep-classify-my")
    rows = sweep.rows()
    assert [row.mean for row in rows] == sorted((row.mean for row in rows), reverse=True)
    assert shown.out.index(rows[0].name.partition("=")[2]) < shown.out.index(rows[1].name.partition("=")[2])
    first, *lines = (sweep.path / "table.csv").read_text().splitlines()
    assert first == "optim.lr,seed,state,valid_accuracy,train_accuracy,best_step,steps,minutes,parameters"
    assert [line.split(",")[2] for line in lines] == ["finished"] * 4
    assert (sweep.path / "sweep.png").stat().st_size > 10_000
    # Once more: nothing is trained again, and now the test score of the best is shown, but of no other.
    best = [json.loads((sweep.place(m) / "result.json").read_text())["test"]["loss"] for m in rows[0].members]
    for member in sweep.members:
        if member.row != rows[0].name:
            result = sweep.place(member) / "result.json"
            result.write_text(json.dumps(json.loads(result.read_text()) | {"test": {"loss": -777.0}}))
    assert call(*arguments, "--test-best") == 0
    shown = capsys.readouterr().out
    assert f"its test loss {sum(best) / 2:.4f} +- " in shown
    assert "777" not in shown


def test_a_sweep_whose_file_names_other_folders_is_refused(capsys):
    run.start(members(), "swept", quiet=True)
    path = Path("swept/sweep.json")
    content = json.loads(path.read_text())
    for name in ("../elsewhere", "/tmp/elsewhere", "..", ".", "", "a/b", 3, content["runs"][1]["name"]):
        changed = json.loads(path.read_text())
        changed["runs"][0]["name"] = name
        Path("other").mkdir(exist_ok=True)
        Path("other/sweep.json").write_text(json.dumps(changed))
        assert call("sweep", "--resume", "other") == 2, name
        assert "other: expected the folder of a sweep" in capsys.readouterr().err
        assert sorted(p.name for p in Path("other").iterdir()) == ["sweep.json"]


def test_an_interrupted_sweep_keeps_what_is_finished_and_goes_on_to_the_bit(monkeypatch):
    run.start(members(epochs=4), "whole", quiet=True)
    real, steps = runs.Run.step, []

    def interrupted(self, batch, is_ours=True):
        steps.append(1)
        if len(steps) == 13:  # in the second run of 8 steps
            self._interrupted = True
        return real(self, batch, is_ours)

    monkeypatch.setattr(runs.Run, "step", interrupted)
    with pytest.raises(Interrupted, match=r"the sweep was stopped; resume with:\n  longwave sweep --resume parts$"):
        run.start(members(epochs=4), "parts", quiet=True)
    sweep = SweepFolder.open("parts")
    assert [sweep.state(member) for member in sweep.members] == ["finished", "interrupted"]
    # What there is so far can be looked at.
    assert [line.split(",")[2] for line in Path("parts/table.csv").read_text().splitlines()[1:]] == [
        "finished",
        "interrupted",
    ]
    assert Path("parts/sweep.png").exists()
    finished = (sweep.place(sweep.members[0]) / "report.html").stat().st_mtime_ns
    run.resume("parts", quiet=True)
    assert len(steps) == 16
    assert [sweep.state(member) for member in sweep.members] == ["finished", "finished"]
    assert (sweep.place(sweep.members[0]) / "report.html").stat().st_mtime_ns == finished
    assert weights("parts") == weights("whole")
    assert len(weights("whole")) == 2


def test_a_run_in_a_process_of_its_own_records_the_command_of_the_sweep(monkeypatch):
    run.start(members(), "sweep", quiet=True)
    name, found = SweepFolder.open("sweep").members[0].name, []
    monkeypatch.setattr(sys, "argv", ["-c"])
    monkeypatch.setattr(run, "_end_with_the_sweep", lambda: None)
    monkeypatch.setattr(run, "_train", lambda *_, **__: found.append(command_line()))
    run.run_in_child("sweep", name, "cpu", "/usr/bin/longwave", "sweep", "classify", "--jobs", "2")
    assert found == ["longwave sweep classify --jobs 2"]


def test_the_failure_of_a_process_is_told_with_the_command_below_it(monkeypatch):
    said = "Traceback:\n  a line\nTrainingError: the disk is full; resume with:\n  longwave train"
    monkeypatch.setattr(run, "CHILD", f"import sys; sys.exit({said!r})")
    member = members()[0]
    Path("sweep").mkdir()
    process = run._Process(SweepFolder(Path("sweep"), [member], "accuracy", True, None), member, "cpu", 1)
    process.process.wait()
    with pytest.raises(
        TrainingError, match=r"errors\): TrainingError: the disk is full; resume with:\n  longwave train$"
    ):
        process.is_finished()


def test_a_full_disk_in_a_process_is_an_error_that_names_the_file(monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "lr=0.1-seed0/config.json")

    run.start(members(rates=(0.1,)), "sweep", quiet=True)
    monkeypatch.setattr(run, "_end_with_the_sweep", lambda: None)
    monkeypatch.setattr(run, "_train", full)
    with pytest.raises(SystemExit) as ended:
        run.run_in_child("sweep", "lr=0.1-seed0", "cpu", "longwave")
    assert ended.value.code == errno.ENOSPC
    monkeypatch.setattr(
        run, "CHILD", f"import sys; print('lr=0.1-seed0/config.json', file=sys.stderr); sys.exit({errno.ENOSPC})"
    )
    Path("sweep/lr=0.1-seed0/result.json").unlink()
    with pytest.raises(OSError, match=r"No space left on device: 'lr=0\.1-seed0/config\.json'") as error:
        run.resume("sweep", jobs=2, quiet=True)
    assert error.value.__notes__ == ["make room, then resume with: longwave sweep --resume sweep"]
    assert call("sweep", "--resume", "sweep", "--jobs", "2", "--quiet") == 2


def test_a_folder_of_another_sweep_is_refused():
    run.start(members(rates=(0.1,)), "sweep", quiet=True)
    for others, message in (
        (members(rates=(0.1, 0.2)), "it has 1 other runs"),
        (
            members(rates=(0.1,), epochs=3),
            r"lr=0.1-seed0 has other settings: loop.epochs \(2 there, 3 here\)\); choose ",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            run.start(others, "sweep", quiet=True)
    shutil.rmtree("sweep/lr=0.1-seed0")
    Path("sweep/sweep.json").write_text("{}")
    with pytest.raises(ValueError, match="expected the folder of a sweep"):
        run.resume("sweep")


def test_settings_that_do_not_fit_are_refused_before_anything_is_written():
    wanted = members()
    odd = dataclasses.replace(wanted[1].experiment, model=SequenceConfig(mixer=S4Config(d_state=3)))
    with pytest.raises(ValueError, match="d_state: expected an even number"):
        run.start([wanted[0], wanted[1]._replace(experiment=odd)], "sweep", quiet=True)
    with pytest.raises(ValueError, match="--jobs: expected at least 1"):
        run.start(wanted, "sweep", jobs=0)
    other = EXPERIMENTS.find("etth1-24")
    with pytest.raises(ValueError, match="with the same validation score, got accuracy of classify and mse of "):
        run.start([*wanted, wanted[0]._replace(experiment=other)], "sweep", quiet=True)
    assert not Path("sweep").exists()


def test_a_run_that_diverges_is_noted_and_not_chosen(monkeypatch, capsys):
    real = runs.Run.step

    def diverging(self, batch, is_ours=True):
        if self.experiment.optim.lr == 0.1:
            raise Diverged("the loss is not finite")
        return real(self, batch, is_ours)

    monkeypatch.setattr(runs.Run, "step", diverging)
    sweep = run.start(members(), "sweep")
    assert "lr=0.1-seed0 failed; the sweep continues" in capsys.readouterr().err
    first, last = sweep.rows()
    assert (first.name, last.name, last.mean) == ("lr=0.001", "lr=0.1", None)
    assert call("sweep", "--resume", str(sweep.path.resolve())) == 0  # and it is not tried again
    shown = capsys.readouterr()
    assert "2 of 2 runs are finished already" in shown.err
    assert "failed: the loss is not finite" in shown.out


def test_a_table_that_cannot_be_written_on_the_way_ends_no_sweep(monkeypatch, capsys):
    calls = []

    def write(sweep):
        calls.append([sweep.state(member) for member in sweep.members])
        if len(calls) == 1:
            raise OSError("the disk is full")

    monkeypatch.setattr(run, "_write", write)
    run.start(members(), "sweep")
    assert calls == [["finished", "new"], ["finished", "finished"]]
    assert "were not written (the disk is full)" in capsys.readouterr().err


def test_mistakes_of_the_command_line_are_named(capsys):
    for arguments, message in (
        (("smnist-smal",), "did you mean 'smnist-small'?"),
        (("smnist-small", "--set", "optim.lr"), "--set: expected a setting and its values"),
        (("smnist-small", "pmnist", "nist"), "unknown experiment 'nist'"),
        (("--resume",), "--resume: expected one folder, as in longwave sweep --resume runs/sweep-NAME"),
        (("--resume", "nowhere"), "nowhere: expected the folder of a sweep"),
        (("smnist-small", "--set", "optim.lr", "1", "--set", "optim.lr", "2"), "expected each setting once"),
    ):
        assert call("sweep", *arguments) == 2
        assert message in capsys.readouterr().err
    assert not Path("runs").exists()


@pytest.mark.slow
def test_processes_of_a_killed_sweep_end_and_leave_runs_that_go_on_to_the_bit():
    """Two at a time, killed in the middle; then stopped by Ctrl-C; then finished, and equal to one after the other."""
    run.start(members(epochs=60), "whole", quiet=True)
    sweep = run.SweepFolder(Path("parts"), *[getattr(SweepFolder.open("whole"), n) for n in ("members", "goal")], True)
    sweep.write()
    command = [sys.executable, "-m", "longwave", "sweep", "--resume", "parts", "--jobs", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def validations():
        return [len(path.read_text().splitlines()) for path in Path("parts").glob("*/metrics.jsonl")]

    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130), (None, 0)):
        before = sum(validations())
        process = subprocess.Popen(
            command,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        while number is not None:
            time.sleep(0.1)
            if len(validations()) == 2 and sum(validations()) > before + 4:  # both have begun
                process.send_signal(number)
                break
        said = process.communicate()[1]
        assert process.returncode == code, said
        if number == signal.SIGINT:
            assert "resume with:\n  longwave sweep --resume parts --jobs 2" in said
        if number == signal.SIGKILL:
            for member in sweep.members:
                wait_for_the_end(sweep.place(member))
            assert len(list(Path("parts").glob("*/checkpoints/last.ckpt"))) == 2
    assert weights("parts") == weights("whole")
