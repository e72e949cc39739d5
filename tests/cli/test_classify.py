"""Classification as a person meets it: images and custom sequences, from file to labels and report."""

import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command import call
from image_files import write_cifar10
from trained import KINDS, TINY, slopes

import longwave
from longwave import runs
from longwave.experiments import EXPERIMENTS
from longwave.layers import S4Config
from longwave.runs import load_run
from longwave.tasks.classify.predict import classify
from longwave.tasks.sequences import data as sequences

PLAIN = ["--npz", "good.npz", "--model.kind", "SequenceModel"]


@pytest.fixture
def printed(trained_runs):
    return trained_runs.fetch("classify")


def read_labels(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def small_classifier():
    settings = EXPERIMENTS["classify"]
    return replace(
        settings,
        model=replace(settings.model, d_model=4, n_layers=1, mixer=S4Config(d_state=4)),
        loop=replace(settings.loop, epochs=1),
    )


def test_custom_sequences_are_trained_scored_and_reported(printed, capsys):
    for model in (r"S4 \+ random convolutions \(this run\)", r"S4 alone \(of this run\)"):
        assert re.search(model + r" +│ +\d\.\d{4} │ +\d\.\d{4} │", printed)
    assert re.search(r"class prior +│ +0\.5000 │ +0\.6931 │", printed)
    result = json.loads(Path("run/result.json").read_text())
    assert result["test"]["accuracy"] > 0.8
    assert call("evaluate", "run") == 0
    assert capsys.readouterr().out == "".join(f"test {k} {v:.6f}\n" for k, v in result["test"].items())
    config = json.loads(Path("run/config.json").read_text())
    assert config["task"]["inputs"]["classes"] == list(KINDS)
    assert (
        "trained on all 36, and the validation score is that of a holdout model, trained without 12"
        in config["task"]["notes"][-1]
    )
    page = Path("run/report.html").read_text()
    for title in ("Confusion matrix", "Misclassified examples", "Attribution", "Learned kernels"):
        assert f"<h2>{title}</h2>" in page
    assert not re.search(r"https?://|<script|<link|@import|src=\"(?!data:)", page)


def test_new_sequences_get_labels_and_probabilities(printed, capsys):
    new, truth = slopes(20, seed=9)
    sequences.save_npz("new.npz", sequences.from_arrays(new))
    assert call("predict", "run", "--npz", "new.npz", "--out", "some/labels.csv") == 0
    assert "20 rows: some/labels.csv" in capsys.readouterr().out
    rows = read_labels("some/labels.csv")
    assert list(rows[0]) == ["label", "p_falling", "p_rising"]
    for row in rows:
        chances = [float(row[f"p_{kind}"]) for kind in KINDS]
        assert sum(chances) == pytest.approx(1, abs=1e-5)
        assert row["label"] == KINDS[int(np.argmax(chances))]
    assert np.mean([row["label"] == label for row, label in zip(rows, truth, strict=True)]) > 0.8


def test_custom_sequences_go_from_csv_to_labels(capsys):
    x, labels = slopes(40)
    with open("my.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"t{k}" for k in range(14)), "kind"])
        for row, label in zip(x, labels, strict=True):
            writer.writerow([*(f"{v:.3f}" for v in row[:, 0]), *[""] * (14 - len(row)), label])
    settings = ["--csv", "my.csv", "--label", "kind", "--balance", *TINY]
    assert call("train", "classify", *settings, "--out", "run") == 0
    assert "BALANCED ACCURACY" in capsys.readouterr().out
    assert call("predict", "run", "--csv", "my.csv") == 0
    assert len(read_labels("labels.csv")) == 40
    by_hand = classify(load_run(Path("run")), sequences.from_arrays(x))
    assert [row["label"] for row in read_labels("labels.csv")] == by_hand.labels


def test_arrays_in_python_are_kept_with_the_run_so_that_it_can_be_scored_after_it_was_moved(monkeypatch):
    x, labels = slopes(30, channels=2)
    finished = longwave.train_classifier(x, labels, "run", experiment=small_classifier(), quiet=True)
    assert (finished.folder / "report.html").exists()
    assert runs.evaluate("run", "test") == finished.result["test"]
    assert runs.evaluate(Path("run"), device="cpu") == finished.result["test"]
    assert len(classify(load_run("run"), sequences.from_arrays(x)).labels) == 30
    with pytest.raises(ValueError, match=r"^folder: run: run already exists; .* longwave\.runs\.resume\('run'\)$"):
        longwave.train_classifier(x, labels, Path("run"))
    Path("elsewhere").mkdir()
    Path("run").rename("elsewhere/moved")
    monkeypatch.chdir("elsewhere")
    assert runs.evaluate(Path("moved"), "test") == finished.result["test"]


def test_arrays_that_cannot_be_trained_on_leave_no_folder():
    x, labels = slopes(30)
    with pytest.raises(ValueError, match="experiment: expected an experiment of kind classify, got smnist"):
        longwave.train_classifier(x, labels, Path("other"), experiment=EXPERIMENTS["smnist"])
    with pytest.raises(ValueError, match="expected two or more classes"):
        longwave.train_classifier(x, ["a"] * 30, Path("other"))
    assert not Path("other").exists()


def test_names_of_classes_may_be_anything():
    names = ["<b>bold</b>", 'a, "b"', "cost $5 to $10", "$\\foo$", "two\nlines"]
    x, _ = slopes(30)
    finished = longwave.train_classifier(x, names * 6, Path("run"), experiment=small_classifier(), quiet=True)
    assert "<b>" not in (finished.folder / "report.html").read_text()
    classify(load_run(Path("run")), sequences.from_arrays(x)).write(Path("labels.csv"))
    assert {row["label"] for row in read_labels("labels.csv")} <= set(names)


def test_new_sequences_unlike_those_of_training_are_refused_or_noted(capsys):
    x, labels = slopes(30, channels=2)
    x = [row[:8] for row in x]
    sequences.save_npz("my.npz", sequences.from_arrays(x, labels))
    assert call("train", "classify", "--npz", "my.npz", *TINY, "--out", "run") == 0
    np.savez("other.npz", x=np.zeros((3, 8, 1)))
    assert call("predict", "run", "--npz", "other.npz") == 2
    assert "other.npz: expected 2 channels, as in training, got 1" in capsys.readouterr().err
    np.savez("longer.npz", x=np.zeros((3, 11, 2)))
    assert call("predict", "run", "--npz", "longer.npz") == 0
    assert "note: the model was trained on sequences of 8 steps, and these have 11 to 11" in capsys.readouterr().out


def test_a_run_that_classifies_needs_one_file_of_sequences(printed, capsys):
    for arguments in ([], ["--npz", "my.npz", "--csv", "my.npz"]):
        assert call("predict", "run", *arguments) == 2
        assert "run classifies: expected --npz FILE or --csv FILE" in capsys.readouterr().err
    assert call("predict", "run", "--npz", "my.npz", "--picture", "a.png") == 2
    assert "--picture" in capsys.readouterr().err
    Path("folder").mkdir()
    assert call("predict", "run", "--npz", "my.npz", "--out", "folder") == 2
    assert "folder: expected the name of a file to write, got a folder" in capsys.readouterr().err
    assert not list(Path().glob(".*.part"))
    assert call("predict", "run", "--npz", "my.npz", "--out", "my.npz") == 2
    assert "--out: my.npz is also --npz; name another file" in capsys.readouterr().err
    assert call("predict", "run", "--npz", "my.npz", "--device", "cuda:99") == 2
    assert "device: 'cuda:99' is not available" in capsys.readouterr().err
    assert call("generate", "run") == 2
    error = "run: a run of kind classify cannot generate; use longwave predict run"
    assert capsys.readouterr().err == f"longwave: error: {error}\n"


def test_a_run_is_scored_from_any_folder(printed, monkeypatch, capsys):
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert call("evaluate", "../run") == 0


def test_data_that_changed_since_the_training_is_refused(printed, capsys):
    x, labels = slopes(40)
    for changed_x, changed_labels in (
        (x, ["a" if label == "rising" else label for label in labels]),
        ([np.repeat(row, 2, axis=1) for row in x], labels),
        ([row + 1 for row in x], labels),
        (x[2:], labels[2:]),
    ):
        sequences.save_npz("my.npz", sequences.from_arrays(changed_x, changed_labels))
        for command in (["evaluate", "run"], ["train", "--resume=run"]):
            assert call(*command) == 2
            assert "the data is not what the run was trained on" in capsys.readouterr().err


def test_a_run_without_a_validation_has_no_weights_to_show(printed, capsys):
    shutil.rmtree("run/best")
    assert call("evaluate", "run") == 2
    error = capsys.readouterr().err
    assert "stopped before its first validation; resume with:\n  longwave train --resume run" in error


def test_a_rare_class_is_noted_before_training(capsys):
    x, _ = slopes(66)
    sequences.save_npz("my.npz", sequences.from_arrays(x, ["common"] * 63 + ["rare"] * 3))
    without_quiet = [argument for argument in TINY if argument != "--quiet"]
    assert call("train", "classify", "--npz", "my.npz", *without_quiet, "--out", "run") == 0
    assert "note: class 'rare' has 1 training examples and 'common' has 51" in capsys.readouterr().err
    assert "Note: class &#x27;rare&#x27; has 1 training examples" in Path("run/report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ([], "classify: expected --npz FILE or --csv FILE, got neither"),
        (["--npz", "none.npz"], "none.npz: no such file"),
        (["--npz", "one.npz"], "expected two or more classes, got only 'a'"),
        (["--npz", "nan.npz"], "nan.npz: sequence 0, step 1, channel 0: expected a finite number, got nan"),
        (["--csv", "bad.csv"], "label: no column 'label'"),
        (["--npz", "one.npz", "--ballance"], "--balance"),
        (["--npz", "good.npz", "--model.n-layers", "0"], "n_layers: expected a whole number, at least 1, got 0"),
        (["--npz", "good.npz", "--model.d-model", "-4"], "d_model: expected a whole number, at least 1, got -4"),
        ([*PLAIN, "--model.feed-forward", "-1"], "feed_forward: expected at least 0, got -1"),
        ([*PLAIN, "--model.decoder", "sequence"], "decoder: this task needs mean or last, got sequence"),
        (["--npz", "good.npz", "--model.convolutions", "-1"], "convolutions: expected at least 0, got -1"),
        (["--npz", "good.npz", "--smoothing", "1"], "smoothing: expected a share of at least 0 and below 1, got 1.0"),
        (["--npz", "good.npz", "--split-seed", "-1"], "split_seed: expected at least 0, got -1"),
        (["--npz", "good.npz", "--loop.seed", "99999999999"], "seed: expected a number below 2^32"),
        (["--npz", "good.npz", "--optim.plateau-factor", "nan"], "plateau_factor: expected a number above 0"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_written(arguments, hint, capsys):
    np.savez("one.npz", x=np.zeros((9, 4)), y=["a"] * 9)
    np.savez("good.npz", x=np.zeros((9, 4)), y=list("abcabcabc"))
    np.savez("nan.npz", x=np.array([[1, np.nan]] * 9), y=list("abcabcabc"))
    Path("bad.csv").write_text("kind,t0\na,1\n")
    assert call("train", "classify", *TINY, *arguments) == 2
    captured = capsys.readouterr()
    assert hint in re.sub(r"\s*│?\n│?\s*", " ", captured.err)
    assert not Path("runs").exists()


def test_a_resnet_on_anything_but_images_is_refused(capsys):
    np.savez("good.npz", x=np.zeros((9, 4)), y=list("abcabcabc"))
    assert call("train", "classify", "--npz", "good.npz", "--model.kind", "ResNet") == 2
    assert "model: a ResNet needs images of one size, which this task does not have" in capsys.readouterr().err


def test_images_are_trained_and_labelled(trained_runs, capsys):
    trained_runs.fetch("images")
    page = Path("run/report.html").read_text()
    assert "Some of them as images" not in page  # kernels of shuffled pixels have no plane
    config = json.loads(Path("run/config.json").read_text())
    assert config["experiment"]["task"] == {
        "kind": "images",
        "data": "pmnist",
        "augment": True,
        "split_seed": 0,
        "rates": [],
        "train_size": None,
    }
    np.savez("new.npz", x=np.full((2, 784), 0.5))
    assert call("predict", "run", "--npz", "new.npz") == 0
    assert "note: expected pixels from 0 to 255, but these range from 0.5 to 0.5" in capsys.readouterr().out
    assert [row["label"] in "0123456789" for row in read_labels("labels.csv")] == [True, True]


def test_a_resnet_is_trained_scored_and_shown_like_any_model(tmp_path, capsys):
    write_cifar10(tmp_path / "data", count=6)
    settings = ["--model.width", "4", "--loop.epochs", "1", "--quiet", "--out", "run"]
    assert call("train", "scifar-resnet18-small", *settings, "--model.width", "0") == 2
    assert "width: expected a whole number, at least 1, got 0" in capsys.readouterr().err
    assert call("train", "scifar-resnet18-small", *settings) == 0
    assert "ResNet-18 (this run)" in capsys.readouterr().out
    result = json.loads(Path("run/result.json").read_text())
    assert result["model"] == "ResNet-18"
    assert call("evaluate", "run") == 0
    page = Path("run/report.html").read_text()
    assert "<h2>Attribution</h2>" in page
    assert "Learned kernels" not in page


def test_missing_images_are_named_with_the_command_that_gets_them(capsys):
    assert call("train", "smnist-small", "--out", "run") == 2
    assert "longwave data get mnist" in capsys.readouterr().err
    assert not Path("run").exists()
