"""Audio as a person meets it: from a folder of clips to labels of new ones."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from audio_files import KINDS, sound, write, write_clips, write_fsdd, write_speech_commands
from command import call
from trained import TINY

from longwave.runs import load_run
from longwave.tasks.audio.predict import classify, score

FAST = ["--optim.lr", "0.03", "--optim.warmup", "0", "--loop.batch-size", "8"]
SMALL = [*TINY, *FAST]


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def run(trained_runs):
    return trained_runs.fetch("audio")


def test_a_folder_of_clips_is_trained_scored_and_labels_follow(run, capsys):
    assert "class prior" in run
    assert "ridge on MFCC" in run
    result = json.loads(Path("run/result.json").read_text())
    assert result["test"]["accuracy"] >= 0.5
    assert call("evaluate", "run") == 0
    assert capsys.readouterr().out == "".join(f"test {k} {v:.6f}\n" for k, v in result["test"].items())

    write(Path("new/deep/a.flac"), np.stack([sound("noise", 200, 16000)] * 2, axis=1), 16000)
    write(Path("new/b.wav"), sound("tone", 130), 8000, "FLOAT")
    Path("new/c.wav").write_bytes(b"")
    assert call("predict", "run", "--folder", "new", "--out", "labels.csv") == 0
    shown = capsys.readouterr().out
    assert "note: 1 of 3 files cannot be used and were skipped: c.wav: the file is empty" in shown
    assert "note: clips resampled to 8,000 Hz: 1 from 16,000 Hz" in shown
    assert shown.endswith("2 rows: labels.csv\n")
    found = rows_of("labels.csv")
    assert [row["file"] for row in found] == ["b.wav", "deep/a.flac"]
    for row in found:
        shares = [float(row[f"p_{kind}"]) for kind in KINDS]
        assert sum(shares) == pytest.approx(1, abs=1e-5)
        assert row["label"] == KINDS[int(np.argmax(shares))]

    Path("new/list.csv").write_text("file\nb.wav\ndeep/a.flac\n")
    assert call("predict", "run", "--csv", "new/list.csv", "--out", "again.csv") == 0
    assert rows_of("again.csv") == found
    again = classify(load_run("run"), folder="new")
    assert (again.files, again.labels) == (("b.wav", "deep/a.flac"), [row["label"] for row in found])


def test_a_run_resumes_on_its_clips_and_refuses_others(run, capsys):
    before = json.loads(Path("run/result.json").read_text())["test"]
    assert call("train", "--resume", "run", "--quiet") == 0
    assert json.loads(Path("run/result.json").read_text())["test"] == before
    write(Path("clips/tone/2.wav"), sound("noise", 100))
    assert call("evaluate", "run") == 2
    assert "the data is not what the run was trained on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--folder", "nowhere"], "--folder: nowhere: no such folder"),
        ([], "audio: expected either --folder FOLDER or --csv FILE, got neither"),
        (["--folder", "empty"], "empty: expected files that end in .wav, .flac, .ogg, .oga, got none"),
        (["--folder", "bad"], "bad: 3 of 3 files cannot be used: a/0.wav: the file is empty"),
        (["--folder", "one"], "one: expected at least two classes, got only 'a'"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_before_anything_is_written(arguments, message, capsys):
    Path("empty").mkdir()
    for k in range(3):
        Path("bad/a").mkdir(parents=True, exist_ok=True)
        Path(f"bad/a/{k}.wav").write_bytes(b"")
        write(Path(f"one/a/{k}.wav"), sound("noise", 50))
    assert call("train", "audio", *arguments, *SMALL, "--out", "run") == 2
    assert message in capsys.readouterr().err
    assert not Path("run").exists()


def test_predict_wants_one_source_and_another_file_to_write_to(run, capsys):
    for arguments in ([], ["--folder", "clips", "--csv", "x.csv"]):
        Path("x.csv").write_text("file\n")
        assert call("predict", "run", *arguments) == 2
        assert "classifies audio: expected either --folder FOLDER or --csv FILE" in capsys.readouterr().err
    assert call("predict", "run", "--csv", "x.csv", "--out", "x.csv") == 2
    assert "--out: x.csv is also --csv" in capsys.readouterr().err


def test_digits_train_and_label_clips_of_another_rate(capsys):
    write_fsdd(Path("data"))
    assert call("train", "fsdd", *SMALL, "--task.valid-takes", "1", "--out", "run") == 0
    write(Path("new/a.wav"), sound("tone", 600, 16000), 16000)
    assert call("predict", "run", "--folder", "new") == 0
    assert [row["file"] for row in rows_of("labels.csv")] == ["a.wav"]


@pytest.mark.parametrize("name", ["sc10-raw-cnn-small", "sc10-mfcc-small"])
def test_words_divided_anew_say_so_and_label_clips_of_any_length(name, capsys):
    write_speech_commands(Path("data"), ("yes", "no", "up"), speakers=4)
    cnn = ["--model.width", "2", "--model.n-layers", "3", "--loop.epochs", "1"]
    sizes = cnn if "cnn" in name else [value for value in TINY if value != "--quiet"]
    assert call("train", name, "--task.resplit", "speaker", *sizes, *FAST, "--out", "run") == 0
    shown = capsys.readouterr()
    note = "12 of the 34,975 clips of sc10 are resplit by speaker: this score is not comparable with the paper's"
    assert note in shown.out + shown.err
    assert "the paper)" not in shown.out
    assert note.replace("'", "&#x27;") in Path("run/report.html").read_text()
    assert Path("run/positions.npz").exists() == ("raw" in name)
    write(Path("new/a.wav"), sound("tone", 4000, 8000), 8000)
    write(Path("new/b.wav"), sound("tone", 20000, 16000), 16000)
    Path("new/c.wav").write_bytes(b"RIFF")
    assert call("predict", "run", "--folder", "new") == 0
    printed = capsys.readouterr().out
    assert "clips padded with zeros or cut to one second, as in training: 2" in printed
    assert "1 of 3 files cannot be used and were skipped: c.wav" in printed
    assert len(rows_of("labels.csv")) == 2


def test_files_are_scored_as_they_were_recorded_and_dt_follows(run, capsys):
    """What predict says of the files, counted; beside it, the same files resampled to the rate of training."""
    for k, kind in enumerate(KINDS * 4):
        write(Path(f"slow/{kind}/{k}.wav"), sound(kind, 80 + k, 4000, seed=k), 4000)
    assert call("evaluate", "run", "--folder", "slow", "--sampling-rate", "4000") == 0
    shown, notes = capsys.readouterr()
    assert "note: clips resampled to 8,000 Hz: 12 from 4,000 Hz" in notes
    for hertz, dt in ((8000, "as in training"), (4000, "2 times")):
        labels = classify(load_run("run"), folder="slow", sampling_rate=hertz)
        right = np.mean([name.split("/")[0] == label for name, label in zip(labels.files, labels.labels, strict=True)])
        scores, _ = score(load_run("run"), folder="slow", sampling_rate=hertz)
        assert scores["accuracy"] == right
        assert re.search(rf"{hertz:,} Hz │ {dt} +│ +{right:.4f} │ +{scores['loss']:.4f} ", shown)
    rows = [f"{kind}/{k}.wav,{kind}" for k, kind in enumerate(KINDS * 4)]
    Path("slow/list.csv").write_text("\n".join(["file,label", *rows]) + "\n")
    in_another_order, _ = score(load_run("run"), csv="slow/list.csv", sampling_rate=4000)
    assert in_another_order == pytest.approx(scores)
    assert call("predict", "run", "--folder", "slow", "--sampling-rate", "4000") == 0
    found = {row["file"]: row["label"] for row in rows_of("labels.csv")}
    assert found == dict(zip(labels.files, labels.labels, strict=True))


def test_a_sampling_rate_in_hertz_is_a_rate_with_a_filter(run, capsys):
    assert call("evaluate", "run", "--sampling-rate", "4000") == 0
    by_hertz = capsys.readouterr().out
    assert call("evaluate", "run", "--rate", "2", "--antialias") == 0
    assert capsys.readouterr().out == by_hertz
    assert "1 in 2, filtered" in by_hertz


def test_mistakes_in_scoring_files_are_named(run, trained_runs, capsys):
    write(Path("odd/bell/a.wav"), sound("tone", 100))
    for arguments, message in (
        (["--folder", "odd"], "odd: expected the classes of training, chirp, noise, tone; got bell"),
        (["--folder", "clips", "--rate", "2"], "--folder: cannot be combined with --rate or --rates"),
        (["--folder", "clips", "--sampling-rate", "-3"], "sampling_rate: expected a number of Hz above 0, got -3"),
        (["--folder", "clips", "--sampling-rate", "9"], "expected one from 1/64 to 64 times the 8,000 Hz of training"),
        (["--sampling-rate", "0"], "rate: expected a number from 1/64 to 64"),
        (["--folder", "clips", "--csv", "a.csv"], "expected either --folder FOLDER or --csv FILE"),
    ):
        assert call("evaluate", "run", *arguments) == 2
        assert message in capsys.readouterr().err
    trained_runs.fetch("causal")
    assert call("evaluate", "run", "--sampling-rate", "4000") == 2
    assert "was not trained on audio" in capsys.readouterr().err


def test_evaluate_repeats_what_was_noted_of_the_data(capsys):
    write_clips(Path("clips"), 45)
    Path("clips/readme.txt").write_text("recorded in the rain")
    assert call("train", "audio", "--folder", "clips", *SMALL, "--out", "run") == 0
    capsys.readouterr()
    assert call("evaluate", "run") == 0
    assert "note: files skipped because" in capsys.readouterr().err
