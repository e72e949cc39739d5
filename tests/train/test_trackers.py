"""Trackers: which are refused, and what one gets."""

import pytest
from tiny import lines, make_experiment, make_run, make_task

from longwave.experiments import EXPERIMENTS
from longwave.train import trackers


def test_an_unknown_tracker_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"unknown tracker 'tensorbord'; .*did you mean 'tensorboard'\?"):
        trackers.check("tensorbord")


def test_a_tracker_that_is_not_installed_is_refused_rather_than_left_out(monkeypatch):
    monkeypatch.setattr(trackers, "get_available_trackers", lambda: [])
    with pytest.raises(ValueError, match="tracker: wandb is not installed; pip install wandb"):
        trackers.check("wandb")


def test_no_tracker_is_asked_for_by_default():
    trackers.check(make_experiment().loop.tracker)


def test_a_run_with_a_bad_tracker_is_refused_before_it_writes(tmp_path):
    with pytest.raises(ValueError, match="unknown tracker 'paper'"):
        make_run(tmp_path / "run", make_experiment(loop={"tracker": "paper"}), make_task())
    assert list((tmp_path / "run").iterdir()) == []


class Recorder:
    """A tracker that remembers."""

    def __init__(self):
        self.is_finished = False

    def finish(self):
        self.is_finished = True


class Accelerator:
    """As much of accelerate's as trackers see."""

    def __init__(self):
        self.trackers = [Recorder()]

    def init_trackers(self, name, config):
        self.name, self.config = name, config


def test_a_tracker_gets_every_setting_by_its_dotted_name_and_ends_whatever_happens():
    accelerator = Accelerator()
    experiment = make_experiment(loop={"tracker": "tensorboard"})

    def fail():
        with trackers.tracking(accelerator, experiment):
            raise RuntimeError("struck")

    object.__setattr__(experiment, "task", experiment.loop)  # the tests' own task has no kind to be named by
    with pytest.raises(RuntimeError, match="struck"):
        fail()
    assert accelerator.name == "tiny"
    assert accelerator.config["model.mixer.d_state"] == 4
    assert accelerator.config["model.mixer.kind"] == "s4"
    assert accelerator.config["optim.dt_lr"] == "None"  # which TensorBoard would refuse as it is
    assert accelerator.trackers[0].is_finished


def test_without_a_tracker_nothing_is_begun():
    accelerator = Accelerator()
    with trackers.tracking(accelerator, make_experiment()):
        pass
    assert not hasattr(accelerator, "name")


def test_tensorboard_gets_every_validation(tmp_path):
    pytest.importorskip("tensorboard")
    experiment = make_experiment(loop={"tracker": "tensorboard"})
    object.__setattr__(experiment, "task", EXPERIMENTS["classify"].task)
    make_run(tmp_path, experiment, make_task(), quiet=True).fit(resume=False)
    written = b"".join(path.read_bytes() for path in (tmp_path / "tiny").rglob("events.out.tfevents.*"))
    assert written.count(b"valid_mse") == len(lines(tmp_path)) == 4
