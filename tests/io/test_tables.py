"""Tables from data frames of pandas and polars and from Arrow tables, and what a CSV file keeps as text."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from longwave.io import csv
from longwave.io.csv import parse_table
from longwave.io.read import read_table, table_of
from longwave.io.table import number
from longwave.tasks.forecast.series import read_series
from longwave.tasks.tag.data import read_steps

MAKERS = [pd.DataFrame, pl.DataFrame, pa.table]
PRICES = [1.0, 2.0, 3.0]
HOURS = pd.date_range("2020-01-01", periods=3, freq="h")
TIMES = HOURS.to_numpy().astype("datetime64[s]")


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("cells", [[1, None, 3], [1.5, None, 3.5], [1.5, float("nan"), 3.5], ["1.5", None, "3.5"]])
def test_missing_cells_of_a_frame_are_empty_cells(make, cells):
    frame = make({"price": cells})
    with pytest.raises(ValueError, match="data frame, row 1, column 'price': missing value; put a number"):
        read_series(frame, "price")
    middle = (float(cells[0]) + float(cells[2])) / 2
    assert read_series(frame, "price", fill="linear").values[1, 0] == middle


@pytest.mark.parametrize(
    "column",
    [pd.Series([1, pd.NA, 3], dtype=object), pd.Series([1, None, 3], dtype="Int64"), pd.Series([1, pd.NaT, 3])],
)
def test_every_missing_value_of_pandas_is_an_empty_cell(column):
    np.testing.assert_array_equal(table_of(column).numbers([0])[:, 0], [1, np.nan, 3])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_times_of_every_unit_are_read_and_those_with_a_zone_in_utc(unit, zone):
    times = HOURS.as_unit(unit) if zone is None else HOURS.as_unit(unit).tz_localize("UTC").tz_convert(zone)
    frame = pd.DataFrame({"date": times, "price": PRICES})
    arrow = pa.Table.from_pandas(frame)
    polars = pl.from_arrow(arrow)
    indexed, series = frame.set_index("date"), pd.Series(PRICES, times)
    text = pl.DataFrame({"date": [time.isoformat() for time in times], "price": PRICES})
    for data in (frame, arrow, polars, indexed, series, text):
        np.testing.assert_array_equal(read_series(data).times, TIMES)


@pytest.mark.parametrize(
    "index",
    [
        pd.period_range("2020-01", periods=3, freq="M"),
        pd.Index(["2020-01-01", "2020-02-01", "2020-03-01"]),
        pd.Index([datetime.date(2020, month, 1) for month in (1, 2, 3)]),
    ],
)
def test_an_index_of_dates_in_any_form_gives_the_times(index):
    series = read_series(pd.DataFrame({"price": PRICES}, index))
    np.testing.assert_array_equal(series.times, np.array(["2020-01", "2020-02", "2020-03"], "datetime64[s]"))
    assert (series.columns, series.time) == (("price",), None)


def test_a_named_column_goes_before_an_index_of_dates_which_goes_before_other_columns():
    frame = pd.DataFrame({"other": HOURS + pd.Timedelta(days=1), "price": PRICES}, HOURS)
    np.testing.assert_array_equal(read_series(frame, "price").times, TIMES)
    np.testing.assert_array_equal(read_series(frame, "price", "date").times, TIMES)
    np.testing.assert_array_equal(read_series(frame, "price", "other").times, TIMES + np.timedelta64(1, "D"))
    assert read_series(frame, "price", "none").times is None


@pytest.mark.parametrize("make", MAKERS)
def test_a_column_of_neither_numbers_nor_text_is_dropped_and_said(make):
    cells = [datetime.timedelta(hours=hour) for hour in (1, 2, 3)]
    series = read_series(make({"wait": cells, "price": PRICES}), "price", multivariate=True)
    assert series.columns == ("price",)
    assert "column 'wait' was dropped: it holds text such as" in series.notes[0]


def test_what_has_no_rows_yet_is_to_be_collected_and_columns_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r"expected a data frame with its rows, got a LazyFrame; call \.collect\(\)"):
        read_series(pl.LazyFrame({"price": PRICES}))
    with pytest.raises(ValueError, match="data frame: 2 columns are named 'a'; rename them"):
        read_series(pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]), "b")


def test_columns_of_a_frame_that_have_numbers_for_names_are_named_by_them():
    assert read_series(pd.DataFrame([[1, 2], [3, 4]]), "1").values.tolist() == [[2], [4]]


@pytest.mark.parametrize("make", MAKERS)
def test_a_frame_of_steps_reads_as_the_file_of_the_same_rows(make):
    columns = {"sequence": [7, 7, 8], "label": ["walk", None, "run"], "x": [1, 2, 3], "y": [0.5, 1.5, 2.5]}
    read = read_steps(make(columns))
    assert read.values.tolist() == [[1, 0.5], [2, 1.5], [3, 2.5]]
    assert (read.names, read.lengths.tolist(), read.tags.tolist()) == (("7", "8"), [2, 1], ["walk", "", "run"])


# CSV


def test_columns_are_the_same_however_many_rows_are_read_at_a_time(monkeypatch):
    lines = ["id,x,y\n", *(f"00{k},{k / 7!r},{'' if k % 5 else k}\n" for k in range(40))]
    whole = parse_table(lines, "a.csv", ("id",))
    monkeypatch.setattr(csv, "BLOCK", 9)
    pieces = parse_table(lines, "a.csv", ("id",))
    assert pieces.texts("id", "id") == whole.texts("id", "id") == [f"00{k}" for k in range(40)]
    np.testing.assert_array_equal(pieces.numbers([1, 2]), whole.numbers([1, 2]))
    assert (pieces.where(39, "y"), len(pieces)) == ("a.csv, line 41, column 'y'", 40)


def test_columns_that_are_not_asked_for_are_not_kept(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    table = read_table(tmp_path / "a.csv", ("b",), ("b",))
    assert (table.names, list(map(len, table.columns)), len(table)) == (["a", "b"], [0, 2], 2)


def test_a_quote_without_an_end_is_refused():
    with pytest.raises(ValueError, match=r"a\.csv: cannot be read as CSV"):
        parse_table(["a,b\n", '1,"2\n', "3,4\n"], "a.csv")


@pytest.mark.parametrize(
    ("cell", "value"),
    [(" 1.5\t", 1.5), ("n/a", np.nan), (None, np.nan), ("1_5", np.inf), ("-nan", np.inf), ("x", np.inf)],
)
def test_a_cell_holds_a_number_or_is_missing_or_holds_something_else(cell, value):
    np.testing.assert_equal(number(cell), value)
