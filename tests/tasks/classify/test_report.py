"""The report of a classifier: confusion matrix, misclassified examples, attribution."""

import numpy as np
import pytest
import torch
from image_files import write_mnist
from mixer_settings import sequence_config

from longwave.experiments import Experiment, LoopConfig, OptimConfig
from longwave.experiments.prepared import prepare_on
from longwave.models import SequenceModel
from longwave.tasks.classify import report as classification
from longwave.tasks.classify.confusion import confused_pairs, confusion, recalls
from longwave.tasks.classify.report import (
    Predictions,
    attribution,
    average_example,
    predict,
    report,
)
from longwave.tasks.classify.task import ClassifyConfig
from longwave.tasks.images.task import ImageConfig
from longwave.tasks.sequences.data import from_arrays
from longwave.train.folder import RunFolder
from longwave.train.loop import Run


def predictions(labels, predicted, classes, confidence=0.9):
    probabilities = np.full((len(labels), len(classes)), (1 - confidence) / (len(classes) - 1))
    probabilities[np.arange(len(labels)), predicted] = confidence
    return Predictions(probabilities, np.array(labels), tuple(classes))


def confusion_of(found, trained):
    return confusion(found.confusion, found.classes, trained)


@pytest.fixture
def waves():
    """Sequences of unequal length, two channels, and a model that has not learnt a thing."""
    generator = np.random.default_rng(0)
    x = [generator.standard_normal((length, 2)) for length in generator.integers(5, 30, 40)]
    task = ClassifyConfig().on(from_arrays(x, ["up", "down"] * 20))
    model = SequenceModel(sequence_config(d_model=8, n_layers=1, input_size=2, output_size=2)).eval()
    return task, model


# Tables


def test_the_confusion_matrix_counts_predictions_by_class():
    found = predictions([0, 0, 1, 1, 2], [0, 1, 1, 1, 0], "abc")
    assert found.confusion.tolist() == [[1, 1, 0], [0, 2, 0], [1, 0, 0]]
    assert recalls(found.confusion) == [(2, 1, 0.0), (0, 2, 0.5), (1, 2, 1.0)]
    assert confused_pairs(found.confusion, found.classes) == [("a", "b", 1, 0.5), ("c", "a", 1, 1.0)]


def test_the_most_confident_mistakes_come_first():
    probabilities = np.array([[0.6, 0.4], [0.2, 0.8], [0.9, 0.1], [0.9, 0.1]])
    found = Predictions(probabilities, np.array([1, 0, 1, 0]), ("a", "b"))
    assert found.wrong(2) == [2, 1]
    assert found.wrong(9) == [2, 1, 0]
    assert found.right(9) == [3]
    assert (found.caption(2), found.caption(3)) == ("b predicted as a, 90%", "a, 90%")
    assert found.caption(2, width=10) == "b\npredicted as a, 90%"


def test_a_matrix_of_many_classes_is_a_list_of_the_commonest_mistakes():
    few, many = ([str(k) for k in range(count)] for count in (20, 21))
    page = confusion_of(predictions([0, 1], [1, 1], few), (5,) * 20)
    assert "<img" in page
    page = confusion_of(predictions([0] * 7 + [1], [1] * 7 + [1], many), (5,) * 21)
    assert "<img" not in page
    assert "<td>0</td><td>1</td>" in page.replace(' class="n"', "")
    assert "100.0%" in page


def test_long_names_stay_different_and_odd_ones_harmless():
    found = predictions([0, 1], [1, 1], ["left-hand-move-slow", "left-hand-move-fast", "a $5\n$6 note"])
    assert found.caption(0) == "left-ha…e-slow predicted as left-ha…e-fast, 90%"
    assert predictions([2], [2], found.classes).caption(0) == r"a \$5 \$6 note, 90%"
    assert "No mistakes." in confusion_of(predictions([0], [0], [*map(str, range(21))]), (5,) * 21)


def test_names_are_escaped():
    page = confusion_of(predictions([0, 1], [1, 1], ["<b>", *map(str, range(20))]), (5,) * 21)
    assert "<b>" not in page
    assert "&lt;b&gt;" in page


def test_every_example_of_a_split_is_predicted_whatever_the_batches(waves):
    task, model = waves
    found, again = (predict(model, task, task.train, size) for size in (100, 3))
    np.testing.assert_allclose(found.probabilities, again.probabilities, atol=1e-6)
    assert found.labels.tolist() == task.train.rows["y"].tolist()


# Attribution


@pytest.mark.parametrize("kind", ["lines", "images"])
def test_the_attribution_of_all_steps_adds_up_to_the_lead_of_the_predicted_class(kind, waves, tmp_path):
    task, model = waves
    if kind == "images":
        write_mnist(tmp_path)
        task = ImageConfig(data="pmnist").build(tmp_path)
        model = SequenceModel(sequence_config(d_model=8, n_layers=1, norm="batch", output_size=10)).eval()
    batch, average = task.test.batch(range(4)), average_example(task)
    shares = attribution(model, batch, average)
    assert shares.shape == batch["x"].shape
    with torch.no_grad():
        here = model(batch["x"], lengths=batch.get("lengths"))[0]
        start = model(average.expand_as(batch["x"]), lengths=batch.get("lengths"))[0]
    first, second = here.topk(2).indices.T
    rows = torch.arange(4)
    leads = [output[rows, first] - output[rows, second] for output in (here, start)]
    # The error of 32 midpoints; the terms that add up are larger than the sum.
    torch.testing.assert_close(
        shares.sum((1, 2)), leads[0] - leads[1], atol=0.01 * shares.abs().sum((1, 2)).max(), rtol=0
    )


