"""Reading a series: what is accepted, what is filled in, and what each refusal says."""

import datetime
import gzip
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from series_files import HOURLY, with_times, write

from longwave.tasks.forecast.series import Series, read_series, to_csv


@pytest.fixture
def prices(tmp_path):
    """48 hours of two columns of numbers and one of text."""
    rows = [(time, i / 4, "up" if i % 2 else "down", 100 - i) for i, time in enumerate(HOURLY)]
    return write(tmp_path / "prices.csv", "date,price,mood,volume", rows)


def test_univariate_reads_the_target_alone(prices):
    series = read_series(prices, "price", "date")
    assert series.columns == ("price",)
    assert series.target == 0
    assert series.values.dtype == np.float64
    np.testing.assert_array_equal(series.values, np.arange(48)[:, None] / 4)
    np.testing.assert_array_equal(series.times, np.array(HOURLY, "datetime64[s]"))
    assert series.step == np.timedelta64(1, "h")
    assert series.notes == ()


def test_multivariate_reads_every_column_of_numbers_and_notes_what_it_leaves_out(prices):
    series = read_series(prices, "price", "date", multivariate=True)
    assert series.columns == ("price", "volume")
    assert series.values.shape == (48, 2)
    assert series.notes == ("column 'mood' was dropped: it holds text such as 'down', and no number",)


def test_of_some_columns_alone_others_may_hold_anything(tmp_path):
    (tmp_path / "a.csv").write_text("price,note,volume\n1,2,3\n2,x,\n")
    read = read_series(tmp_path / "a.csv", "price", multivariate=True, columns=("price",))
    assert (read.columns, read.values.tolist(), read.notes) == (("price",), [[1], [2]], ())
    with pytest.raises(ValueError, match="column 'note'"):
        read_series(tmp_path / "a.csv", "price", multivariate=True)


def test_without_a_time_column_there_are_no_times_and_the_note_points_to_one(prices):
    series = read_series(prices, "price", "none", multivariate=True)
    assert series.times is None
    assert series.step is None
    assert series.future(3) is None
    assert "name it as the time column" in series.notes[0]


@pytest.mark.parametrize("multivariate", [True, False])
def test_the_one_column_of_rising_times_is_found_and_said(prices, multivariate):
    named = read_series(prices, "price", "date", multivariate)
    found = read_series(prices, "price", multivariate=multivariate)
    np.testing.assert_array_equal(found.times, named.times)
    np.testing.assert_array_equal(found.values, named.values)
    assert (found.columns, found.step, found.time, named.time) == (named.columns, named.step, "date", "date")
    assert found.notes == (*named.notes, "column 'date' is used as the time column, 1 hour apart")


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        (["1990", "1991", "1992"], None),  # numbers may be years, and may be anything
        (["20240101", "20240102", "20240103"], None),
        (["2024-01-01", "soon", "2024-01-03"], None),
        (["2024-01-01", "", "2024-01-03"], None),
        (["a", "b", "c"], None),
        (["2024-01-03", "2024-01-02", "2024-01-01"], "column 'day' has times that are not increasing"),
        (["2024-01-01", "2024-01-01", "2024-01-01"], "column 'day' has times that are not increasing"),
        (
            ["2024-01-04", "2024-01-05", "2024-01-07"],
            r"the times in column 'day' are ignored, and rows are taken as evenly spaced: .*line 4: expected 2024-01-0",
        ),
        (["2024-01-01", "2024-01-01", "2024-01-02"], "the times in column 'day' are ignored.*duplicates='first'"),
    ],
)
def test_what_is_no_time_column_is_not_found_and_a_doubtful_one_is_said(tmp_path, cells, note):
    rows = [(cell, k) for k, cell in enumerate(cells)]
    series = read_series(write(tmp_path / "a.csv", "day,price", rows), "price")
    assert series.times is None
    assert series.time is None
    assert len(series.notes) == (note is not None)
    if note is not None:
        assert re.search(note, series.notes[0])


def test_of_two_columns_of_rising_times_one_must_be_named(tmp_path):
    rows = [(time, time.replace("2020", "2021"), k) for k, time in enumerate(HOURLY)]
    path = write(tmp_path / "a.csv", "begin,end,price", rows)
    with pytest.raises(
        ValueError, match="time: the columns 'begin' and 'end' both have increasing times; name one of them"
    ):
        read_series(path, "price")
    assert read_series(path, "price", "end").times[0] == np.datetime64("2021-01-01T00:00:00")
    assert read_series(path, "price", "none").times is None


