"""Ridge regression and the features of linear baselines."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwave.tasks.sequences import linear


@given(rows=st.integers(2, 12), features=st.integers(1, 12), seed=st.integers(0, 1000))
def test_a_fit_is_the_solution_of_the_normal_equations_whether_rows_or_features_are_more(rows, features, seed):
    generator = np.random.default_rng(seed)
    x, y = generator.standard_normal((rows, features)), generator.standard_normal((rows, 2))
    tried = []
    linear.fit(x, y, lambda ridge: tried.append(ridge) or 0.0)
    X, Y = x - x.mean(0), y - y.mean(0)
    for penalty, ridge in zip(linear.PENALTIES, tried, strict=True):
        slack = penalty * np.square(X).sum() / features
        # The slope of |Y - X W|^2 + slack |W|^2 is 0 at its only minimum.
        slope = X.T @ (X @ ridge.weight - Y) + slack * ridge.weight
        assert np.abs(slope).max() < 1e-6 * (1 + np.abs(X.T @ Y).max())
        np.testing.assert_allclose(ridge(x).mean(0), y.mean(0), atol=1e-6)


def test_the_penalty_of_the_smallest_error_is_chosen():
    x, y = np.random.default_rng(0).standard_normal((20, 3)), np.ones((20, 1))
    errors = iter(range(len(linear.PENALTIES), 0, -1))
    assert np.abs(linear.fit(x, y + x[:, :1], lambda ridge: next(errors)).weight).max() < 0.01  # the largest penalty
    assert np.abs(linear.fit(np.zeros((4, 2)), np.ones((4, 1)), lambda ridge: 0.0)(np.zeros((1, 2)))) == 1


def test_a_summary_has_six_numbers_of_each_channel():
    x = np.array([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]])
    found = linear.summary(x).reshape(6, 2)
    expected = [4, x[:, 0].std(), 1, 8, 8, 3.5]
    np.testing.assert_allclose(found[:, 0], expected)
    np.testing.assert_allclose(found[:, 1], [5, 0, 5, 5, 5, 0], atol=1e-12)
    np.testing.assert_allclose(linear.summary(x[:1]).reshape(6, 2)[:, 0], [1, 0, 1, 1, 1, 0])


def test_a_window_has_the_values_around_a_step_and_zeros_beyond_the_ends():
    x = np.array([[1.0], [2.0], [3.0]])
    assert linear.windows(x, 1).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 0]]
    np.testing.assert_array_equal(linear.windows(np.stack([x, 2 * x]), 2)[1], 2 * linear.windows(x, 2))


@pytest.mark.parametrize(("rows", "features", "solvable"), [(5, 10**6, True), (3000, 3000, False), (10**6, 17, False)])
def test_what_would_take_minutes_or_gigabytes_is_not_solved(rows, features, solvable):
    assert linear.is_solvable(rows, features) == solvable
