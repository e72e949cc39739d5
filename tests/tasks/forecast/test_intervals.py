"""Prediction intervals: order statistics of earlier errors, where these come from, and how intervals are scored."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from longwave.tasks.forecast import intervals
from longwave.tasks.forecast.intervals import Residuals, check_levels, half_widths
from longwave.tasks.forecast.series import Series
from longwave.tasks.forecast.task import custom


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@given(n=st.integers(1, 60), level=st.sampled_from([50, 80, 90, 95, 97.5, 99]), seed=st.integers(0, 99))
def test_a_half_width_is_the_order_statistic_of_the_step(n, level, seed):
    errors = normal(n, 3, 2, seed=seed)
    found, pooled = half_widths(errors, [level])
    rank = math.ceil((n + 1) * level / 100 - 1e-9)
    assert pooled.all() == pooled.any() == (rank > n)
    if rank <= n:
        for step in range(3):
            for column in range(2):
                ordered = sorted(map(abs, errors[:, step, column].tolist()))
                assert found[0, step, column] == np.float32(ordered[rank - 1])


def test_errors_of_as_few_neighbouring_steps_as_needed_are_pooled():
    errors = normal(7, 9, 1)  # 95 % needs 19 errors: those of three steps, or at the ends of the horizon more
    found, pooled = half_widths(errors, [95.0])
    assert pooled.all()
    for step in range(9):
        radius = 1 if 0 < step < 8 else 2
        some = np.sort(np.abs(errors[:, max(0, step - radius) : step + radius + 1]).ravel())
        assert found[0, step, 0] == some[math.ceil((len(some) + 1) * 0.95) - 1]


@given(n=st.integers(1, 30), seed=st.integers(0, 99))
def test_intervals_nest_by_level_also_where_errors_are_pooled(n, seed):
    errors = normal(n, 24, 1, seed=seed) * np.arange(1, 25)[:, None].astype(np.float32) ** 3
    found, _ = half_widths(errors, [50.0, 80.0, 95.0])
    assert (np.diff(found, axis=0)[:, np.isfinite(found).all(axis=0)] >= 0).all()


def test_unknown_truth_counts_for_nothing():
    errors = normal(40, 2, 1)
    errors[::2, 0] = np.nan
    found, pooled = half_widths(errors, [90.0])
    alone, _ = half_widths(errors[1::2, :1], [90.0])
    assert found[0, 0, 0] == alone[0, 0, 0]
    assert not pooled.any()
    assert np.isnan(half_widths(np.full((5, 2, 1), np.nan, np.float32), [90.0])[0]).all()


def test_errors_count_once_their_window_is_complete():
    rows = np.arange(100, dtype=np.float32)[:, None, None] * np.ones((1, 7, 1), np.float32)
    for stride, last in ((1, 43), (3, 47), (7, 49), (10, 49)):  # 7 steps: window 50 begins after window `last` ends
        assert Residuals(rows, stride).before(50)[-1, 0, 0] == last
    assert len(Residuals(rows, 1).before(3)) == 0
    assert len(Residuals(np.zeros((5000, 1, 1), np.float32), 2).before(4000)) == intervals.TRAILING // 2


def test_errors_survive_their_file_and_another_model_s_are_refused():
    last = np.datetime64("2024-03-01T05", "s")
    before = Residuals(normal(50, 4, 2), 3, last)
    after = Residuals.from_bytes(before.to_bytes(), (4, 2), "file")
    np.testing.assert_array_equal(after.values, before.values)
    assert (after.stride, after.last) == (3, last)
    assert Residuals.from_bytes(Residuals(normal(5, 4, 2)).to_bytes(), (4, 2), "file").last is None
    fine = Residuals(normal(5, 4, 2), last=np.datetime64("2020-01-01T00:00:00.040", "us"))
    assert Residuals.from_bytes(fine.to_bytes(), (4, 2), "file").last == fine.last
    for content, shape in ((before.to_bytes(), (4, 1)), (b"PK", (4, 2)), (before.to_bytes()[:90], (4, 2))):
        with pytest.raises(ValueError, match="file: expected errors of windows"):
            Residuals.from_bytes(content, shape, "file")


def test_scores_are_those_of_a_loop_over_windows():
    errors, levels = normal(200, 3, 2), [80.0, 90.0]
    errors[150, 0, 0] = np.nan
    found = intervals.scores(Residuals(errors), levels, first=120)
    for k, level in enumerate(levels):
        inside, widths, losses = [], [], []
        for window in range(120, 200):
            half = half_widths(errors[max(0, window - 2 - intervals.TRAILING) : window - 2], levels)[0][k]
            for error, h in zip(errors[window].ravel(), half.ravel(), strict=True):
                if np.isnan(error):
                    continue
                inside.append(-h <= error <= h)
                widths.append(2 * h)
                tail = (1 - level / 100) / 2
                for quantile, end in ((tail, -h), (1 - tail, h)):
                    losses.append(max(quantile * (error - end), (quantile - 1) * (error - end)))
        expected = {"coverage": np.mean(inside), "width": np.mean(widths), "pinball": np.mean(losses)}
        assert found[f"{level:g}"] == pytest.approx(expected, rel=1e-5)


def test_the_coverage_of_an_autoregression_is_close_to_the_level():
    noise, horizon = normal(6000).astype(np.float64), 8
    series = np.zeros(6000)
    for k in range(1, 6000):
        series[k] = 0.8 * series[k - 1] + noise[k]
    starts = np.arange(5900)
    ahead = np.arange(1, horizon + 1)
    errors = series[starts[:, None] + ahead] - series[starts][:, None] * 0.8**ahead
    found = intervals.scores(Residuals(errors[..., None].astype(np.float32)), [80.0, 95.0], first=1300)
    assert found["80"]["coverage"] == pytest.approx(0.80, abs=0.03)
    assert found["95"]["coverage"] == pytest.approx(0.95, abs=0.02)


def test_levels_are_sorted_and_one_may_stand_alone():
    assert check_levels([95, 80]) == (80.0, 95.0)
    assert check_levels(90) == (90.0,)
    assert check_levels(np.array([80])) == (80.0,)
    assert check_levels(None) == check_levels(()) == ()


@pytest.mark.parametrize("level", [0, 100, -5, [80, 180], math.nan, "80", ["80"], True, [None]])
def test_what_is_no_level_is_refused(level):
    with pytest.raises(ValueError, match="level: expected per cent between 0 and 100"):
        check_levels(level)


def test_a_repeated_level_is_refused():
    with pytest.raises(ValueError, match="level: expected each level once, got 80 95 80"):
        check_levels([80, 95, 80.0])


class LastValue(torch.nn.Module):
    """Repeats the last value of a context of 10 rows, 4 times."""

    def forward(self, x, time=None, lengths=None):
        return x[:, 9:10].expand(-1, 4, -1), None


@pytest.mark.parametrize("most", [2**12, 60])  # of 87 held-out windows: all, or every second
def test_bands_of_the_test_set_come_from_windows_that_were_complete_before(monkeypatch, most):
    monkeypatch.setattr(intervals, "MOST_WINDOWS", most)
    values = normal(300, 1).astype(np.float64).cumsum(axis=0)
    task = custom(Series(values, ("price",), 0), horizon=4, context=10)
    concluded = task.conclude(LastValue())
    assert set(concluded.result["intervals"]) == {"split", "this run", "nlinear"}
    stride = concluded.task.residuals.stride
    assert stride == (1 if most > 60 else 2)
    drawn = intervals.bands(concluded.task, np.zeros((2, 4, 1)), [0, 50])
    for found, first in zip(drawn, (240, 290), strict=True):
        last_begin = 300 - 4  # of all held-out windows, which begin at row 210 at the earliest
        begins = [row for row in range(210, first - 4 + 1) if (last_begin - row) % stride == 0]
        errors = np.stack(
            [task.inputs.standardise(values[b : b + 4]) - task.inputs.standardise(values[b - 1]) for b in begins]
        )
        half = half_widths(errors.astype(np.float32), [80.0, 95.0])[0] * task.inputs.deviation[0]
        for k, (_, low, high) in enumerate(found):
            np.testing.assert_allclose((high - low) / 2, half[k], rtol=1e-4)


def test_without_a_test_set_the_validation_set_is_scored():
    values = normal(300, 1).astype(np.float64).cumsum(axis=0)
    concluded = custom(Series(values, ("price",), 0), horizon=4, context=10, test=0).conclude(
        LastValue(), compare=False
    )
    found = concluded.result["intervals"]
    assert (found["split"], list(found)) == ("valid", ["split", "this run"])
    assert 0 < found["this run"]["80"]["coverage"] < 1


def test_intervals_of_logarithms_are_scored_in_the_units_of_the_values():
    rng = np.random.default_rng(0)
    errors = rng.standard_normal((300, 2, 1)).astype(np.float32)
    truth = rng.standard_normal((300, 2, 1)).astype(np.float32)
    plain = intervals.scores(intervals.Residuals(errors), (80.0,), 200)
    doubled = intervals.scores(intervals.Residuals(errors), (80.0,), 200, truth, lambda y, series: 2 * y)
    assert doubled["80"]["coverage"] == plain["80"]["coverage"]
    assert doubled["80"]["width"] == pytest.approx(2 * plain["80"]["width"], rel=1e-6)
    assert doubled["80"]["pinball"] == pytest.approx(2 * plain["80"]["pinball"], rel=1e-6)
