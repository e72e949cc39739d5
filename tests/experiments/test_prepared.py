"""An experiment that is prepared: fitted to its data once, and found again as it was by whoever opens its run."""

import dataclasses

import numpy as np
import pytest

from longwave.experiments import EXPERIMENTS
from longwave.experiments.prepared import prepare, prepare_on
from longwave.models import SequenceConfig
from longwave.models.classifier import Classifier
from longwave.tasks.classify.holdout import HoldoutTask
from longwave.tasks.classify.task import SequenceTask
from longwave.train.folder import RunFolder


@pytest.fixture
def experiment(tmp_path):
    """A classification of 60 sequences, few enough for a holdout model."""
    x = np.random.default_rng(0).normal(size=(60, 8, 1))
    np.savez(tmp_path / "my.npz", x=x, y=["a", "b", "c"] * 20)
    named = EXPERIMENTS["classify"]
    return dataclasses.replace(named, task=dataclasses.replace(named.task, npz=tmp_path / "my.npz"))


def test_a_run_that_is_opened_is_prepared_as_it_was_started(experiment, tmp_path):
    started = prepare(experiment)
    RunFolder.create(tmp_path / "run", started, None).write_config(started.artifacts)
    opened = RunFolder.open(tmp_path / "run").prepare()
    assert opened.experiment == started.experiment
    assert opened.task.describe() == started.task.describe()
    assert dataclasses.replace(opened.spec, examples=None) == dataclasses.replace(started.spec, examples=None)
    assert opened.calibrate is started.calibrate is Classifier.calibrate
    assert isinstance(opened.task, HoldoutTask)


def test_what_is_prepared_is_fitted_to_the_data(experiment):
    prepared = prepare(experiment)
    assert (prepared.experiment.model.output_size, prepared.experiment.model.holdout_model) == (3, True)
    assert prepared.experiment.loop.keep == "last"
    assert prepared.experiment.loop.epochs is not None
    assert experiment.loop.epochs is None
    other = prepare(dataclasses.replace(experiment, model=SequenceConfig()))
    assert not isinstance(other.task, HoldoutTask)
    assert len(other.task.train) < len(prepared.task.train)


def test_seeds_differ_in_nothing_but_the_seed(experiment):
    prepared = prepare(experiment)
    other = prepared.with_seed(7)
    assert other.experiment.loop == dataclasses.replace(prepared.experiment.loop, seed=7)
    assert other.task is prepared.task


def test_a_note_is_given_once(experiment, monkeypatch):
    task = dataclasses.replace(experiment.task.build(), notes=("on the data", "on the data"))
    monkeypatch.setattr(type(experiment.task), "build", lambda *_: task)
    (first, own) = prepare(experiment).task.notes
    assert first == "on the data" != own


def test_the_files_of_a_task_are_made_once_for_a_run(experiment, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(SequenceTask, "artifacts", lambda task: made.append(task) or {"a.txt": b"a"})
    prepared = prepare(experiment)
    run = RunFolder.create(tmp_path / "run", prepared, None)
    run.write_config(prepared.artifacts)
    assert run.config.artifacts == ("a.txt",)
    assert run.artifact("a.txt") == b"a"
    assert len(made) == 1


def test_a_model_that_cannot_follow_the_rates_of_a_task_is_refused(experiment):
    task = dataclasses.replace(experiment.task, rates=(1.0, 2.0))
    with pytest.raises(ValueError, match=r"rates: the model of classify .* has no notion of the time between steps"):
        prepare_on(experiment, task.build())
