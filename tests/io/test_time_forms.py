"""Forms of times that statistical offices and R packages write, and days without weekends."""

import numpy as np
import pandas as pd
import pytest

from longwave.io.times import read_times, season, spacing, step_name, times_at
from longwave.tasks.forecast.series import read_series


@pytest.mark.parametrize(
    ("cells", "first", "step", "rows"),
    [
        (["1991 Jul", "1991 Aug", "1991 Sep"], "1991-07-01", "1 month", 12),
        (["Jul 1991", "Aug 1991"], "1991-07-01", "1 month", 12),
        (["1970 Q1", "1970 Q2", "1970 Q3"], "1970-01-01", "3 months", 4),
        (["1970Q4", "1971Q1"], "1970-10-01", "3 months", 4),
        (["2020-W07", "2020-W08"], "2020-02-10", "7 days", 52),
        (["1991", "1992"], "1991-01-01", "1 year", 1),
    ],
)
def test_months_quarters_weeks_and_years_are_read(cells, first, step, rows):
    times = read_times(cells, str)
    assert times[0] == np.datetime64(first)
    found, positions = spacing(times)
    assert (step_name(found), season(found)) == (step, rows)
    assert positions.tolist() == list(range(len(cells)))


def test_business_days_are_evenly_spaced_and_go_on_after_the_weekend():
    days = pd.bdate_range("2024-01-01", periods=12).to_numpy().astype("datetime64[s]")
    step, positions = spacing(days)
    assert (step_name(step), season(step)) == ("1 business day", 5)
    assert positions.tolist() == list(range(12))
    assert times_at(days, step, np.arange(12, 16)).tolist() == [
        *pd.bdate_range("2024-01-17", periods=4).to_pydatetime().tolist()
    ]
    series = read_series(pd.DataFrame({"day": days, "price": np.arange(12.0)}))
    assert [str(time)[:10] for time in series.future(2)] == ["2024-01-17", "2024-01-18"]


def test_a_holiday_is_a_missing_row_and_days_with_weekends_are_days():
    days = pd.bdate_range("2024-01-01", periods=12).to_numpy()
    frame = pd.DataFrame({"day": np.delete(days, 5), "price": np.arange(11.0)})
    with pytest.raises(ValueError, match=r"1 business day after the previous row, .*; 1 row is missing: add it,"):
        read_series(frame, time="day")
    assert len(read_series(frame, time="day", fill="linear")) == 12
    daily = pd.date_range("2024-01-01", periods=12).to_numpy().astype("datetime64[s]")
    assert step_name(spacing(daily)[0]) == "1 day"


def test_a_column_of_years_is_the_time():
    series = read_series(pd.DataFrame({"Year": range(1950, 1990), "rain": np.arange(40.0)}))
    assert series.columns == ("rain",)
    assert str(series.future(1)[0])[:4] == "1990"
    counted = read_series(pd.DataFrame({"count": range(1950, 1990), "rain": np.arange(40.0)}), target="rain")
    assert counted.times is None
