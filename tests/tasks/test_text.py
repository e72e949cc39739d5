"""Text: the published files byte by byte and word by word, and a custom file."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from text_files import LINES, write_wikitext2

from longwave.data import catalogue
from longwave.data.text import Words
from longwave.tasks import text
from longwave.tasks.autoregressive import PADDING
from longwave.tasks.text import TextConfig

# WikiText-2


def test_published_words_are_read_line_by_line(tmp_path):
    write_wikitext2(tmp_path)
    task = text.load("wikitext2", "words", 8, tmp_path)
    assert isinstance(task.codec, Words)
    for part, lines in LINES.items():
        expected = [word for line in lines for word in [*line.split(), "<eos>"]]
        assert [task.codec.words[k] for k in getattr(task, part).tokens] == expected
    assert task.spec.vocabulary == task.codec.size == len({"<eos>", *" ".join(LINES["train"]).split()})
    assert task.describe()["vocabulary"] == task.spec.vocabulary
    assert (task.unit, task.goal, task.length) == ("word", "bits_per_word", 8)


def test_windows_longer_than_the_text_are_refused(tmp_path):
    write_wikitext2(tmp_path)
    with pytest.raises(ValueError, match=r"length: expected at most half of the .* tokens to train on, got 1,000,000"):
        text.load("wikitext2", length=1_000_000, data_dir=tmp_path)


def test_published_bytes_are_taken_as_they_are(tmp_path):
    folder = write_wikitext2(tmp_path)
    task = text.load("wikitext2", "bytes", 16, tmp_path)
    for part in LINES:
        assert bytes(getattr(task, part).tokens) == (folder / f"wiki.{part}.tokens").read_bytes()
    assert (task.spec.vocabulary, task.unit, task.goal) == (256, "byte", "bits_per_byte")


def test_perplexity_and_bits_follow_from_the_loss(tmp_path):
    write_wikitext2(tmp_path)
    task = text.load("wikitext2", "words", 8, tmp_path)
    scores = task.reported({"loss": 2.0})
    assert scores == {"loss": 2.0, "perplexity": pytest.approx(math.exp(2)), "bits_per_word": 2 / math.log(2)}
    assert task.goal in scores


def test_missing_files_are_named_with_the_command_that_gets_them(tmp_path):
    with pytest.raises(catalogue.MissingData, match="longwave data get wikitext2"):
        text.load("wikitext2", data_dir=tmp_path)
    with pytest.raises(ValueError, match="data: expected wikitext2, got 'wikitext3'"):
        text.load("wikitext3")


# Training windows


def test_each_epoch_cuts_at_other_places_that_follow_from_seed_and_epoch(tmp_path):
    (tmp_path / "my.txt").write_bytes(np.arange(250, dtype=np.uint8).tobytes() * 8)
    task = text.from_file(tmp_path / "my.txt", 50)
    everything = range(len(task.train))
    firsts = set()
    for epoch in range(20):
        split = task.train_at(epoch, seed=1)
        batch = split.batch(everything)
        assert torch.equal(batch["y"], task.train_at(epoch, seed=1).batch(everything)["y"])
        assert (batch["y"] != PADDING).all()  # whole, wherever the first begins
        assert torch.equal(batch["x"][:, 1:], batch["y"][:, :-1])
        firsts.add(int(batch["y"][0, 0]))
    assert len(firsts) > 10
    assert task.train_at(0, seed=1).start != task.train_at(0, seed=2).start
    assert len(task.train) == (1800 - 49) // 50


# Custom text


def test_a_file_is_cut_by_position(tmp_path):
    content = bytes(range(200)) * 10
    (tmp_path / "my.txt").write_bytes(content)
    task = text.from_file(tmp_path / "my.txt", 64)
    assert bytes(task.train.tokens) == content[:1800]
    assert bytes(task.valid.tokens) == content[1800:1900]
    assert bytes(task.test.tokens) == content[1900:]


def test_the_least_that_is_asked_for_is_enough(tmp_path):
    for length in (2, 7, 64):
        path = tmp_path / f"{length}.txt"
        path.write_bytes(b"x")
        with pytest.raises(ValueError, match="expected at least") as error:
            text.from_file(path, length)
        least = int(str(error.value).split("at least ")[1].split(" ")[0].replace(",", ""))
        path.write_bytes(b"x" * least)
        task = text.from_file(path, length)
        assert min(len(task.train), len(task.valid), len(task.test)) >= 1
        path.write_bytes(b"x" * (least - 1))
        with pytest.raises(ValueError, match=f"got {least - 1}; give more text, or shorter windows"):
            text.from_file(path, length)


def test_a_file_that_cannot_be_read_as_text_is_refused(tmp_path):
    (tmp_path / "empty.txt").touch()
    for name, kind, message in (
        ("none.txt", FileNotFoundError, "none.txt: there is no such file; expected a text file"),
        ("", ValueError, "expected a text file, got a folder"),
        ("empty.txt", ValueError, "empty.txt: the file is empty; expected text"),
    ):
        with pytest.raises(kind, match=message):
            text.from_file(tmp_path / name)
    (tmp_path / "my.txt").write_bytes(b"x" * 1000)
    with pytest.raises(ValueError, match="length: expected windows of at least 2 tokens, got 1"):
        text.from_file(tmp_path / "my.txt", 1)


@pytest.mark.parametrize(
    ("level", "tokens", "vocabulary"),
    [("words", (2_088_628, 217_646, 245_569), 33_278), ("bytes", (10_797_148, 1_121_681, 1_256_449), 256)],
)
def test_real_text_has_the_published_sizes(level, tokens, vocabulary):
    folder = os.environ.get("LONGWAVE_DATA")
    if not folder:
        pytest.skip("LONGWAVE_DATA is not set: no real data to read")
    try:
        task = text.load("wikitext2", level, 512, Path(folder))
    except catalogue.MissingData as error:
        pytest.skip(str(error).splitlines()[0])
    assert tuple(task.describe()["tokens"].values()) == tokens
    assert task.spec.vocabulary == vocabulary


# Settings


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (TextConfig(), "text: expected --file FILE, your text, got none"),
        (TextConfig(file=Path("a.txt"), level="words"), "level: a custom text is read by bytes; .* got words"),
        (TextConfig("wikitext2", file=Path("a.txt")), "file: expected none with data wikitext2, got a.txt"),
    ],
)
def test_a_text_has_one_source(config, message):
    with pytest.raises(ValueError, match=message):
        config.build()
