"""Times of the rows of a series: the forms they are read in, how they go on, and what each refusal says."""

import numpy as np
import pytest
from series_files import HOURLY, with_times

from longwave.io.times import season, show, step_name
from longwave.tasks.forecast.series import read_series, to_csv


@pytest.mark.parametrize(
    ("times", "step", "following"),
    [
        (["2020-02-28", "2020-02-29", "2020-03-01"], "1 day", ["2020-03-02", "2020-03-03"]),
        (["1/31/2010 22:00", "1/31/2010 23:00", "2/1/2010 0:00"], "1 hour", ["2010-02-01T01", "2010-02-01T02"]),
        (["30/1/2010", "31/1/2010", "1/2/2010"], "1 day", ["2010-02-02", "2010-02-03"]),
        (["1/1/2010", "2/1/2010", "3/1/2010", "4/1/2010"], "1 month", ["2010-05-01", "2010-06-01"]),
        (["01.02.2020 00:00", "01.02.2020 00:15"], "15 minutes", ["2020-02-01T00:30", "2020-02-01T00:45"]),
        (["2020-01-31", "2020-02-29", "2020-03-31"], "1 month", ["2020-04-30", "2020-05-31"]),
        (["2019-10", "2020-01", "2020-04"], "3 months", ["2020-07-01", "2020-10-01"]),
        (["2022-11-30 06:00", "2022-12-30 06:00", "2023-01-30 06:00"], "1 month", ["2023-02-28T06", "2023-03-30T06"]),
        (["2022-07-31", "2022-08-31"], "1 month", ["2022-09-30", "2022-10-31"]),
        (["2022-07-01", "2022-08-01"], "1 month", ["2022-09-01", "2022-10-01"]),
        (["1987", "1988", "1989"], "1 year", ["1990-01-01", "1991-01-01"]),
        (
            ["2020-01-01T00:00:00+01:00", "2020-01-01T00:00:30+01:00"],
            "30 seconds",
            ["2019-12-31T23:01", "2019-12-31T23:01:30"],
        ),
        (["2020-01-01 00:00:00", "2020-01-08 00:00:00"], "7 days", ["2020-01-15", "2020-01-22"]),
        (
            ["2020-01-01 00:00:00", "2020-01-01 00:00:00.04", "2020-01-01 00:00:00.08"],
            "40 milliseconds",
            ["2020-01-01T00:00:00.12", "2020-01-01T00:00:00.16"],
        ),
        (
            ["1/2/2020 00:00:59.999750", "1/2/2020 00:01:00.000000"],
            "250 microseconds",
            ["2020-01-02T00:01:00.000250", "2020-01-02T00:01:00.000500"],
        ),
        (
            ["2020-01-01 00:00:00.5", "2020-01-01 00:00:01.5"],
            "1 second",
            ["2020-01-01T00:00:02.5", "2020-01-01T00:00:03.5"],
        ),
        (
            ["2020-01-01 00:00:00.5", "2020-02-01 00:00:00.5"],
            "1 month",
            ["2020-03-01T00:00:00.5", "2020-04-01T00:00:00.5"],
        ),
    ],
)
def test_times_are_read_in_common_forms_and_go_on_after_the_last_row(tmp_path, times, step, following):
    series = read_series(with_times(tmp_path, times), "price", "date")
    assert step_name(series.step) == step
    np.testing.assert_array_equal(series.future(2), np.array(following, "datetime64[us]"))


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (
            [*HOURLY[:3], HOURLY[2], HOURLY[3]],
            r"line 5: the time 2020-01-01 02:00:00 is the same as in the previous row",
        ),
        ([*HOURLY[:3], HOURLY[1]], r"line 5: the time 2020-01-01 01:00:00 comes after 2020-01-01 02:00:00; sort"),
        (
            [*HOURLY[:3], "2020-01-01 03:10:00", *HOURLY[4:6]],
            r"line 5: expected 2020-01-01 03:00:00, .*correct the times",
        ),
        ([*HOURLY[:3], "2120-01-01 03:00:00"], r"line 5: expected 2020-01-01 03:00:00, .*correct the times"),
        ([*HOURLY[:3], "soon"], r"line 5: expected a time such as 2016-07-01 13:00:00, .* got 'soon'"),
        (["12345678901", "12345678902"], r"line 2: expected a time such as"),
        ([HOURLY[0], ""], r"line 3: the time is missing"),
        (HOURLY[:1], r"time: expected at least 2 rows"),
    ],
)
def test_wrong_times_are_refused_by_line(tmp_path, times, message):
    with pytest.raises(ValueError, match=message):
        read_series(with_times(tmp_path, times), "price", "date", fill=None)


def test_fractions_that_are_jitter_do_not_count(tmp_path):
    """Where whole seconds rise evenly and the times themselves do not."""
    jittered = [f"2020-01-01 0{hour}:00:00.{fraction}" for hour, fraction in enumerate(("012", "009", "310", "000"))]
    series = read_series(with_times(tmp_path, jittered), "price", "date")
    assert step_name(series.step) == "1 hour"
    assert series.times.dtype == np.dtype("datetime64[s]")


def test_steps_below_a_second_are_filled_written_and_read_again(tmp_path):
    times = [f"2020-01-01 00:00:00.{k:02}" for k in (0, 4, 8, 16, 20)]
    series = read_series(with_times(tmp_path, times), "price", "date", fill="linear")
    assert len(series) == 6
    assert season(series.step) == 1
    (tmp_path / "again.csv").write_bytes(to_csv(series, "date"))
    again = read_series(tmp_path / "again.csv", "price", "date")
    np.testing.assert_array_equal(again.times, series.times)
    assert show(series.times[1]) == "2020-01-01 00:00:00.040"
    with pytest.raises(ValueError, match=r"line 5: expected 2020-01-01 00:00:00.120, 40 milliseconds after"):
        read_series(with_times(tmp_path, times), "price", "date")


def test_an_index_of_nanoseconds_keeps_its_steps_below_a_second():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"price": [1.0, 2, 3, 4]}, index=pd.date_range("2020-01-01", periods=4, freq="250us"))
    series = read_series(frame, "price")
    assert step_name(series.step) == "250 microseconds"
    assert series.future(1)[0] == np.datetime64("2020-01-01T00:00:00.001000")
