"""Missing cells and rows of a series: refused, interpolated, or kept as gaps."""

import numpy as np
import pandas as pd
import pytest
from series_files import HOURLY, with_times

from longwave.tasks.forecast.series import carry_forward, fill_gaps, read_series, to_csv


@pytest.mark.parametrize("cell", ["", "NA", "n/a", "NaN", " null "])
def test_a_missing_cell_is_refused_by_name_or_interpolated(tmp_path, cell):
    path = with_times(tmp_path, HOURLY[:5], [0, cell, 20, cell, cell])
    with pytest.raises(ValueError, match=r"line 3, column 'price': missing value, and 2 more; .*fill='linear'"):
        read_series(path, "price", "date")
    series = read_series(path, "price", "date", fill="linear")
    np.testing.assert_array_equal(series.values[:, 0], [0, 10, 20, 20, 20])
    assert series.notes == ("3 missing cells were interpolated",)


def test_missing_rows_are_refused_by_name_or_interpolated(tmp_path):
    path = with_times(tmp_path, HOURLY[:3] + HOURLY[5:8], [0, 1, 2, 8, 9, 10])
    with pytest.raises(
        ValueError,
        match=r"line 5: expected 2020-01-01 03:00:00, 1 hour after the previous row, got 2020-01-01 05:00:00; "
        r"2 rows are missing: add them, interpolate with fill='linear', or keep the gaps with fill='mask'",
    ):
        read_series(path, "price", "date")
    series = read_series(path, "price", "date", fill="linear")
    np.testing.assert_array_equal(series.values[:, 0], [0, 1, 2, 4, 6, 8, 9, 10])
    np.testing.assert_array_equal(series.times, np.array(HOURLY[:8], "datetime64[s]"))
    assert series.notes == ("2 missing rows were interpolated",)
    one = read_series(with_times(tmp_path, HOURLY[:3] + HOURLY[4:6], range(5)), "price", "date", fill="linear")
    assert one.notes == ("1 missing row was interpolated",)


def test_a_missing_month_can_be_interpolated(tmp_path):
    path = with_times(tmp_path, ["2020-01-31", "2020-02-29", "2020-04-30"], [1, 2, 4])
    series = read_series(path, "price", "date", fill="linear")
    np.testing.assert_array_equal(series.values[:, 0], [1, 2, 3, 4])
    assert str(series.times[2]) == "2020-03-31T00:00:00"


# Gaps that are kept


def slow_carry_forward(column):
    """The last known number at each row, one after another."""
    last, filled = next(value for value in column if not np.isnan(value)), []
    for value in column:
        last = last if np.isnan(value) else value
        filled.append(last)
    return filled


def gappy(rows=60, columns=4, share=0.4, seed=0):
    """Numbers of which some are missing, in each column others."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random((rows, columns)) < share, np.nan, rng.normal(size=(rows, columns)))


@pytest.mark.parametrize("seed", range(5))
def test_a_gap_is_filled_with_the_last_known_number(seed):
    values = gappy(seed=seed)
    filled = carry_forward(values)
    for column, expected in zip(filled.T, values.T, strict=True):
        np.testing.assert_array_equal(column, slow_carry_forward(expected))


def test_what_comes_after_a_gap_changes_nothing_in_it_or_before():
    values = gappy()
    first = int((~np.isnan(values)).argmax(axis=0).max()) + 1  # in all columns something is known by then
    for row in range(first, len(values)):
        changed = values.copy()
        changed[row:] = np.where(np.isnan(values[row:]), np.nan, values[row:] + 100)
        changed[row:, 0] = np.nan
        np.testing.assert_array_equal(carry_forward(changed)[:row], carry_forward(values)[:row])


def test_masked_cells_and_rows_are_remembered_as_not_known(tmp_path):
    path = with_times(tmp_path, HOURLY[:3] + HOURLY[5:8], ["", 1, "NA", 8, 9, 10])
    series = read_series(path, "price", "date", fill="mask")
    np.testing.assert_array_equal(series.values[:, 0], [1, 1, 1, 1, 1, 8, 9, 10])
    np.testing.assert_array_equal(series.known[:, 0], [0, 1, 0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(series.given[:, 0], [np.nan, 1, np.nan, np.nan, np.nan, 8, 9, 10])
    np.testing.assert_array_equal(series.times, np.array(HOURLY[:8], "datetime64[s]"))
    assert series.notes == (
        "4 of 8 values are missing; models see the last known value instead",
        "column 'price': 50% of the values are missing",
    )


def test_a_column_is_named_if_more_than_a_tenth_of_it_is_missing():
    values = np.zeros((20, 2))
    values[:2, 0] = values[:3, 1] = np.nan
    notes = fill_gaps(values, "mask", 0, ["a", "b"]).notes
    assert len(notes) == 2
    assert notes[1] == "column 'b': 15% of the values are missing"


def test_more_missing_rows_than_rows_are_a_wrong_time_and_no_gap(tmp_path):
    path = with_times(tmp_path, [*HOURLY[:3], "2120-01-01 03:00:00"])
    with pytest.raises(ValueError, match=r"line 5: expected 2020-01-01 03:00:00, .*correct the times"):
        read_series(path, "price", "date", fill="mask")


@pytest.mark.parametrize("fill", ["mask", "linear"])
def test_without_gaps_a_series_is_the_same_however_gaps_are_filled(fill, tmp_path):
    path = with_times(tmp_path, HOURLY)
    plain, filled = read_series(path, "price", "date"), read_series(path, "price", "date", fill=fill)
    np.testing.assert_array_equal(filled.values, plain.values)
    assert (filled.known, filled.notes) == (None, ())


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("with_index", [True, False])
def test_a_series_with_gaps_comes_back_from_a_file_to_the_bit(columns, with_index, tmp_path):
    """A file of one column has rows in which nothing stands at all."""
    values = gappy(48, columns)
    rows = np.r_[0:20, 23:48] if with_index else np.arange(48)  # of which three are missing
    index = np.array(HOURLY, "datetime64[s]")[rows] if with_index else None
    frame = pd.DataFrame(values[rows], index, list("abc"[:columns]))
    series = read_series(frame, "a", multivariate=True, fill="mask")
    assert len(series) == 48
    (tmp_path / "a.csv").write_bytes(to_csv(series, "when"))
    again = read_series(tmp_path / "a.csv", "a", "when" if with_index else None, multivariate=True, fill="mask")
    np.testing.assert_array_equal(again.known, series.known)
    np.testing.assert_array_equal(again.values, series.values)
    np.testing.assert_array_equal(again.times, series.times)
    assert again.notes == series.notes
    with pytest.raises(ValueError, match="missing value"):
        read_series(tmp_path / "a.csv", "a")