def test_an_index_without_a_name_can_hold_the_times(tmp_path):
    path = write(tmp_path / "a.csv", ",price", list(zip(HOURLY, range(48), strict=True)))
    assert read_series(path).step == np.timedelta64(1, "h")


@pytest.mark.parametrize("row", [0, 7, 47])
@pytest.mark.parametrize(("cell", "got"), [("", "the time is missing"), ("soon", "expected a time .*, got 'soon'")])
def test_a_cell_of_a_column_of_times_that_is_none_is_named(tmp_path, row, cell, got):
    path = with_times(tmp_path, [*HOURLY[:row], cell, *HOURLY[row + 1 :]], range(48))
    series = read_series(path, "price")
    assert series.times is None
    (note,) = series.notes
    assert re.match(rf"the times in column 'date' are ignored, .*: .*, line {row + 2}: {got}", note)
    many = with_times(tmp_path, [cell] * 20 + HOURLY[20:], range(48))
    assert read_series(many, "price").notes == ()


def test_a_missing_time_of_a_data_frame_is_named():
    years = pd.Series(np.arange(1950.0, 1990)).where(np.arange(40) != 5)
    for name, column in (("at", pd.Series(pd.date_range("2024", periods=40)).where(years.notna())), ("Year", years)):
        (note,) = read_series(pd.DataFrame({name: column, "y": np.arange(40.0)}), "y").notes
        assert note.endswith("row 5: the time is missing")


def test_a_time_column_may_be_called_none(tmp_path):
    path = write(tmp_path / "a.csv", "none,price", list(zip(HOURLY, range(48), strict=True)))
    assert read_series(path, "price", "none").time == "none"


@pytest.mark.parametrize(
    ("duplicates", "values", "note"),
    [
        ("first", [0, 1, 4, 5], "kept the first of each"),
        ("last", [0, 3, 4, 6], "kept the last of each"),
        ("mean", [0, 2, 4, 5.5], "averaged"),
    ],
)
@pytest.mark.parametrize("time", ["date", None])
def test_rows_of_one_time_become_one_row(tmp_path, duplicates, values, note, time):
    times = [HOURLY[k] for k in (0, 1, 1, 1, 2, 3, 3)]
    path = with_times(tmp_path, times, [0, 1, 2, 3, 4, 5, 6])
    with pytest.raises(ValueError, match=r"line 4: the time .* is the same as in the previous row.*duplicates='first'"):
        read_series(path, "price", "date")
    series = read_series(path, "price", time, duplicates=duplicates)
    np.testing.assert_array_equal(series.values[:, 0], values)
    np.testing.assert_array_equal(series.times, np.array(HOURLY[:4], "datetime64[s]"))
    assert series.notes[0] == f"3 duplicate times: {note}"


def test_after_duplicates_gaps_and_missing_cells_are_filled_and_named_by_their_lines(tmp_path):
    times = [HOURLY[k] for k in (0, 1, 1, 2, 4)]
    path = with_times(tmp_path, times, [0, "", 3, 5, 9])
    np.testing.assert_array_equal(
        read_series(path, "price", "date", fill="linear", duplicates="mean").values[:, 0], [0, 3, 5, 7, 9]
    )
    with pytest.raises(ValueError, match="line 6: expected 2020-01-01 03:00:00"):
        read_series(path, "price", "date", duplicates="last")
    with pytest.raises(ValueError, match="line 5: the time 2020-01-01 01:00:00 comes after 2020-01-01 02:00:00; sort"):
        read_series(with_times(tmp_path, [HOURLY[k] for k in (0, 1, 2, 1)]), "price", "date", duplicates="last")
    with pytest.raises(ValueError, match="time: expected at least 2 different times, got 1"):
        read_series(with_times(tmp_path, [HOURLY[0]] * 3), "price", "date", duplicates="last")
    with pytest.raises(ValueError, match="duplicates: expected 'error', 'first', 'last' or 'mean', got 'all'"):
        read_series(path, "price", "date", duplicates="all")


