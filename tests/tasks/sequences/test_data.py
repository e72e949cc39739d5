import datetime
import gzip
import re
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from longwave.tasks.sequences import targets as answers
from longwave.tasks.sequences.data import Sequences, from_arrays, read_npz, read_rows, save_npz
from longwave.tasks.sequences.targets import class_names

LABELS = ["up", "down", "up", "down"]


def rows(sequences: Sequences) -> list[list[list[float]]]:
    """The sequences, cut apart."""
    return [block.tolist() for block in np.split(sequences.values, np.cumsum(sequences.lengths)[:-1])]


@pytest.fixture
def ragged():
    generator = np.random.default_rng(0)
    return [generator.standard_normal((length, 2)) for length in (3, 5, 1, 4)]


# .npz


def test_npz_takes_three_and_two_dimensions(tmp_path):
    x = np.arange(24.0).reshape(4, 3, 2)
    np.savez(tmp_path / "a.npz", x=x, y=LABELS)
    read = read_npz(tmp_path / "a.npz")
    assert (len(read), read.length, read.channels, read.labels) == (4, 3, 2, tuple(LABELS))
    assert rows(read) == x.tolist()
    np.savez(tmp_path / "b.npz", x=x[..., 0].astype(np.int16), y=LABELS)
    read = read_npz(tmp_path / "b.npz")
    assert rows(read) == x[..., :1].tolist()


def test_unequal_lengths_survive_the_way_through_a_file(tmp_path, ragged):
    splits = ["train", "train", "validation", "TEST"]
    given = from_arrays(ragged, LABELS, splits)
    save_npz(tmp_path / "new" / "a.npz", given)
    read = read_npz(tmp_path / "new" / "a.npz")
    assert rows(read) == [block.tolist() for block in ragged]
    assert (read.length, read.labels, read.splits) == (None, tuple(LABELS), ("train", "train", "valid", "test"))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.npz"]
    flat = from_arrays([block[:, 0] for block in ragged], LABELS)
    save_npz(tmp_path / "b.npz", flat)
    assert rows(read_npz(tmp_path / "b.npz")) == [block[:, :1].tolist() for block in ragged]


def test_new_sequences_need_no_labels(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 3)), y=[np.nan, 1.5])
    read = read_npz(tmp_path / "a.npz", labelled=False)
    assert (len(read), read.labels) == (2, None)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((4, 3))}, "y: is missing; expected x and y, got x"),
        ({"X": np.zeros((4, 3)), "y": LABELS}, "x: is missing; expected x and y, got X, y"),
        (
            {"x": np.zeros(4), "y": LABELS},
            r"x: expected \(n, length, channels\) or \(n, length\), each at least 1, got",
        ),
        ({"x": np.zeros((4, 3, 2, 1)), "y": LABELS}, r"got \(4, 3, 2, 1\)"),
        ({"x": np.zeros((4, 0)), "y": LABELS}, r"got \(4, 0\)"),
        ({"x": np.zeros((4, 3), complex), "y": LABELS}, "x: expected real numbers, got complex128"),
        ({"x": np.full((4, 3), "a"), "y": LABELS}, "x: expected real numbers, got <U1"),
        ({"x": np.zeros((4, 3)), "y": LABELS[:3]}, "y: expected one for each of 4 sequences, got 3"),
        (
            {"x": np.zeros((4, 3)), "y": np.zeros((4, 2))},
            r"y: expected one label per sequence, \(n,\), got shape \(4, 2\)",
        ),
        ({"x": np.zeros((4, 3)), "y": [1, 2, 0.5, 2]}, r"y\[2\]: expected a class, a name or a whole number, got 0.5"),
        ({"x": np.zeros((4, 3)), "y": [1, 2, np.nan, 2]}, r"y\[2\]: the label is missing"),
        ({"x": np.zeros((4, 3)), "y": ["a", " ", "b", "c"]}, r"y\[1\]: the label is missing"),
        (
            {"x": np.zeros((4, 3)), "y": LABELS, "split": ["train"] * 3},
            "split: expected one for each of 4 sequences, got 3",
        ),
        ({"x": np.zeros((4, 3)), "y": LABELS, "split": "abcd"}, "split: expected one split per sequence"),
        (
            {"x": np.zeros((4, 3)), "y": LABELS, "split": [*"abcd"]},
            r"split\[0\]: expected train, valid or test, got 'a'",
        ),
        ({"x": np.zeros((9, 2)), "y": LABELS, "lengths": [3, 3, 2, 2]}, "add up to the 9 steps of x, got a sum of 10"),
        ({"x": np.zeros((4, 3, 2)), "y": LABELS, "lengths": [3, 3, 2, 2]}, r"without padding, got \(4, 3, 2\)"),
        ({"x": np.zeros(()), "y": LABELS, "lengths": [3, 3, 2, 2]}, r"without padding, got \(\)"),
        ({"x": np.zeros((9, 0)), "y": LABELS, "lengths": [3, 3, 2, 1]}, "expected one channel or more, got none"),
        (
            {"x": np.zeros(9), "y": LABELS, "lengths": [3.0, 3, 2, 1]},
            "lengths: expected whole numbers, one per sequence",
        ),
        ({"x": np.zeros(9), "y": LABELS, "lengths": ["3", "3"]}, "lengths: expected whole numbers, one per sequence"),
        ({"x": np.zeros((4, 3)), "y": [1j, 1, 2, 3]}, "y: expected names or whole numbers, got complex128"),
        ({"x": np.zeros((4, 3)), "y": ["a", "b", "0.5", "b"]}, r"y\[2\]: expected a class"),
        ({"x": np.zeros(9), "y": LABELS, "lengths": [4, 3, 0, 2]}, "one step or more; sequence 2 has none"),
    ],
)
def test_a_wrong_npz_file_is_refused_with_what_came_and_what_to_do(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=message) as error:
        read_npz(tmp_path / "a.npz")
    assert str(tmp_path / "a.npz") in str(error.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_named_by_sequence_step_and_channel(tmp_path, ragged, bad):
    ragged[1][2, 1] = bad
    with pytest.raises(ValueError, match=f"sequence 1, step 2, channel 1: expected a finite number, got {bad}; fill"):
        from_arrays(ragged, LABELS)
    ragged[3][0, 0] = bad
    with pytest.raises(ValueError, match=r"sequence 1, step 2, channel 1: .* as in 1 more steps"):
        from_arrays(ragged, LABELS)


class Trap:
    def __reduce__(self):
        return exec, ("raise SystemExit('unpickled')",)


def test_nothing_is_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([Trap(), Trap()], object), y=["a", "b"])
    with pytest.raises(ValueError, match=r"x: holds Python objects, which are not loaded; .* an array `lengths`"):
        read_npz(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=np.zeros((2, 2)), y=np.array([Trap(), Trap()], object))
    with pytest.raises(ValueError, match=r"y: holds Python objects.*y\.astype\(str\)"):
        read_npz(tmp_path / "b.npz")


