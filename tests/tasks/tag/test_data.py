"""CSV files with one row per step."""

import gzip
import re

import pytest

from longwave.tasks.tag.data import read_steps

TABLE = """id,x,part,kind,y
a,1,train,walk,2
a,3,train,,4
b,5,test,run,6
"""


def test_the_rows_of_a_sequence_are_its_steps_and_other_columns_its_channels(tmp_path):
    for name, content in (("a.csv", TABLE.encode()), ("a.csv.gz", gzip.compress(TABLE.encode()))):
        (tmp_path / name).write_bytes(content)
        read = read_steps(tmp_path / name, "id", "kind", "part")
        assert read.values.tolist() == [[1, 2], [3, 4], [5, 6]]
        assert (read.lengths.tolist(), read.tags.tolist()) == ([2, 1], ["walk", "", "run"])
        assert (read.names, read.columns, read.splits) == (("a", "b"), ("x", "y"), ("train", "test"))


def test_new_rows_need_no_label_and_channels_are_found_by_their_names(tmp_path):
    (tmp_path / "a.csv").write_text("y;comment;id;x\n2;fine;a;1\n4;;a;3\n")
    read = read_steps(tmp_path / "a.csv", "id", "kind", "part", labelled=False, columns=("x", "y"))
    assert (read.values.tolist(), read.tags, read.splits) == ([[1, 2], [3, 4]], None, None)
    with pytest.raises(ValueError, match="channel: no column 'z'"):
        read_steps(tmp_path / "a.csv", "id", labelled=False, columns=("x", "z"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("id,kind,x\n", "expected rows below the header, one per step, got none"),
        ("ids,kind,x\na,b,1\n", "sequence: no column 'id'; expected one of ids, kind, x; did you mean 'ids'?"),
        ("id,kid,x\na,b,1\n", "label: no column 'kind'"),
        ("id,kind\na,b\n", "expected columns of numbers beside 'id' and 'kind', got none"),
        ("id,kind,x,x\na,b,1,2\n", "channel: 2 columns are named 'x'; expected one"),
        ("id,kind,x\na,b,1,2\n", "line 2: expected 3 cells as in the header, got 4"),
        ("id,kind,x\na,b,1\n\n,b,1\n", "line 4, column 'id': the sequence is missing"),
        ("id,kind,x\na,b,1\nb,b,1\na,b,1\n", "line 4, column 'id': sequence 'a' continues after 'b'; sort"),
        ("id,kind,x\na,b,1\na,b,\n", "line 3, column 'x': expected a number such as 1234.5, got ''"),
        ("id,kind,x\na,b,inf\n", "line 2, column 'x': expected a number such as 1234.5, got 'inf'"),
        ("id,kind,x,y\na,b,1,now\n", "line 2, column 'y': expected a number such as 1234.5, got 'now'"),
        ("id,kind,x\na,0.5,1\n", "line 2, column 'kind': expected a class, a name or a whole number, got 0.5"),
    ],
)
def test_wrong_files_are_refused_by_line_and_column(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_steps(tmp_path / "a.csv", "id", "kind")


def test_a_sequence_belongs_to_one_split(tmp_path):
    (tmp_path / "a.csv").write_text("id,kind,x,part\na,b,1,train\na,b,1,test\n")
    with pytest.raises(ValueError, match=r"line 3, column 'part': expected train, as in the first row of sequence 'a'"):
        read_steps(tmp_path / "a.csv", "id", "kind", "part")
