"""The report of a regression: a table for each target, the worst examples."""

import numpy as np
from matplotlib.figure import Figure

from longwave.tasks.regress.report import Predictions, draw_predictions, draw_residuals
from longwave.tasks.sequences.plots import draw_sequences

NAN = np.nan
TRUTH = np.array([[1.0, 10.0], [2.0, NAN], [3.0, 30.0], [NAN, 40.0]])
FOUND = np.array([[1.5, 10.0], [2.0, 99.0], [3.0, 10.0], [9.0, 40.0]])


def predictions(targets=("a", "b")):
    return Predictions(TRUTH, FOUND, np.array([1.0, 100.0]), targets)


def test_the_largest_errors_come_first_in_units_of_their_target_and_missing_ones_are_none():
    assert predictions().worst(2) == [(0, 0), (2, 1)]
    assert predictions().caption(2, 1) == "b: predicted 10, true 30"


def test_the_scores_of_a_target_are_those_of_its_known_values():
    page = predictions(("<a>", "b")).table().replace(' class="n"', "")
    assert "<tr><td>&lt;a&gt;</td><td>3</td><td>0.1667</td><td>0.2887</td><td>0.8750</td></tr>" in page
    assert "<tr><td>b</td><td>3</td><td>6.667</td><td>11.55</td><td>0.1429</td></tr>" in page


def test_a_target_that_is_not_known_has_no_scores():
    found = Predictions(np.full((2, 1), NAN), np.ones((2, 1)), np.ones(1), ("a",))
    assert '<td class="n">-</td>' in found.table()
    assert isinstance(draw_residuals(found.truth, found.predicted, found.targets), Figure)
    assert isinstance(draw_predictions(found.truth, found.predicted, found.targets), Figure)


def test_pictures_show_the_known_values_alone():
    panels = draw_predictions(TRUTH, FOUND, ("cost $", "b$")).axes
    assert [len(axes.collections[0].get_offsets()) for axes in panels] == [3, 3]
    left = draw_residuals(TRUTH, FOUND, ("a", "b")).axes[0]
    np.testing.assert_allclose(left.collections[0].get_offsets()[:, 1], [0.5, 0, 0])
    figure = draw_sequences([np.zeros((5, 1)), np.zeros((1, 6))], ["a", "b"])
    assert [axes.get_title() for axes in figure.axes] == ["a", "b"]
