"""`longwave stream` as a person meets it: sound and rows in, labels and forecasts out as they come."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from command import call
from streamed import check_probabilities, expected, rows_of
from trained import CONTEXT, HORIZON

from longwave import load_model
from longwave.runs import load_run
from longwave.tasks.classify.predict import classify
from longwave.tasks.forecast.predict import forecast
from longwave.tasks.row_writer import short_line, short_number
from longwave.tasks.sequences.data import from_arrays, read_npz
from longwave.tasks.tag.predict import tag
from longwave.train.folder import RunFolder


@pytest.fixture
def run(trained_runs):
    trained_runs.fetch("causal")
    return Path("run")


def tone(seconds=0.5, rate=1000, channels=1):
    time = np.arange(int(seconds * rate)) / rate
    sound = 0.4 * np.sin(2 * np.pi * (20 + 60 * time) * time)
    return np.repeat(sound[:, None], channels, axis=1)


@pytest.mark.parametrize("window", [None, 0.2])
def test_a_file_of_sound_gives_probabilities_every_hop(run, window, capsys):
    soundfile.write("tone.wav", tone(), 1000, subtype="FLOAT")
    options = [] if window is None else ["--window", str(window)]
    assert call("stream", str(run), "--wav", "tone.wav", "--hop", "0.06", "--latency", "0.13", *options) == 0
    rows = rows_of(capsys.readouterr().out)
    assert [float(row["time"]) for row in rows] == pytest.approx([0.06 * k for k in range(1, 9)])
    ends = range(60, 481, 60)
    check_probabilities(rows, expected(run, tone(), ends, None if window is None else 200))


@pytest.mark.parametrize(("subtype", "channels"), [("PCM_16", 1), ("PCM_24", 2), ("PCM_U8", 1)])
def test_formats_and_channels_are_read_as_one_signal(run, subtype, channels, capsys):
    soundfile.write("tone.wav", tone(channels=channels), 1000, subtype=subtype)
    assert call("stream", str(run), "--wav", "tone.wav", "--hop", "0.25", "--out", "deep/events.csv") == 0
    assert capsys.readouterr().out == "2 rows: deep/events.csv\n"
    truth = expected(run, tone(), [250, 500])
    for row, chances in zip(rows_of(Path("deep/events.csv").read_text()), truth, strict=True):
        assert float(row["p_falling"]) == pytest.approx(chances[0], abs=0.02)  # of 8 bits


def test_raw_samples_from_a_pipe_are_read_to_the_end(run, monkeypatch, capsys):
    samples = (tone() * 32768).astype("<i2")
    pipe = io.BytesIO(samples.tobytes() + b"\x01")  # the last sample is cut off
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
    arguments = ["--stdin", "--sampling-rate", "1000", "--hop", "0.1", "--latency", "0.01", "--jsonl"]
    assert call("stream", str(run), *arguments) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    truth = expected(run, samples / 32768, range(100, 501, 100))
    assert [row["time"] for row in rows] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    for row, chances in zip(rows, truth, strict=True):
        assert list(row["probabilities"].values()) == pytest.approx(chances, abs=1e-5)


def test_another_sampling_rate_than_that_of_training_changes_dt(run, capsys):
    config = json.loads((run / "config.json").read_text())
    config["task"]["inputs"]["sampling_rate"] = 2000
    (run / "config.json").write_text(json.dumps(config))
    soundfile.write("tone.wav", tone(), 1000, subtype="FLOAT")
    assert call("stream", str(run), "--wav", "tone.wav", "--hop", "0.5") == 0
    printed = capsys.readouterr()
    assert printed.err == "note: the model was trained at 2000 samples per second, and these are 1000: dt is scaled\n"
    inputs = config["task"]["inputs"]
    x = torch.from_numpy(((tone() - inputs["mean"]) / inputs["deviation"]).astype(np.float32)).unsqueeze(0)
    with torch.no_grad():
        truth = load_model(run / "best").eval()(x, rate=2.0)[0].softmax(-1)[0]
    assert float(rows_of(printed.out)[0]["p_falling"]) == pytest.approx(float(truth[0]), abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected one of --wav FILE, --stdin and --csv FILE, got none"),
        (["--wav", "tone.wav", "--stdin"], "got --wav and --stdin"),
        (["--wav", "none.wav"], "--wav: none.wav: no such file"),
        (["--wav", "text.wav"], "text.wav: expected an audio file"),
        (["--wav", "nan.wav", "--latency", "0.1"], "nan.wav: the sample at 0.3 s is NaN or inf"),
        (["--stdin"], "--sampling-rate: expected the samples per second"),
        (["--stdin", "--sampling-rate", "0"], "--sampling-rate: expected samples per second, above 0"),
        (["--wav", "tone.wav", "--sampling-rate", "8"], "tone.wav has its own"),
        (["--wav", "tone.wav", "--hop", "0"], "--hop: expected a positive number of seconds"),
        (["--wav", "tone.wav", "--follow"], "--follow: requires --csv FILE"),
        (["--wav", "tone.wav", "--out", "tone.wav"], "--out: tone.wav is also --wav"),
        (["--csv", "bad.csv"], "bad.csv, line 3, cell 1: expected a number such as 1234.5, got 'x'"),
        (["--csv", "wide.csv"], "wide.csv, line 1: expected 1 columns, one per channel of training, got 2"),
        (["--csv", "bad.csv", "--every", "0"], "--every: expected a number of rows"),
        (["--csv", "bad.csv", "--window", "0.5"], "--window: expected a whole number of rows"),
    ],
)
def test_mistakes_are_named(run, arguments, message, capsys):
    soundfile.write("tone.wav", tone(), 1000)
    wrong = tone()
    wrong[300] = np.nan
    soundfile.write("nan.wav", wrong, 1000, subtype="FLOAT")
    Path("text.wav").write_text("no sound")
    Path("bad.csv").write_text("v\n1\nx\n")
    Path("wide.csv").write_text("1,2\n")
    assert call("stream", str(run), *arguments) == 2
    assert message in capsys.readouterr().err


def test_runs_that_cannot_stream_are_refused_with_the_reason(trained_runs, capsys):
    trained_runs.fetch("classify")
    Path("x.csv").write_text("1\n2\n")
    assert call("stream", "run", "--csv", "x.csv", "--out", "out.csv") == 2
    assert "a Classifier takes whole sequences or windows; set a window (--window) to run" in capsys.readouterr().err
    assert not Path("out.csv").exists()
    config = json.loads(Path("run/config.json").read_text())
    config["task"]["inputs"]["by_position"] = True
    Path("run/config.json").write_text(json.dumps(config))
    assert call("stream", "run", "--csv", "x.csv") == 2
    assert "normalised by the mean at its position" in capsys.readouterr().err
    config["task"]["inputs"] |= {"by_position": False, "features": "mfcc"}
    Path("run/config.json").write_text(json.dumps(config))
    assert call("stream", "run", "--csv", "x.csv") == 2
    assert "frames of mfcc" in capsys.readouterr().err
    trained_runs.fetch("text")
    assert call("stream", "run") == 2
    assert "a run of kind text cannot stream; use longwave generate run" in capsys.readouterr().err


# Rows


def test_rows_give_a_line_each_and_the_last_is_what_predict_says(run, capsys):
    values = np.linspace(4, 6, 12)
    Path("rows.csv").write_text("v\n" + "".join(f"{v}\n" for v in values))
    assert call("stream", str(run), "--csv", "rows.csv") == 0
    rows = rows_of(capsys.readouterr().out)
    assert [row["row"] for row in rows] == [str(k) for k in range(1, 13)]
    check_probabilities(rows, expected(run, values[:, None], range(1, 13)))
    np.savez("new.npz", x=values[None, :, None])
    last = classify(load_run(run), read_npz("new.npz", labelled=False)).probabilities[0]
    assert [float(rows[-1]["p_falling"]), float(rows[-1]["p_rising"])] == pytest.approx(last, abs=1e-5)


def test_a_pipe_without_a_header_and_every_other_row(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"4\n\n5\r\n5.5\n6\n7")))
    assert call("stream", str(run), "--csv", "-", "--every", "2", "--window", "4") == 0
    rows = rows_of(capsys.readouterr().out)
    assert [row["row"] for row in rows] == ["2", "4"]
    check_probabilities(rows, expected(run, np.array([[4], [5], [5.5], [6]]), [2, 4], window=4))


def test_tags_of_a_causal_model_come_row_by_row(trained_runs, capsys):
    trained_runs.fetch("causal tags")
    values = np.array([1.0, 1, 1, 3, 3, 3, 3])
    Path("rows.csv").write_text("".join(f"{v}\n" for v in values))
    assert call("stream", "run", "--csv", "rows.csv") == 0
    rows = rows_of(capsys.readouterr().out)
    inputs = RunFolder.open("run").config.task["inputs"]
    x = torch.from_numpy(((values - inputs["mean"]) / inputs["deviation"]).astype(np.float32)).reshape(1, -1, 1)
    with torch.no_grad():
        truth = load_model("run/best").eval()(x)[0][0].softmax(-1)
    assert [float(row["p_up"]) for row in rows] == pytest.approx(truth[:, 1].tolist(), abs=1e-5)


@pytest.mark.parametrize("every", [1, 3])
def test_a_window_over_the_default_classifier_gives_what_predict_gives_for_its_rows(every, trained_runs, capsys):
    trained_runs.fetch("classify")
    values = 5 + np.sin(np.arange(21) / 3)
    Path("rows.csv").write_text("v\n" + "".join(f"{v}\n" for v in values))
    assert call("stream", "run", "--csv", "rows.csv", "--window", "8", "--every", str(every)) == 0
    rows = rows_of(capsys.readouterr().out)
    ends = range(every, 22, every)
    assert [row["row"] for row in rows] == [str(end) for end in ends]
    windows = from_arrays([values[max(0, end - 8) : end] for end in ends])
    check_probabilities(rows, classify(load_run("run"), windows).probabilities.tolist())


def test_a_window_over_tags_that_see_both_ways_gives_what_predict_gives_for_its_last_row(trained_runs, capsys):
    trained_runs.fetch("tag")
    values = np.array([1.0, 1, 1, 3, 3, 3, 3, 1, 1, 3])
    Path("rows.csv").write_text("".join(f"{v}\n" for v in values))
    assert call("stream", "run", "--csv", "rows.csv") == 2
    assert "it is bidirectional" in (err := capsys.readouterr().err)
    assert "set a window (--window)" in err
    assert call("stream", "run", "--csv", "rows.csv", "--window", "4") == 0
    rows = rows_of(capsys.readouterr().out)
    windows = from_arrays([values[max(0, end - 4) : end] for end in range(1, 11)], target_kind="tags")
    truth = [chances[-1, 1] for chances in tag(load_run("run"), windows).probabilities]
    assert [float(row["p_up"]) for row in rows] == pytest.approx(truth, abs=1e-5)


# Forecasts


@pytest.mark.parametrize("name", ["forecast", "gaps"])
def test_forecasts_follow_every_row_once_the_context_is_full(name, trained_runs, capsys):
    trained_runs.fetch(name)
    head, *body = Path("series.csv").read_text().splitlines()
    Path("part.csv").write_text("\n".join([head, *body[: CONTEXT + 5]]) + "\n")
    assert call("stream", "run", "--csv", "part.csv") == 0
    printed = capsys.readouterr()
    rows = rows_of(printed.out)
    assert len(rows) == 6
    assert list(rows[0]) == ["time", *(f"price+{k}" for k in range(1, HORIZON + 1))]
    for count, row in zip(range(CONTEXT, CONTEXT + 6), rows, strict=True):
        Path("so-far.csv").write_text("\n".join([head, *body[:count]]) + "\n")
        truth = forecast(load_run("run"), "so-far.csv")
        assert row["time"] == str(truth.known_times[-1]).replace("T", " ")
        found = [float(row[f"price+{k}"]) for k in range(1, HORIZON + 1)]
        assert found == pytest.approx(truth.values[:, 0].tolist(), rel=1e-9)
    assert printed.err.count("values of the context are missing") == (name == "gaps")


def test_every_so_many_rows_from_a_pipe_as_json(trained_runs, monkeypatch, capsys):
    trained_runs.fetch("forecast")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("series.csv").read_bytes())))
    assert call("stream", "run", "--csv", "-", "--every", "50", "--jsonl") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["time"][:13] for row in rows] == ["2024-01-03 01", "2024-01-05 03", "2024-01-07 05"]
    assert [len(row["forecast"]["price"]) for row in rows] == [HORIZON] * 3


def test_a_bad_row_is_named_by_its_line_in_the_stream(trained_runs, capsys):
    trained_runs.fetch("forecast")
    with open("series.csv", "a") as file:
        file.write("2024-01-07 06:00:00,much\n")
    assert call("stream", "run", "--csv", "series.csv", "--every", "151") == 2
    assert "series.csv, line 152, column 'price': expected a number, got 'much'" in capsys.readouterr().err


def test_help_shows_the_options_with_examples(run, capsys):
    assert call("stream", "--help") == 0
    printed = capsys.readouterr().out
    assert "longwave stream runs/fsdd-seed0 --wav long.wav" in printed
    assert "Forecast a series as its rows arrive" in printed
    assert call("stream", str(run), "--help") == 0
    assert "--latency" in capsys.readouterr().out


# What people see on a terminal


def test_a_terminal_gets_short_lines(run, monkeypatch, capsys):
    Path("rows.csv").write_text("v\n4\n5\n")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert call("stream", str(run), "--csv", "rows.csv") == 0
    first, second = capsys.readouterr().out.splitlines()
    for text, chances in zip((first, second), expected(run, np.array([[4.0], [5]]), [1, 2]), strict=True):
        falling, rising = f"falling {chances[0]:.3f}", f"rising {chances[1]:.3f}"
        pair = f"{falling}  {rising}" if chances[0] > chances[1] else f"{rising}  {falling}"
        assert text == f"row {1 if text is first else 2}       {pair}"
    assert call("stream", str(run), "--csv", "rows.csv", "--jsonl") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["row"] == 1


def test_a_short_line_has_both_ends_of_a_forecast_and_what_fits():
    values = [0.1 * k + 100 / 3 for k in range(24)]
    row = {"time": "2024-01-01 23:00:00", "forecast": {"price": values}}
    assert short_line(row, 80) == "2024-01-01 23:00:00  price +1 33.33 +2 33.43 ... +24 35.63"
    row["forecast"] |= {"load": values, "heat": values}
    two = "2024-01-01 23:00:00  price +1 33.33 ... +24 35.63  load +1 33.33 ... +24 35.63"
    assert short_line(row, 90) == f"{two}  ..."
    assert short_line(row, 120) == f"{two}  heat +1 33.33 ... +24 35.63"
    row["forecast"] = {"price": values[:3]}
    assert short_line(row, 20) == "2024-01-01 23:00:00  price +1 33.33 +2 33.43 +3 33.53"
    row = {"time": 1.5, "label": "b", "probabilities": {"a": 0.25, "b": 0.70001, "c": 0.04999}}
    assert short_line(row, 80) == "    1.50 s  b 0.700  a 0.250  c 0.050"
    assert short_line(row, 30) == "    1.50 s  b 0.700  ..."


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1 / 3, "0.3333"), (-12.3456, "-12.35"), (101325.4, "101325"), (0.00012, "0.0001200"), (2e-9, "2e-09")],
)
def test_short_numbers_have_four_digits_and_their_whole_part(value, text):
    assert short_number(value) == text