def test_padding_has_no_part_in_the_attribution(waves):
    task, model = waves
    batch = task.test.batch(range(4))
    shares = attribution(model, batch, average_example(task))
    for row, length in zip(shares, batch["lengths"], strict=True):
        assert (row[length:] == 0).all()
        assert (row[:length] != 0).any()


def test_the_average_example_is_the_mean_of_train_or_of_all_steps(waves, tmp_path):
    task, _ = waves
    assert average_example(task).tolist() == [[[0, 0]]]
    write_mnist(tmp_path)
    smnist = ImageConfig(data="smnist").build(tmp_path)
    mean = smnist.train.batch(range(len(smnist.train)))["x"].mean(0, keepdim=True)
    torch.testing.assert_close(average_example(smnist), mean)


# Pictures


def test_lines_show_each_example_without_its_padding_in_its_own_units(waves):
    task, model = waves
    found = predict(model, task, task.test)
    indices = list(range(len(task.test)))
    figure = classification.draw_examples(task, task.test, found, indices)
    for axes, index in zip(figure.axes, indices, strict=False):
        start, length = task.test.starts[index], task.test.lengths[index]
        shown = axes.lines[1].get_ydata()
        expected = task.test.values[start : start + length, 1] * task.inputs.deviation[1] + task.inputs.mean[1]
        np.testing.assert_allclose(shown, expected, atol=1e-5)
    shares = attribution(model, task.test.batch(indices), average_example(task))
    assert len(classification.draw_attribution(task, task.test, found, indices, shares).axes) == len(indices)


def test_images_are_shown_as_they_are_whatever_the_order_of_their_pixels(tmp_path):
    write_mnist(tmp_path)
    task = ImageConfig(data="pmnist").build(tmp_path)
    found = predictions([0] * 20, [1] * 20, "0123456789")
    figure = classification.draw_examples(task, task.test, found, [3, 7])
    np.testing.assert_allclose(figure.axes[1].images[0].get_array(), task.test.pixels[7, ..., 0], atol=1e-3)
    shares = torch.zeros(2, 784, 1)
    shares[:, int(np.flatnonzero(task.order == 5 * 28 + 9)[0])] = 1
    figure = classification.draw_attribution(task, task.test, found, [3, 7], shares)
    lit = [axes.images[0].get_array() for axes in figure.axes if axes.images and axes.images[0].get_array().max() == 1]
    assert [tuple(np.argwhere(plane == 1)[0]) for plane in lit] == [(5, 9), (5, 9)]


# The page


def test_a_report_has_three_sections_and_none_needs_a_mistake(waves, monkeypatch):
    task, model = waves
    monkeypatch.setattr(classification, "attribution", lambda model, batch, average: torch.zeros_like(batch["x"]))
    sections = {section.title: section.content for section in report(model, task)}
    assert list(sections) == ["Confusion matrix", "Misclassified examples", "Attribution"]
    assert 'alt="attribution of each step"' in sections["Attribution"]
    labels = task.test.rows["y"]
    monkeypatch.setattr(classification, "image", lambda draw, alt: "")
    right = predictions(labels.tolist(), labels.tolist(), task.inputs.classes)
    monkeypatch.setattr(classification, "predict", lambda *_: right)
    sections = {section.title: section.content for section in report(model, task)}
    assert sections["Misclassified examples"] == f"<p>None of {len(labels)}.</p>"


@pytest.mark.parametrize("bucket", [0, 2])
def test_the_report_shows_what_was_scored_and_classifies_nothing_again(bucket, waves, tmp_path, monkeypatch):
    """Row by row in the order of the test set, also if rows of similar length were scored together."""
    task, _ = waves
    loop = LoopConfig(epochs=2, batch_size=8, eval_batch_size=3, bucket=bucket)
    config = sequence_config(d_model=8, n_layers=1)
    experiment = Experiment("tiny", ClassifyConfig(npz=tmp_path / "x.npz"), config, OptimConfig(lr=0.01), loop)
    prepared = prepare_on(experiment, task)
    run = Run(RunFolder.create(tmp_path / "run", prepared, None), prepared, quiet=True)
    result = run.fit(resume=False)
    model = run.model.eval()
    truth = predict(model, task, task.test)
    monkeypatch.setattr(classification, "probabilities", lambda *arguments: pytest.fail("classified once more"))
    found = predict(model, task.with_outputs(run.test_outputs), task.test)
    np.testing.assert_allclose(found.probabilities, truth.probabilities, atol=1e-6)
    np.testing.assert_array_equal(found.labels, truth.labels)
    assert (found.predicted == found.labels).mean() == pytest.approx(result["test"]["accuracy"])
    assert run.evaluate(task.valid) == result["valid"] == run.position.best_scores
