"""A disk without room: every command that writes names the file, says what to do, and leaves nothing half-written."""

import subprocess
import sys
from pathlib import Path

import pytest
from command import call
from damage import (
    CLASSIFY,
    DRAW_INIT,
    DRAW_NODES,
    IMPORT,
    LABEL,
    MAKE,
    PLAY,
    RESUME,
    ROWS,
    write_authors,
    write_rows,
)
from full_disk import room
from trained import CAUSAL, TINY

SWEEP = ("sweep", "classify", "--npz", "my.npz", *CAUSAL, *TINY, "--set", "optim.lr", "0.001,0.01", "--out", "swept")


@pytest.mark.parametrize("size", [0, 5])
@pytest.mark.parametrize(
    ("run", "command", "file", "advice"),
    [
        ("causal", CLASSIFY, "new/average.npy", "--out"),
        ("causal", LABEL, "out.csv", "--out"),
        ("waveform", PLAY, "out.wav", "--out"),
        ("causal", ROWS, "out.csv", "--out"),
        ("causal", DRAW_INIT, "out.png", "--out"),
        ("causal", DRAW_NODES, "out.png", "--out"),
        ("causal", ("plot", "basis", "--d-state", "4", "--out", "out.png"), "out.png", "--out"),
        ("causal", ("publish", "run", "me/mine", "--preview", "out"), "/model.safetensors", "--preview"),
        ("causal", IMPORT, "/model.safetensors", "--out"),
        ("causal", (*MAKE, "listops"), "/made.json", "--data-dir"),
        ("causal", SWEEP, "swept/sweep.json", "--out"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else None,
)
def test_a_full_disk_is_an_error_that_names_the_file_and_leaves_nothing(
    run, command, file, advice, size, trained_runs, capsys
):
    trained_runs.fetch(run)
    write_rows()
    write_authors()
    before = {path for path in Path().rglob("*") if path.is_file()}
    with room(size):
        assert call(*command) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("longwave: error: [Errno 27] File too large: '")
    assert said.endswith(f"{file}'; make room, or choose another place with {advice}")
    assert {path for path in Path().rglob("*") if path.is_file()} == before


def test_a_full_disk_during_training_says_how_to_resume(trained_runs, capsys):
    trained_runs.fetch("causal")
    Path("run/checkpoints/last.ckpt").unlink()  # so that there is something left to train
    with room(100):
        assert call(*RESUME) == 2
    cure = "; make room, then resume from the last checkpoint with:\n  longwave train --resume run\n"
    assert cure in capsys.readouterr().err
    assert list(Path("run").rglob("*.part")) == []
    assert not Path("run/.lock").exists()


def test_a_full_disk_during_a_sweep_says_how_to_resume_the_sweep(trained_runs, capsys):
    trained_runs.fetch("sweep")
    for path in Path("swept").glob("*/result.json"):
        path.unlink()
    with room(100):
        assert call("sweep", "--resume", "swept", "--quiet") == 2
    assert "; make room, then resume with: longwave sweep --resume swept\n" in capsys.readouterr().err


def test_a_row_that_does_not_fit_is_not_written_by_half(trained_runs, capsys):
    trained_runs.fetch("causal")
    write_rows()
    assert call(*ROWS) == 0
    whole = Path("out.csv").read_text().splitlines(keepends=True)
    with room(len("".join(whole[:3])) + 5):
        assert call(*ROWS) == 2
    assert Path("out.csv").read_text() == "".join(whole[:3])


def test_standard_output_without_room_is_an_error():
    command = [sys.executable, "-m", "longwave", "list"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("longwave: error: [Errno 28] No space left on device; make room")
    assert len(ended.stderr.splitlines()) == 1
