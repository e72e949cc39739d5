"""A finished run in Python: in a folder or in memory, it predicts, streams, generates, plots and is saved."""

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from audio_files import write_clips

import longwave
from longwave.experiments import EXPERIMENTS
from longwave.layers import S4Config


def small(name="classify", **loop):
    settings = EXPERIMENTS[name]
    return dataclasses.replace(
        settings,
        model=dataclasses.replace(settings.model, d_model=4, n_layers=1, mixer=S4Config(d_state=4)),
        loop=dataclasses.replace(settings.loop, **{"epochs": 1, "validations": 1} | loop),
    )


def sequences(count=30):
    x = np.random.default_rng(0).standard_normal((count, 12))
    return x, ["a", "b", "c"] * (count // 3)


@pytest.mark.usefixtures("own_folder")
def test_a_run_in_memory_equals_the_one_in_a_folder_to_the_bit():
    x, y = sequences()
    here = longwave.train_classifier(x, y, experiment=small(), quiet=True)
    there = longwave.train_classifier(x, y, "run", experiment=small(), quiet=True)
    assert here.result["test"] == there.result["test"]
    np.testing.assert_array_equal(here.predict(x).probabilities, there.predict(x).probabilities)
    assert here.folder is None
    assert there.evaluate() == there.result["test"]
    with pytest.raises(ValueError, match="evaluate: a run without a folder does not keep its data"):
        here.evaluate()
    again = pickle.loads(pickle.dumps(here))
    np.testing.assert_array_equal(again.predict(x).probabilities, here.predict(x).probabilities)


@pytest.mark.usefixtures("own_folder")
def test_a_run_in_memory_is_saved_as_one_that_the_commands_open():
    x, y = sequences()
    here = longwave.train_classifier(x, y, experiment=small(), quiet=True)
    here.save("saved")
    opened = longwave.open("saved")
    assert opened.result == here.result
    np.testing.assert_array_equal(opened.predict(x).probabilities, here.predict(x).probabilities)
    assert repr(opened).startswith("FinishedRun(classify: accuracy ")
    assert "<table>" in opened._repr_html_()
    with pytest.raises(ValueError, match="plot: the run has no metrics of its training"):
        opened.plot()


@pytest.mark.usefixtures("own_folder")
def test_a_run_is_replaced_when_asked_and_its_data_with_it():
    x, y = sequences()
    longwave.train_classifier(x, y, "run", experiment=small(), quiet=True)
    with pytest.raises(ValueError, match=r"folder: run: run already exists; .* overwrite=True"):
        longwave.train_classifier(x, y, "run", experiment=small(), quiet=True)
    new = longwave.train_classifier(x[:24], y[:24], "run", experiment=small(seed=1), overwrite=True, quiet=True)
    assert longwave.open("run").evaluate() == new.result["test"]
    assert longwave.open("run").experiment.loop.seed == 1


@pytest.mark.usefixtures("own_folder")
def test_without_a_test_set_the_scores_are_those_of_the_validation_set(capsys):
    x, y = sequences()
    run = longwave.train_classifier(x, y, "run", ["train"] * 30, small(), quiet=True)
    assert run.result["test"] == {}
    assert "no sequence is marked test: scores are those of the validation set" in run.notes
    report = (run.folder / "report.html").read_text()
    assert "Scores on the validation set" in report
    assert longwave.open("run").result == run.result
    assert "on the validation set)" in repr(run)


def test_channels_may_come_first():
    x = np.random.default_rng(0).standard_normal((30, 2, 12))
    y = ["a", "b", "c"] * 10
    first = longwave.train_classifier(x, y, experiment=small(), channels="first", quiet=True)
    last = longwave.train_classifier(x.transpose(0, 2, 1), y, experiment=small(), quiet=True)
    assert first.result["test"] == last.result["test"]
    np.testing.assert_array_equal(first.predict(x).probabilities, last.predict(x.transpose(0, 2, 1)).probabilities)


def test_weights_of_examples_are_kept_in_a_file(tmp_path):
    from longwave.tasks.sequences.data import from_arrays, read_npz, save_npz

    x, y = sequences()
    weight = np.linspace(0, 2, 30)
    save_npz(tmp_path / "a.npz", from_arrays(x, y, weight=weight))
    np.testing.assert_array_equal(read_npz(tmp_path / "a.npz").weights, weight)
    for bad in (-weight, np.zeros(30), weight[:, None], np.full(30, np.nan)):
        with pytest.raises(ValueError, match="arrays: weight: expected"):
            from_arrays(x, y, weight=bad)
    with pytest.raises(ValueError, match="weight: expected one for each of 30 sequences, got 29"):
        from_arrays(x, y, weight=weight[1:])


def test_a_kind_says_what_it_cannot_do():
    x, y = sequences()
    run = longwave.train_classifier(x, y, experiment=small(), quiet=True)
    with pytest.raises(ValueError, match="generate: a run of kind classify cannot generate"):
        run.generate()
    assert len(run.plot().axes) >= 2
    assert run.model is run.model


@pytest.mark.usefixtures("own_folder")
def test_a_text_is_learnt_and_continued_without_a_folder(tmp_path):
    (tmp_path / "verse.txt").write_text("to be or not to be " * 100)
    run = longwave.train_text(tmp_path / "verse.txt", experiment=small("text"), quiet=True)
    text = run.generate(prompt="to be", length=20, seed=0)
    assert text.startswith("to be")
    assert text == pickle.loads(pickle.dumps(run)).generate(prompt="to be", length=20, seed=0)


@pytest.mark.usefixtures("own_folder")
def test_audio_is_classified_by_a_run_in_memory():
    write_clips(Path("clips"))
    run = longwave.train_audio("clips", experiment=small("audio"), quiet=True)
    found = run.predict("clips")
    assert len(found.files) == len(found.labels)
    assert set(found.labels) <= set(found.classes)


@pytest.mark.usefixtures("own_folder")
def test_a_forecaster_streams_the_rows_of_a_file():
    frame = pd.DataFrame({"price": np.sin(np.arange(100))})
    frame.to_csv("prices.csv", index=False)
    experiment = small("forecast")
    run = longwave.train_forecaster("prices.csv", "run", horizon=3, context=10, experiment=experiment, quiet=True)
    rows = list(run.stream(csv=Path("prices.csv"), every=50))
    assert [row["row"] for row in rows] == [50, 100]
    assert rows[-1]["forecast"]["price"] == pytest.approx(run.predict("prices.csv").values[:, 0].tolist())
