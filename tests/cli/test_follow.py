"""`longwave stream --follow`: files that grow, and files that are replaced."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from command import call
from dense import ROOT
from streamed import Writers, append, check_probabilities, expected, rotate, rotate_slowly, rows_of, truncate
from trained import CONTEXT, HORIZON

from longwave.cli import _action
from longwave.io import tail as lines
from longwave.runs import load_run
from longwave.tasks.forecast.predict import forecast

LIMIT = 120  # seconds that a busy machine may take for what takes one


@pytest.fixture
def run(trained_runs):
    trained_runs.fetch("causal")
    return Path("run")


@pytest.fixture
def followed(monkeypatch, capsys):
    """Stream from a file to which others write meanwhile; the exit code, stdout and stderr."""

    def follow(arguments, *actions, is_terminal=False):
        monkeypatch.setattr(lines, "_wait", Writers(*actions))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
        code = call("stream", "run", "--csv", "grow.csv", "--follow", *arguments)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return follow


def test_a_followed_file_begins_with_its_next_row_and_its_past_is_the_state(run, followed):
    Path("grow.csv").write_text("v\n4\n5")
    code, out, err = followed([], append("\n6\n"), append(""), append("7\n"))
    assert code == 0
    rows = rows_of(out)
    assert [row["row"] for row in rows] == ["2", "3", "4"]  # the line of the second had no end at first
    check_probabilities(rows, expected(run, np.array([[4.0], [5], [6], [7]]), range(2, 5)))
    assert "following grow.csv: 1 row so far; Ctrl-C to stop\n" in err
    assert err.endswith("stopped following grow.csv: 3 new rows\n")


def test_from_start_gives_outputs_for_the_past_rows_of_a_followed_file_too(run, followed):
    Path("grow.csv").write_text("v\n4\n5\n")
    _, out, err = followed(["--from-start"], append("6\n"))
    check_probabilities(rows_of(out), expected(run, np.array([[4.0], [5], [6]]), range(1, 4)))
    assert "following grow.csv from its first row; Ctrl-C to stop\n" in err


def test_from_start_without_follow_is_refused(run, capsys):
    Path("grow.csv").write_text("v\n4\n")
    assert call("stream", str(run), "--csv", "grow.csv", "--from-start") == 2
    assert "--from-start: requires --follow" in capsys.readouterr().err


def test_a_followed_series_has_a_short_line_for_each_new_row_and_full_precision_in_the_file(trained_runs, followed):
    trained_runs.fetch("forecast")
    text = Path("series.csv").read_text().splitlines(keepends=True)
    Path("grow.csv").write_text("".join(text[: CONTEXT + 3]))
    code, out, err = followed(["--out", "out.csv"], append(text[CONTEXT + 3]), append(text[CONTEXT + 4]))
    assert code == 0
    assert f"following grow.csv: {CONTEXT + 2} rows so far; Ctrl-C to stop\n" in err
    assert err.endswith("stopped following grow.csv: 2 new rows\n")
    rows = rows_of(Path("out.csv").read_text())
    truth = forecast(load_run("run"), "grow.csv")
    assert [float(rows[1][f"price+{k}"]) for k in range(1, HORIZON + 1)] == pytest.approx(truth.values[:, 0], rel=1e-9)
    *shown, last = out.splitlines()
    assert last == "2 rows: out.csv"
    for line, row in zip(shown, rows, strict=True):
        assert line.startswith(f"{row['time']}  price +1 ")
        assert float(line.split()[-1]) == pytest.approx(float(row[f"price+{HORIZON}"]), rel=1e-3)
        assert len(line) < 80


def test_a_followed_series_without_the_columns_of_the_run_is_refused_at_once(trained_runs, followed):
    trained_runs.fetch("forecast")
    Path("grow.csv").write_text("date,cost\n2024-01-01,3\n")
    code, _, err = followed([])
    assert code == 2
    assert "price" in err


def test_ctrl_c_while_an_output_is_printed_says_how_many_rows_there_were(run, followed, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(_action, "print", interrupt, raising=False)
    Path("grow.csv").write_text("v\n4\n")
    code, out, err = followed([], append("5\n"))
    assert (code, out) == (0, "")
    assert err.endswith("stopped following grow.csv: 1 new row\n")


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([rotate("v\n6\n7\n3\n2\n1\n")], "grow.csv was replaced by another file: reading from the beginning\n"),
        ([truncate("v\n6\n"), append("7\n3\n2\n1\n")], "grow.csv was truncated: reading from the beginning\n"),
        (
            rotate_slowly("v\n6\n7\n3\n2\n1\n"),
            "grow.csv was deleted: waiting for it to reappear\ngrow.csv was replaced",
        ),
    ],
    ids=["rotated", "truncated", "gone for a while"],
)
def test_a_followed_file_that_is_replaced_is_read_from_its_beginning_as_a_new_sequence(run, followed, actions, message):
    Path("grow.csv").write_text("v\n4\n5\n")
    code, out, err = followed([], append("5.5\n"), *actions)
    assert code == 0
    assert message in err
    rows = rows_of(out)
    assert [row["row"] for row in rows] == ["3", "1", "2", "3", "4", "5"]
    check_probabilities(rows[:1], expected(run, np.array([[4.0], [5], [5.5]]), [3]))
    check_probabilities(rows[1:], expected(run, np.array([[6.0], [7], [3], [2], [1]]), range(1, 6)))


def test_the_context_of_a_forecast_fills_anew_from_a_file_that_was_replaced(trained_runs, followed):
    trained_runs.fetch("forecast")
    head, *body = Path("series.csv").read_text().splitlines(keepends=True)
    Path("grow.csv").write_text("".join([head, *body[:CONTEXT]]))
    _, out, err = followed([], rotate("".join([head, *body[50:60]])), append("".join(body[60 : 50 + CONTEXT + 1])))
    assert f"reading from the beginning\nnote: forecasts begin at row {CONTEXT}, when" in err
    rows = rows_of(out)
    assert [row["time"] for row in rows] == [body[50 + CONTEXT + k].split(",")[0] for k in (-1, 0)]
    truth = forecast(load_run("run"), "grow.csv").values[:, 0]
    assert [float(rows[1][f"price+{k}"]) for k in range(1, HORIZON + 1)] == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "header", "other"), [("causal", "v", "w"), ("forecast", "date,price", "date,price,volume")]
)
def test_a_file_that_was_replaced_by_one_with_another_header_is_refused(name, header, other, trained_runs, followed):
    trained_runs.fetch(name)
    Path("grow.csv").write_text(f"{header}\n")
    code, _, err = followed([], rotate(f"{other}\n"))
    assert code == 2
    assert f"grow.csv, line 1: expected the header of the previous file, {header}, got {other}; restart" in err


def test_ctrl_c_ends_a_followed_file_cleanly_and_every_line_is_out_before(trained_runs):
    trained_runs.fetch("forecast")
    text = Path("series.csv").read_text().splitlines(keepends=True)
    Path("grow.csv").write_text("".join(text[: CONTEXT + 1]))
    # A shell that runs the tests in the background has them ignore Ctrl-C, and their children with them.
    heard = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heard}; from longwave.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "stream", "run", "--csv", "grow.csv", "--follow"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    guard = threading.Timer(LIMIT, process.kill)
    guard.start()
    try:
        assert process.stderr.readline() == "loading run\n"
        assert process.stderr.readline() == f"following grow.csv: {CONTEXT} rows so far; Ctrl-C to stop\n"
        append(text[CONTEXT + 1])()
        assert process.stdout.readline().startswith("time,price+1")
        assert process.stdout.readline().startswith("2024-01-02 00:00:00,")
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 0
        assert process.stderr.read() == "stopped following grow.csv: 1 new row\n"
    finally:
        guard.cancel()
        process.kill()
        process.communicate()
