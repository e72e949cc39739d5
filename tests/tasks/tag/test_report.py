"""The report of a tagging task: counts over labelled steps, examples, pictures."""

import numpy as np

from longwave.tasks.classify.confusion import _compact
from longwave.tasks.sequences.task import NO_TAG
from longwave.tasks.tag.report import Predictions, draw_tags

TRUTH = [np.array([0, 0, NO_TAG, 1]), np.array([1, NO_TAG]), np.array([0, 1, 1])]
FOUND = [np.array([0, 1, 1, 1]), np.array([1, 0]), np.array([1, 0, 0])]


def test_steps_without_a_label_are_not_counted():
    found = Predictions(TRUTH, FOUND, ("a", "b", "c"))
    assert found.confusion.tolist() == [[1, 2, 0], [2, 2, 0], [0, 0, 0]]
    assert [found.accuracy(k) for k in range(3)] == [2 / 3, 1, 0]
    assert found.examples() == [2, 0, 1]


def test_precision_recall_and_f1_are_listed_for_the_classes_that_are_there_the_worst_first():
    page = Predictions(TRUTH, FOUND, ("<a>", "b", "c")).f1_table().replace(' class="n"', "")
    rows = ["<td>&lt;a&gt;</td><td>3</td><td>33.3%</td><td>33.3%</td><td>0.333</td>"]
    rows += ["<td>b</td><td>4</td><td>50.0%</td><td>50.0%</td><td>0.500</td>"]
    assert page.endswith("".join(f"<tr>{row}</tr>" for row in rows) + "</table>")


def test_a_picture_has_a_band_of_true_and_one_of_predicted_tags_below_each_sequence():
    values = [np.zeros((len(tags), 1)) for tags in TRUTH]
    figure = draw_tags(values, TRUTH, FOUND, ("a", "b $", "c"), ["1", "2", "3"])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", r"b \$", "not labelled"]
    bands = figure.axes[1].images[0].get_array()
    assert bands.shape == (2, 4, 3)
    same = (bands[0] == bands[1]).all(axis=-1)
    assert same.tolist() == [True, False, False, True]
    many = [np.arange(25)]
    assert not draw_tags([np.zeros((25, 1))], many, many, [str(k) for k in range(25)], ["1"]).legends


def test_counts_fit_into_the_cells_of_a_matrix():
    shown = [_compact(count) for count in (7, 9999, 10_000, 999_499, 1_234_567)]
    assert shown == ["7", "9,999", "10k", "999k", "1.23M"]