def test_gzip_reads_as_the_file_in_it_whatever_its_name(prices, tmp_path):
    for name in ("prices.csv.gz", "prices.dat"):
        (tmp_path / name).write_bytes(gzip.compress(prices.read_bytes()))
        np.testing.assert_array_equal(
            read_series(tmp_path / name, "price", "date").values, read_series(prices, "price", "date").values
        )


@pytest.mark.parametrize("mark", [";", "\t"])
def test_other_separators_a_byte_order_mark_blank_lines_and_quotes_are_read(tmp_path, mark):
    path = tmp_path / "other.csv"
    path.write_text(f'\n"date"{mark} price \n2020-01-01{mark}1.5\n\n2020-01-02{mark}"2.5"\n', encoding="utf-8-sig")
    series = read_series(path, "price", "date")
    np.testing.assert_array_equal(series.values[:, 0], [1.5, 2.5])


def test_a_column_without_a_name_is_not_a_variable(tmp_path):
    path = write(tmp_path / "index.csv", ",a,b", [(0, 1, 2), (1, 3, 4)])
    assert read_series(path, "a", multivariate=True).columns == ("a", "b")


def test_the_target_may_be_left_out_if_one_column_holds_numbers(prices, tmp_path):
    assert read_series(write(tmp_path / "one.csv", "word,price", [("a", 1), ("b", 2)])).columns == ("price",)
    assert read_series(prices, time="date", multivariate=True).target == 1
    with pytest.raises(ValueError, match="target: not given; expected one of price, volume"):
        read_series(prices, time="date")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "the file is empty; expected a header"),
        ("\n\n", {}, "the file is empty; expected a header"),
        ("date,price\n", {}, "expected rows of numbers, got none"),
        (
            "2020-01-01,1.5\n2020-01-02,2.5\n",
            {},
            "expected a header with the names of the columns, got '2020-01-01,1.5'",
        ),
        (
            "date,price\n2020-01-01,1\n",
            {"target": "Prices"},
            "no column 'Prices'; expected one of date, price; did you mean 'price'",
        ),
        ("date,price\n2020-01-01,1\n", {"time": "dat"}, "time: no column 'dat'; .*did you mean 'date'"),
        ("date,price\n2020-01-01,1\n", {"target": "date", "time": "date"}, "target and time are both 'date'"),
        ("price,price\n1,2\n", {}, "target: 2 columns are named 'price'"),
        ("a,a,price\n1,2,3\n", {"multivariate": True}, "columns: 2 columns are named 'a'; expected one"),
        ("date,price\na,1\nb,2,3\n", {}, "line 3: expected 2 cells as in the header, got 3"),
        ("date,price\na,1\n\nb,cheap\n", {}, "line 4, column 'price': expected a number, got 'cheap'; write"),
        ("date;price\na;1\nb;2,5\n", {}, "line 3, column 'price': expected a number, got '2,5'; write numbers as 1"),
        ("date,price\na,1\nb,inf\n", {}, "line 3, column 'price': expected a number, got 'inf'"),
        ("date,price\na,low\nb,high\n", {}, "target: expected numbers in column 'price', got text such as 'low'"),
        ("date,price\na,\nb,\n", {}, "target: expected numbers in column 'price', got nothing"),
        ("a,b\nx,y\n", {"target": None}, "expected a column of numbers, got none in a, b"),
        ("price,other\n1,2\n2,x\n", {"multivariate": True}, "line 3, column 'other': expected a number, got 'x'"),
        ("price\n1\n2\n", {"fill": "zero"}, "fill: expected None, 'linear' or 'mask', got 'zero'"),
        ("price\n1\n1_5\n", {}, "line 3, column 'price': expected a number, got '1_5'"),
        ("price\n1\n\u0661\n", {}, "line 3, column 'price': expected a number, got '\u0661'"),
    ],
)
def test_wrong_files_are_refused_with_what_came_and_what_to_do(tmp_path, text, options, message):
    path = tmp_path / "wrong.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_series(path, **({"target": "price"} | options))


