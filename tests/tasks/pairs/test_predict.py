"""Runs on pairs of texts: labels of new ones, scores that come again, a run that resumes."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from command import call
from pair_files import TEXTS

from longwave.runs import load_run
from longwave.tasks.pairs.predict import compare_texts
from longwave.tasks.tokens.predict import probabilities
from longwave.train.folder import RunFolder

pytestmark = pytest.mark.usefixtures("own_folder")

PAIRS = [(TEXTS[k % 4], TEXTS[(k + (k // 4) % 2) % 4]) for k in range(24)]  # of the test set


@pytest.fixture(autouse=True)
def _run(trained_runs, own_folder):
    trained_runs.fetch("pairs")


def write_pairs(path, first="text1", second="text2", pairs=PAIRS):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", first, second), *((k, *pair) for k, pair in enumerate(pairs))])


def test_pairs_of_the_test_set_get_the_probabilities_of_the_test_set():
    folder = RunFolder.open("run")
    task = folder.build_task()
    found = compare_texts(load_run("run"), PAIRS)
    assert found.classes == ("unrelated", "related")
    np.testing.assert_allclose(found.probabilities, probabilities(folder.load_best(), task.test, 5), atol=1e-5)


def test_a_command_writes_labels_and_scores_for_two_columns(capsys):
    write_pairs("new.csv")
    assert call("predict", "run", "--csv", "new.csv", "--out", "labels.csv") == 0
    assert "24 rows: labels.csv" in capsys.readouterr().out
    with open("labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]] == ["label", "p_unrelated", "p_related"]
    assert len(rows) == 24
    write_pairs("other.csv", "a", "b")
    again = ("--first", "a", "--second", "b", "--out", "again.csv")
    assert call("predict", "run", "--csv", "other.csv", *again) == 0
    assert Path("again.csv").read_bytes() == Path("labels.csv").read_bytes()


def test_evaluate_gives_the_scores_of_the_run(capsys):
    result = json.loads(Path("run/result.json").read_text())
    assert set(result["baselines"]) == {"class prior", "characters alike", "neighbours alike"}
    assert call("evaluate", "run") == 0
    assert f"test accuracy {result['test']['accuracy']:.6f}" in capsys.readouterr().out


def test_the_report_has_the_scores_of_pairs():
    page = Path("run/report.html").read_text()
    assert "Pairs and attribution" in page
    assert "score 0." in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "run compares texts: expected --csv FILE"),
        (("--csv", "none.csv"), "--csv: none.csv: no such file"),
        (("--csv", "a.csv", "--out", "a.csv"), "--out: a.csv is also --csv"),
        (("--csv", "a.csv"), "a.csv: --first: no column 'text1'; expected one of id, a, b"),
        (("--csv", "a.csv", "--first", "a"), "a.csv: --second: no column 'text2'; expected one of id, a, b"),
        (("--csv", "empty.csv"), "empty.csv: expected at least one text, got none"),
        (("--csv", "gap.csv"), "gap.csv: pair 1: expected two texts, got an empty one"),
    ],
)
def test_mistakes_are_refused(arguments, message, capsys):
    write_pairs("a.csv", "a", "b")
    write_pairs("empty.csv", pairs=[])
    write_pairs("gap.csv", pairs=[("a", "b"), ("", "b")])
    assert call("predict", "run", *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_run_of_another_kind_is_refused(trained_runs):
    trained_runs.fetch("classify")
    with pytest.raises(ValueError, match="expected a run that compares texts, got one of kind classify"):
        compare_texts(load_run("run"), PAIRS)