def test_a_file_that_is_no_npz_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such file; expected an \.npz file with x and y"):
        read_npz(tmp_path / "none.npz")
    with pytest.raises(ValueError, match="got a folder"):
        read_npz(tmp_path)
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"got a single array; use numpy\.savez"):
        read_npz(tmp_path / "a.npy")
    (tmp_path / "text.npz").write_text("x,y\n")
    with pytest.raises(ValueError, match=r"as numpy\.savez writes it, got another"):
        read_npz(tmp_path / "text.npz")
    np.savez(tmp_path / "cut.npz", x=np.zeros((4, 300)), y=LABELS)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"cut\.npz: the file is damaged"):
        read_npz(tmp_path / "cut.npz")
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as file:
        file.writestr("x", "not an array")
    with pytest.raises(ValueError, match=r"other\.npz: x: is not an array"):
        read_npz(tmp_path / "other.npz")
    np.savez_compressed(tmp_path / "spoilt.npz", x=np.random.default_rng(0).random((4, 3000)), y=LABELS)
    content = bytearray((tmp_path / "spoilt.npz").read_bytes())
    content[2000:2400] = bytes(400)
    (tmp_path / "spoilt.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"spoilt\.npz: the file is damaged"):
        read_npz(tmp_path / "spoilt.npz")


# Arrays


def test_arrays_lists_and_object_arrays_are_the_same(ragged):
    objects = np.empty(4, object)
    objects[:] = ragged
    for x in (ragged, tuple(ragged), objects):
        assert rows(from_arrays(x, LABELS)) == [block.tolist() for block in ragged]
    assert rows(from_arrays([[1, 2], [3]])) == [[[1], [2]], [[3]]]


def test_lists_of_unlike_arrays_are_refused(ragged):
    with pytest.raises(ValueError, match=r"x: expected arrays \(length, channels\), all with the same channels"):
        from_arrays([ragged[0], ragged[1][:, :1]])
    with pytest.raises(ValueError, match="all with the same channels"):
        from_arrays([[1, 2], [3, 4], 5])
    with pytest.raises(ValueError, match="x: expected sequences, got none"):
        from_arrays([])
    with pytest.raises(ValueError, match="got a masked array"):
        from_arrays(np.ma.masked_equal([[1.0, -999.0], [2.0, 3.0]], -999.0))


def test_tensors_are_arrays_too(ragged):
    whole = torch.randn(3, 5, 2, requires_grad=True)
    assert rows(from_arrays(whole)) == whole.tolist()
    assert rows(from_arrays([torch.tensor(block) for block in ragged])) == [block.tolist() for block in ragged]


def test_labels_of_every_kind_become_names():
    x = np.zeros((4, 2))
    assert from_arrays(x, [1, 2, 1, 2]).labels == ("1", "2", "1", "2")
    assert from_arrays(x, np.array([1.0, 2, 1, 2])).labels == ("1", "2", "1", "2")
    assert from_arrays(x, ["3", "3.0", "-4.", "v3.0"]).labels == ("3", "3", "-4", "v3.0")
    assert from_arrays(x, [True, False, True, True]).labels == ("True", "False", "True", "True")
    assert from_arrays(x, np.array([b"a", b"b", b"a", b"b"])).labels == ("a", "b", "a", "b")


def test_classes_are_in_the_order_of_their_numbers_or_of_the_alphabet():
    assert class_names(["10", "9", "-1", "10"]) == ("-1", "9", "10")
    assert class_names(["b", "10", "a"]) == ("10", "a", "b")


# CSV and data frames

TABLE = """kind,t0,t1,t2
up,1,2,3
down,4,5,
up,6
"""


def test_csv_has_one_row_a_sequence_and_empty_cells_end_it(tmp_path):
    for name, content in (("a.csv", TABLE.encode()), ("a.csv.gz", gzip.compress(TABLE.encode()))):
        (tmp_path / name).write_bytes(content)
        read = read_rows(tmp_path / name, "kind")
        assert rows(read) == [[[1], [2], [3]], [[4], [5]], [[6]]]
        assert read.labels == ("up", "down", "up")


def test_csv_takes_other_separators_a_column_of_parts_and_an_index(tmp_path):
    (tmp_path / "a.csv").write_text("\n;x;y;split;label\n0;1;2;train;a\n\n1;3;4;test;b\n  \n")
    read = read_rows(tmp_path / "a.csv", split="split")
    assert rows(read) == [[[1], [2]], [[3], [4]]]
    assert (read.labels, read.splits) == (("a", "b"), ("train", "test"))
    assert rows(read_rows(tmp_path / "a.csv", split="split", labelled=False)) == rows(read)


def test_new_rows_may_have_a_label_or_not(tmp_path):
    (tmp_path / "a.csv").write_text("t0,t1\n1,2\n")
    (tmp_path / "b.csv").write_text("t0,kind,t1\n1,,2\n")
    for name in ("a.csv", "b.csv"):
        read = read_rows(tmp_path / name, "kind", labelled=False)
        assert (rows(read), read.labels) == ([[[1], [2]]], None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("kind,t0\n", "expected rows below the header, one per sequence, got none"),
        ("kid,t0\na,1\n", "label: no column 'kind'; expected one of kid, t0; did you mean 'kid'?"),
        ("kind,kind,t0\na,a,1\n", "label: 2 columns are named 'kind'; expected one"),
        ("kind\na\n", "expected columns of numbers beside 'kind', one per step, got none"),
        ("kind,t0,t1\na,1,2,3\n", "line 2: expected at most 3 cells, as in the header, got 4"),
        ("kind,t0,t1\na,1,2\nb,,\n", "line 3: expected numbers, one per step, got none"),
        ("kind,t0,t1\na,,2\n", "line 2, column 't0': the value is missing; only the end of a row may be"),
        ("kind,t0,t1\na,1,nan\n", "line 2, column 't1': the value is missing ('nan'); only the end of a row may be"),
        ("\n\nkind,t0,t1\na,1,2\n\nb,x,2\n", "line 6, column 't0': expected a number such as 1234.5, got 'x'"),
        ("kind,t0\na,inf\n", "line 2, column 't0': expected a number such as 1234.5, got 'inf'"),
        ("kind,t0\n,1\n", "line 2, column 'kind': the label is missing"),
    ],
)
def test_wrong_csv_files_are_refused_by_line_and_column(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_rows(tmp_path / "a.csv", "kind")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_data_frame_reads_as_the_file_of_the_same_rows(tmp_path, make):
    (tmp_path / "a.csv").write_text(TABLE)
    frame = make(dict(kind=["up", "down", "up"], t0=[1, 4, 6], t1=[2, 5, None], t2=[3.0, None, None]))
    read, expected = read_rows(frame, "kind"), read_rows(tmp_path / "a.csv", "kind")
    assert rows(read) == rows(expected)
    assert read.labels == expected.labels
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]
    with pytest.raises(ValueError, match="row 0, column 't1': expected a number such as"):
        read_rows(make(dict(kind=["a", "b"], t0=[1, 2], t1=days)), "kind")
    with pytest.raises(ValueError, match="data frame, row 1, column 'kind': the label is missing"):
        read_rows(make(dict(kind=["a", None], t0=[1, 2])), "kind")


def test_every_name_of_a_part_is_one_of_three():
    assert set(answers.SPLIT_OF.values()) == {"train", "valid", "test"}