def test_a_path_that_is_no_text_file_is_refused(tmp_path, prices):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv: no such file; expected a CSV"):
        read_series(tmp_path / "nowhere.csv", "price")
    with pytest.raises(ValueError, match="got a folder"):
        read_series(tmp_path, "price")
    (tmp_path / "short.gz").write_bytes(gzip.compress(prices.read_bytes())[:-20])
    with pytest.raises(ValueError, match="gzip file is damaged"):
        read_series(tmp_path / "short.gz", "price")
    (tmp_path / "latin.csv").write_bytes("prix,été\n1,2\n".encode("latin-1"))
    with pytest.raises(ValueError, match="expected text in UTF-8"):
        read_series(tmp_path / "latin.csv", "prix")


@pytest.mark.parametrize("time", ["when", None])
def test_a_series_comes_back_from_a_file_to_the_bit(time, tmp_path):
    numbers = np.random.default_rng(0).standard_normal((48, 2)) * 1e9
    index = np.array(HOURLY, "datetime64[s]") if time else None
    series = read_series(pd.DataFrame(numbers, index, ['a "b", c', "d"]), "d", multivariate=True)
    (tmp_path / "a.csv").write_bytes(to_csv(series, "when"))
    again = read_series(tmp_path / "a.csv", "d", time, multivariate=True)
    np.testing.assert_array_equal(again.values, series.values)
    np.testing.assert_array_equal(again.times, series.times)
    assert (again.columns, again.target, again.step) == (series.columns, series.target, series.step)


def test_a_data_frame_reads_as_the_file_of_the_same_rows(prices):
    expected = read_series(prices, "price", "date", multivariate=True)
    times = np.array(HOURLY, "datetime64[ns]")
    columns = {"price": np.arange(48) / 4, "mood": ["down", "up"] * 24, "volume": 100 - np.arange(48)}
    for frame, time in (
        (pd.DataFrame({"date": HOURLY, **columns}), "date"),
        (pl.DataFrame({"date": times, **columns}), "date"),
        (pa.table({"date": times, **columns}), "date"),
        (pd.DataFrame(columns, index=times), None),
    ):
        series = read_series(frame, "price", time, multivariate=True)
        np.testing.assert_array_equal(series.values, expected.values)
        np.testing.assert_array_equal(series.times, expected.times)
        assert (series.columns, series.target, series.notes) == (expected.columns, expected.target, expected.notes)


def test_wrong_cells_of_a_data_frame_are_refused_by_row():
    with pytest.raises(ValueError, match="data frame, row 1, column 'price': expected a number, got 'x'"):
        read_series(pd.DataFrame({"price": [1.0, "x"]}), "price")
    with pytest.raises(ValueError, match="data frame, row 1: the time is missing"):
        read_series(pl.DataFrame({"date": [datetime.date(2020, 1, 1), None], "price": [1.0, 2.0]}), "price", "date")
    with pytest.raises(ValueError, match="expected rows of numbers, got none"):
        read_series(pl.DataFrame({"price": []}), "price")


def test_an_index_of_numbers_and_a_column_of_dates_are_no_data():
    frame = pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2020-01-02"]), "price": [1, 2]})
    for time, day in ((None, "day"), ("none", None)):
        series = read_series(frame, "price", time, multivariate=True)
        assert series.columns == ("price",)
        assert series.time == day
        assert (series.times is None) == (day is None)
    text = pl.DataFrame({"day": ["2020-01-01", "2020-01-02"], "price": [1, 2]})
    assert read_series(text, "price", multivariate=True).time == "day"


def test_a_series_of_unfit_parts_is_refused():
    with pytest.raises(ValueError, match="values: expected finite numbers"):
        Series(np.array([[np.nan]]), ("a",), 0)
    with pytest.raises(ValueError, match=r"values: expected \(rows, 2\)"):
        Series(np.zeros((3, 1)), ("a", "b"), 0)
    with pytest.raises(ValueError, match="target"):
        Series(np.zeros((3, 1)), ("a",), 1)
    with pytest.raises(ValueError, match="times"):
        Series(np.zeros((3, 1)), ("a",), 0, times=np.zeros(2, "datetime64[s]"), step=np.timedelta64(1, "s"))
    for known in (np.ones(3, bool), np.ones((3, 1))):
        with pytest.raises(ValueError, match=r"known: expected True or False for each of \(3, 1\) values, got"):
            Series(np.zeros((3, 1)), ("a",), 0, known=known)
