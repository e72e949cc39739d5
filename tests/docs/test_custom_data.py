"""The commands of the page on custom data, run as they stand on it, with small models."""

import io
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from audio_files import sound, write, write_clips, write_tones
from command import call
from dense import ROOT
from matplotlib.figure import Figure

PAGE = (ROOT / "docs" / "custom-data.md").read_text(encoding="utf-8")


def commands(block):
    """The lines of a block, or where it shows output as well, those of longwave after a prompt."""
    after_prompt = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    return [line for line in after_prompt if line.startswith("longwave")] or block.splitlines()


COMMANDS = [line for block in re.findall(r"^```\n(.*?)^```", PAGE, re.S | re.M) for line in commands(block)]
SMALL = ["--model.d-model", "4", "--model.n-layers", "1", "--model.mixer.d-state", "4", "--loop.epochs", "1", "--quiet"]


def write_files():
    """The files that the page speaks of."""
    generator = np.random.default_rng(0)
    hours = np.datetime64("2024-01-01T00", "h") + np.arange(400)
    prices = [f"{hour},{np.sin(k / 4) + 3:.4f}" for k, hour in enumerate(hours)]
    with open("prices.csv", "w") as file:
        file.write("\n".join(["date,price", *prices]) + "\n")
    x = generator.normal(size=(40, 12))
    np.savez("signals.npz", x=x, y=["up", "down"] * 20)
    np.savez("new.npz", x=x[:5])
    np.savez("steps.npz", x=x, y=np.where(x > 0, "above", "below"))
    rows = [",".join([f"{row.sum():.4f}", *(f"{value:.4f}" for value in row)]) for row in x]
    with open("batches.csv", "w") as file:
        file.write("\n".join([",".join(["yield", *(f"t{k}" for k in range(12))]), *rows]) + "\n")
    write_clips(Path("clips"), 12)
    write(Path("new/one.wav"), sound("tone", 100))
    write_tones(Path("music"), 3, length=40, rate=20)  # few samples per second, and few to generate
    with open("notes.txt", "w") as file:
        file.write("The quick brown fox jumps over the lazy dog. " * 60)


def test_there_are_commands_for_every_kind():
    trained = [shlex.split(command)[2] for command in COMMANDS if command.startswith("longwave train")]
    assert trained == ["forecast", "classify", "regress", "tag", "audio", "text", "waveform"]


@pytest.mark.usefixtures("own_folder", "_few_features")
def test_the_commands_of_the_page_run_in_their_order(monkeypatch, capsys):
    monkeypatch.setattr(Figure, "savefig", lambda _, target, **__: isinstance(target, io.BytesIO))
    write_files()
    for command in COMMANDS:
        program, name, *arguments = shlex.split(command)
        assert program == "longwave"
        text = ["--length", "32"] if {"text", "waveform"} & set(arguments[:1]) else []
        assert call(name, *arguments, *(SMALL + text if name == "train" else [])) == 0, (command, capsys.readouterr())
    for written, lines in (
        ("next.csv", 25),
        ("labels.csv", 6),
        ("yields.csv", 41),
        ("tags.csv", 12 * 40 + 1),
        ("sounds.csv", 2),
    ):
        with open(written) as file:
            assert len(file.readlines()) == lines, written
    assert Path("sample.wav").read_bytes().startswith(b"RIFF")
