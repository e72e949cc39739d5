"""Labels of new texts from a trained run."""

import csv
from pathlib import Path

import numpy as np
import pytest
from command import call

from longwave.runs import load_run
from longwave.tasks.tokens.predict import classify_texts, probabilities, read_column, read_lines
from longwave.train.folder import RunFolder

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture(autouse=True)
def _run(trained_runs, own_folder):
    trained_runs.fetch("tokens")


def labels(path="labels.csv"):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_texts_of_the_test_set_get_the_probabilities_of_the_test_set():
    folder = RunFolder.open("run")
    task = folder.build_task()
    paths = [Path("data/aclImdb/test") / name / f"{k}_{k % 5}.txt" for name in ("neg", "pos") for k in range(12)]
    found = classify_texts(load_run("run"), [path.read_bytes().decode() for path in paths])
    assert found.classes == ("negative", "positive")
    np.testing.assert_allclose(found.probabilities, probabilities(folder.load_best(), task.test, 5), atol=1e-5)


def test_a_command_writes_labels_for_the_lines_of_a_file_or_a_column(capsys):
    Path("new.txt").write_bytes("a good, lively film\r\na dull and bad film\u0085\n".encode())
    assert call("predict", "run", "--txt", "new.txt", "--out", "labels.csv") == 0
    assert "2 rows: labels.csv" in capsys.readouterr().out
    from_lines = labels()
    assert [*from_lines[0]] == ["label", "p_negative", "p_positive"]
    Path("new.csv").write_text('id,review\n1,"a good, lively film"\n2,a dull and bad film\u0085\n')
    assert call("predict", "run", "--csv", "new.csv", "--column", "review", "--out", "labels.csv") == 0
    assert labels() == from_lines


def test_lines_end_with_a_line_feed_alone(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\u0085two\r\nthree\u2028four".encode())
    assert read_lines(path) == ["one\u0085two", "three\u2028four"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected either --txt FILE or --csv FILE"),
        (("--txt", "a.txt", "--csv", "a.csv"), "expected either --txt FILE or --csv FILE"),
        (("--txt", "nothing.txt"), "--txt: nothing.txt: no such file"),
        (("--txt", "a.txt", "--out", "a.txt"), "--out: a.txt is also --txt"),
        (("--txt", "empty.txt"), "empty.txt: expected at least one text, got none"),
        (("--txt", "gap.txt"), "gap.txt: text 1: expected at least one character, got none"),
        (("--txt", "latin.txt"), "latin.txt: expected text in UTF-8"),
        (("--csv", "a.csv"), "a.csv: --column: no column 'text'; expected one of id, review"),
    ],
)
def test_mistakes_are_refused(arguments, message, capsys):
    Path("a.txt").write_text("good\n")
    Path("a.csv").write_text("id,review\n1,good\n")
    Path("empty.txt").write_text("")
    Path("gap.txt").write_text("good\n\nbad\n")
    Path("latin.txt").write_bytes(b"caf\xe9\n")
    assert call("predict", "run", *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_no_csv_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"text\n\xff\n")
    with pytest.raises(ValueError, match="expected text in UTF-8, got other bytes"):
        read_column(tmp_path / "a.csv", "text")


def test_a_run_of_another_kind_is_refused(trained_runs):
    trained_runs.fetch("classify")
    with pytest.raises(ValueError, match="expected a run that classifies texts, got one of kind classify"):
        classify_texts(load_run("run"), ["good"])
