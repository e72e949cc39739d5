"""Text: from bytes and words to tokens and back, the published files, and a file of one's own."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from text_files import LINES, write_wikitext2

from longwave.tasks import download, text
from longwave.tasks.autoregressive import PADDING
from longwave.tasks.text import Bytes, Words

# Tokens


@given(st.text())
def test_bytes_come_back_as_the_text_they_were(written):
    tokens = Bytes().encode(written)
    assert "".join(Bytes().decode(tokens)) == written
    assert all(0 <= token < Bytes.size for token in tokens)


def test_a_character_appears_when_its_last_byte_is_there():
    assert list(Bytes().decode("aé€".encode())) == ["a", "", "é", "", "", "€", ""]


def test_bytes_that_are_no_text_are_replaced_and_not_refused():
    assert "".join(Bytes().decode([0xFF, ord("a"), 0xC3])) == "\ufffda\ufffd"


def test_decoding_asks_for_no_token_before_it_is_wanted():
    asked = []
    tokens = (asked.append(k) or k for k in (65, 66))
    pieces = Bytes().decode(tokens)
    assert next(pieces) == "A"
    assert asked == [65]


def test_words_are_in_the_order_of_their_frequency_and_line_ends_come_first():
    words = Words.of("b a\nb c a\nb\n")
    assert words.words == ("<eos>", "b", "a", "c")
    assert words == Words.of("b\nb a c\na b\n")  # whatever the order of the lines
    assert words.encode("a b\n\nc") == [2, 1, 0, 0, 3]


def test_words_come_back_as_the_text_they_were():
    words, written = Words.of("the sea is wide ."), "the sea\n\nis wide ."
    tokens = words.encode(written)
    assert "".join(words.decode(tokens)) == written
    assert len(list(words.decode(tokens))) == len(tokens)


def test_a_word_that_is_not_known_is_unk_if_there_is_one():
    words = Words.of("a <unk> b")
    assert words.encode("a zebra") == [words.words.index("a"), words.words.index("<unk>")]
    assert words.unknown("a zebra b zebra") == ["zebra"]
    with pytest.raises(ValueError, match="the word 'zebra' is not in the vocabulary, which has no <unk> either"):
        Words.of("a b").encode("a zebra")


def test_words_are_kept_in_a_file(tmp_path):
    words = Words.of("café <unk> a 'b' \u2013 c")
    words.write(tmp_path / "words.txt")
    assert Words.read(tmp_path / "words.txt") == words
    assert [path.name for path in tmp_path.iterdir()] == ["words.txt"]


@pytest.mark.parametrize("content", [None, b"", b"the\n<eos>\n", b"\xff\n"])
def test_a_file_that_is_no_vocabulary_is_refused(content, tmp_path):
    if content is not None:
        (tmp_path / "words.txt").write_bytes(content)
    with pytest.raises(ValueError, match=r"words.txt: expected the words of a run, one a line"):
        Words.read(tmp_path / "words.txt")


# WikiText-2


def test_published_words_are_read_line_by_line(tmp_path):
    write_wikitext2(tmp_path)
    task = text.load("wikitext2", "words", 8, tmp_path)
    assert isinstance(task.codec, Words)
    for part, lines in LINES.items():
        expected = [word for line in lines for word in [*line.split(), "<eos>"]]
        assert [task.codec.words[k] for k in getattr(task, part).tokens] == expected
    assert task.output_size == task.codec.size == len({"<eos>", *" ".join(LINES["train"]).split()})
    assert task.describe()["vocabulary"] == task.output_size
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
    assert (task.output_size, task.unit, task.goal) == (256, "byte", "bits_per_byte")


def test_perplexity_and_bits_follow_from_the_loss(tmp_path):
    write_wikitext2(tmp_path)
    task = text.load("wikitext2", "words", 8, tmp_path)
    scores = task.reported({"loss": 2.0})
    assert scores == {"loss": 2.0, "perplexity": pytest.approx(math.exp(2)), "bits_per_word": 2 / math.log(2)}
    assert task.goal in scores


def test_missing_files_are_named_with_the_command_that_gets_them(tmp_path):
    with pytest.raises(download.MissingData, match="longwave data get wikitext2"):
        text.load("wikitext2", data_dir=tmp_path)
    with pytest.raises(ValueError, match="data: expected wikitext2, got 'wikitext3'"):
        text.load("wikitext3")


def test_a_file_in_another_encoding_is_refused(tmp_path):
    folder = write_wikitext2(tmp_path)
    (folder / "wiki.valid.tokens").write_bytes("café\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"wiki.valid.tokens: expected text in UTF-8, got .* fetch it again"):
        text.load("wikitext2", "words", 8, tmp_path)


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


# One's own


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
        ("none.txt", FileNotFoundError, "none.txt: there is no such file; expected a text"),
        ("", ValueError, "expected a text file, got a folder"),
        ("empty.txt", ValueError, "empty.txt: the file is empty; expected a text"),
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
    except download.MissingData as error:
        pytest.skip(str(error).splitlines()[0])
    assert tuple(task.describe()["tokens"].values()) == tokens
    assert task.output_size == vocabulary
