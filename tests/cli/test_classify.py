"""Classification as a person meets it: images and one's own sequences, from file to labels and report."""

import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command import call
from image_files import write_cifar10, write_mnist

from longwave import models
from longwave.tasks import sequences
from longwave.train import predict, runs
from longwave.train.experiments import find

TINY = ["--model.d-model", "8", "--model.n-layers", "1", "--model.d-state", "4", "--loop.epochs", "2", "--quiet"]
KINDS = ("falling", "rising")


def slopes(count, channels=1, seed=0):
    """Noisy lines of unequal length, and whether they rise."""
    generator = np.random.default_rng(seed)
    labels = [KINDS[k % 2] for k in range(count)]
    x = []
    for label in labels:
        length = int(generator.integers(8, 15))
        line = np.linspace(-1, 1, length) * (1 if label == "rising" else -1) + 5
        x.append(line[:, None] + 0.1 * generator.standard_normal((length, channels)))
    return x, labels


def read_labels(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_own_sequences_go_from_npz_to_labels_and_probabilities(capsys):
    x, labels = slopes(60)
    sequences.save_npz("my.npz", sequences.from_arrays(x, labels))
    settings = ["--npz", "my.npz", *TINY, "--loop.epochs", "12", "--optim.lr", "0.03", "--optim.warmup", "0"]
    assert call("train", "classify", *settings, "--out", "run") == 0
    shown = capsys.readouterr().out
    assert re.search(r"S4 \(this run\) +│ +\d\.\d{4} │ +\d\.\d{4} │", shown)
    assert re.search(r"commonest class +│ +0\.5000 │ +0\.6931 │", shown)

    result = json.loads(Path("run/result.json").read_text())
    assert result["test"]["accuracy"] > 0.8
    assert call("evaluate", "run") == 0
    assert capsys.readouterr().out == "".join(f"test {k} {v:.6f}\n" for k, v in result["test"].items())
    config = json.loads(Path("run/config.json").read_text())
    assert config["task"]["inputs"]["classes"] == list(KINDS)

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

    page = Path("run/report.html").read_text()
    for title in ("What was taken for what", "Wrongly read examples", "Where the evidence lies", "Learned kernels"):
        assert f"<h2>{title}</h2>" in page
    assert not re.search(r"https?://|<script|<link|@import|src=\"(?!data:)", page)


def test_own_sequences_go_from_csv_to_labels(capsys):
    x, labels = slopes(40)
    with open("my.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"t{k}" for k in range(14)), "kind"])
        for row, label in zip(x, labels, strict=True):
            writer.writerow([*(f"{v:.3f}" for v in row[:, 0]), *[""] * (14 - len(row)), label])
    settings = ["--csv", "my.csv", "--label", "kind", "--balance", *TINY]
    assert call("train", "classify", *settings, "--out", "run") == 0
    assert call("predict", "run", "--csv", "my.csv") == 0
    capsys.readouterr()
    assert len(read_labels("labels.csv")) == 40
    by_hand = predict.classify(Path("run"), sequences.from_arrays(x))
    assert [row["label"] for row in read_labels("labels.csv")] == by_hand.labels


def test_arrays_in_python_are_kept_with_the_run_so_that_it_can_be_scored_again():
    x, labels = slopes(30, channels=2)
    finished = runs.classify(x, labels, Path("run"), experiment=small_classifier(), quiet=True)
    assert runs.evaluate(Path("run"), "test") == finished.result["test"]
    assert len(predict.classify(Path("run"), sequences.from_arrays(x)).labels) == 30
    with pytest.raises(ValueError, match="there is a run already"):
        runs.classify(x, labels, Path("run"))
    with pytest.raises(
        ValueError, match="experiment: expected one of one's own sequences, such as classify, got smnist"
    ):
        runs.classify(x, labels, Path("other"), experiment=find("smnist"))
    with pytest.raises(ValueError, match="expected two classes or more"):
        runs.classify(x, ["a"] * 30, Path("other"))
    assert not Path("other").exists()


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
    for arguments in ([], ["--npz", "my.npz", "--csv", "my.csv"], ["--npz", "my.npz", "--picture", "a.png"]):
        assert call("predict", "run", *arguments) == 2
        assert "run is a run that classifies: expected --npz FILE or --csv FILE" in capsys.readouterr().err


def small_classifier():
    settings = find("classify")
    return replace(
        settings,
        model=replace(settings.model, d_model=4, n_layers=1, d_state=4),
        loop=replace(settings.loop, epochs=1),
    )


def test_a_run_is_scored_from_any_folder_and_after_it_was_moved(monkeypatch, capsys):
    x, labels = slopes(30)
    sequences.save_npz("my.npz", sequences.from_arrays(x, labels))
    assert call("train", "classify", "--npz", "my.npz", *TINY, "--out", "run") == 0
    runs.classify(x, labels, Path("arrays"), experiment=small_classifier(), quiet=True)
    expected = json.loads(Path("arrays/result.json").read_text())["test"]
    Path("elsewhere").mkdir()
    Path("arrays").rename("elsewhere/moved")
    monkeypatch.chdir("elsewhere")
    assert call("evaluate", "../run") == 0
    assert runs.evaluate(Path("moved"), "test") == expected


def test_data_that_changed_since_the_training_is_refused(capsys):
    x, labels = slopes(30)
    sequences.save_npz("my.npz", sequences.from_arrays(x, labels))
    assert call("train", "classify", "--npz", "my.npz", *TINY, "--out", "run") == 0
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


def test_what_a_model_has_no_finite_answer_to_is_refused(capsys):
    x, labels = slopes(30)
    sequences.save_npz("my.npz", sequences.from_arrays(x, labels))
    assert call("train", "classify", "--npz", "my.npz", *TINY, "--out", "run") == 0
    x[7][3] = 1e30
    sequences.save_npz("new.npz", sequences.from_arrays(x))
    assert call("predict", "run", "--npz", "new.npz") == 2
    assert "new.npz: sequence 7: the model has no finite answer" in capsys.readouterr().err
    Path("folder").mkdir()
    assert call("predict", "run", "--npz", "my.npz", "--out", "folder") == 2
    assert "folder: expected the name of a file to write, got a folder" in capsys.readouterr().err
    assert not list(Path().glob(".*.part"))


def test_names_with_dollars_and_line_breaks_are_drawn_as_they_are():
    x, _ = slopes(30)
    names = ["cost $5 to $10", "$\\foo$", "two\nlines"]
    finished = runs.classify(x, names * 10, Path("run"), experiment=small_classifier(), quiet=True)
    assert (finished.folder / "report.html").exists()
    labels = predict.classify(Path("run"), sequences.from_arrays(x))
    labels.write(Path("labels.csv"))
    assert {row["label"] for row in read_labels("labels.csv")} <= set(names)


def test_a_run_without_a_validation_has_no_weights_to_show(capsys):
    x, labels = slopes(30)
    runs.classify(x, labels, Path("run"), experiment=small_classifier(), quiet=True)
    shutil.rmtree("run/best")
    assert call("evaluate", "run") == 2
    assert "stopped before its first validation; go on with longwave train --resume run" in capsys.readouterr().err


def test_a_rare_class_is_told_before_training(capsys):
    x, _ = slopes(66)
    sequences.save_npz("my.npz", sequences.from_arrays(x, ["common"] * 63 + ["rare"] * 3))
    without_quiet = [argument for argument in TINY if argument != "--quiet"]
    assert call("train", "classify", "--npz", "my.npz", *without_quiet, "--out", "run") == 0
    assert "note: class 'rare' has 1 examples to train on and 'common' has 51" in capsys.readouterr().err
    assert "Note: class &#x27;rare&#x27; has 1 examples" in Path("run/report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ([], "classify: expected --npz FILE or --csv FILE, got neither"),
        (["--npz", "none.npz"], "none.npz: there is no such file"),
        (["--npz", "one.npz"], "expected two classes or more, got 'a' alone"),
        (["--npz", "nan.npz"], "nan.npz: sequence 0, step 1, channel 0: expected a finite number, got nan"),
        (["--csv", "bad.csv"], "label: there is no column 'label'"),
        (["--npz", "one.npz", "--ballance"], "--balance"),
        (["--npz", "good.npz", "--model.n-layers", "0"], "n_layers: expected a whole number, at least 1, got 0"),
        (["--npz", "good.npz", "--model.d-model", "-4"], "d_model: expected a whole number, at least 1, got -4"),
        (["--npz", "good.npz", "--model.feed-forward", "-1"], "feed_forward: expected a width, or 0 for none, got -1"),
        (["--npz", "good.npz", "--model.decoder", "sequence"], "decoder: a class wants mean or last, got sequence"),
        (["--npz", "good.npz", "--split-seed", "-1"], "split_seed: expected a number from 0 on, got -1"),
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


def test_images_are_trained_scored_labelled_and_shown(tmp_path, capsys):
    write_mnist(tmp_path / "data")
    assert call("train", "pmnist-small", *TINY, "--task.augment", "--model.norm", "layer", "--out", "run") == 0
    page = Path("run/report.html").read_text()
    assert "Some of them as images" not in page  # kernels of shuffled pixels have no plane
    config = json.loads(Path("run/config.json").read_text())
    assert config["experiment"]["task"] == {"kind": "images", "data": "pmnist", "augment": True, "split_seed": 0}
    capsys.readouterr()
    task = runs.build_task(find("pmnist-small").task, None)
    np.savez("new.npz", x=task.test.pixels.reshape(20, 784))
    assert call("predict", "run", "--npz", "new.npz") == 0
    model = models.load(Path("run/best")).eval()
    expected = model(task.test.batch(range(20))["x"])[0].softmax(-1)
    rows = read_labels("labels.csv")
    found = [[float(row[f"p_{digit}"]) for digit in range(10)] for row in rows]
    np.testing.assert_allclose(found, expected.detach(), atol=1e-5)
    np.savez("unit.npz", x=task.test.pixels.reshape(20, 784) / 255)
    assert call("predict", "run", "--npz", "unit.npz") == 0
    assert "note: pixels are expected from 0 to 255, and these are from 0 to 1" in capsys.readouterr().out
    np.savez("wide.npz", x=task.test.pixels.reshape(20, 784) - 300.0)
    assert call("predict", "run", "--npz", "wide.npz") == 2
    assert "expected pixels from 0 to 255, got -300 to -45" in capsys.readouterr().err
    np.savez("short.npz", x=np.zeros((2, 783)))
    assert call("predict", "run", "--npz", "short.npz") == 2
    assert "expected images of 784 pixels, got 783 to 783" in capsys.readouterr().err


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
    assert "Where the evidence lies" in page
    assert "Learned kernels" not in page


def test_missing_images_are_named_with_the_command_that_gets_them(capsys):
    assert call("train", "smnist-small", "--out", "run") == 2
    assert "longwave data get mnist" in capsys.readouterr().err
    assert not Path("run").exists()
