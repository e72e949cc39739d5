import numpy as np
import pytest

from longwave.tasks.forecast import yearly

HOURS = np.datetime64("2015-03-05T00:00:00") + np.arange(0, 3 * 8766, 6) * np.timedelta64(3600, "s")


def test_the_course_of_a_year_is_found_whatever_the_mean():
    t = 2 * np.pi * (HOURS.astype("datetime64[s]").astype(np.int64) / yearly.YEAR)
    course = np.stack((3 * np.cos(t) + np.sin(2 * t), np.sin(3 * t) - np.cos(2 * t)), axis=1)
    fitted = yearly.fit(course + np.array([5.0, -7.0]), HOURS)
    assert fitted.shape == (2 * yearly.HARMONICS, 2)
    np.testing.assert_allclose(yearly.harmonics(HOURS) @ fitted, course, rtol=0, atol=1e-9)


def test_values_that_are_not_known_have_no_effect():
    values = np.random.default_rng(0).normal(size=(len(HOURS), 2))
    known = np.random.default_rng(1).random(values.shape) < 0.8
    expected = yearly.fit(np.where(known, values, 0), HOURS, known)
    np.testing.assert_array_equal(yearly.fit(np.where(known, values, 99), HOURS, known), expected)
    np.testing.assert_allclose(yearly.fit(values, HOURS, np.ones_like(known)), yearly.fit(values, HOURS), atol=1e-12)


def test_years_count_the_last_step():
    day = np.datetime64("2020-01-01T00:00:00") + np.arange(24) * np.timedelta64(3600, "s")
    assert yearly.years(day) * 365.2425 == pytest.approx(1)
    assert yearly.years(HOURS) == pytest.approx(3, abs=1e-3)
