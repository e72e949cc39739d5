"""Generation as a person meets it: text and digits, from data to the terminal, the picture and the report."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from command import call
from trained import TINY

from longwave.tasks.text import generate as text
from longwave.tasks.text.codecs import Words


@pytest.fixture
def text_run(trained_runs):
    return trained_runs.fetch("text")


@pytest.fixture
def image_run(trained_runs):
    return trained_runs.fetch("density")


# Text


def test_a_custom_text_is_trained_scored_and_shown(text_run, capsys):
    assert re.search(r"LOSS ┃ PERPLEXITY ┃ BITS PER BYTE ┃", text_run)
    assert re.search(r"unigram +│ +\d+\.\d{4} │ +\d+\.\d{4} │", text_run)
    assert call("evaluate", "run") == 0
    result = json.loads(Path("run/result.json").read_text())
    assert capsys.readouterr().out == "".join(f"test {name} {v:.6f}\n" for name, v in result["test"].items())
    assert result["test"]["perplexity"] == pytest.approx(np.exp(result["test"]["loss"]))
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "<h2>A sample</h2>" in page
    assert '<span class="given">' in page
    assert "validation" in page
    assert not re.search(r"https?://|<script|<link|@import|src=\"(?!data:)", page)


def test_text_goes_on_from_the_prompt_and_the_same_seed_writes_the_same(text_run, capsys):
    arguments = ["generate", "run", "--prompt", "abé", "--length", "40", "--seed", "3"]
    assert call(*arguments) == 0
    first = capsys.readouterr()
    assert first.out.startswith("abé")
    assert first.err == ""
    assert call(*arguments) == 0
    assert capsys.readouterr().out == first.out
    assert call(*arguments[:-1], "4", "--temperature", "1.5", "--top-k", "9", "--top-p", "0.9") == 0
    assert capsys.readouterr().out != first.out


def test_a_text_ends_at_the_stop_byte_and_draws_are_limited(text_run, capsys):
    arguments = ["generate", "run", "--length", "200", "--seed", "3"]
    assert call(*arguments) == 0
    whole = capsys.readouterr().out
    byte = next(c for c in whole[5:] if c.isascii() and c.isprintable())
    assert call(*arguments, "--stop", byte) == 0
    assert capsys.readouterr().out == whole[: whole.index(byte) + 1] + "\n"
    for limit in (["--min-p", "0.5"], ["--repetition-penalty", "1.5"]):
        assert call(*arguments, *limit) == 0
        assert capsys.readouterr().out != whole


def test_without_a_seed_one_is_drawn_and_printed(text_run, capsys):
    assert call("generate", "run", "--length", "30") == 0
    drawn = capsys.readouterr()
    seed = re.fullmatch(r"seed (\d+)\n", drawn.err)[1]
    assert call("generate", "run", "--length", "30", "--seed", seed) == 0
    assert capsys.readouterr().out == drawn.out


def test_several_texts_have_seeds_of_their_own(text_run, capsys):
    assert call("generate", "run", "--length", "20", "--count", "2", "--seed", "5") == 0
    both = capsys.readouterr().out
    alone = []
    for seed in ("5", "6"):
        assert call("generate", "run", "--length", "20", "--seed", seed) == 0
        alone.append(capsys.readouterr().out)
    assert both == f"--- 1 of 2 ---\n{alone[0]}--- 2 of 2 ---\n{alone[1]}"


def test_what_a_terminal_would_obey_does_not_reach_it(text_run, capsys, monkeypatch):
    pieces = ["a\x1b[31m", "\x07", "é\tb\r", "\n", "\x9b"]
    monkeypatch.setattr(text, "continue_text", lambda *_, **__: iter(pieces))
    assert call("generate", "run", "--seed", "0") == 0
    assert capsys.readouterr().out == "a\ufffd[31m\ufffdé\tb\n\ufffd\n"


def test_words_are_kept_with_the_run_and_unknown_ones_are_named(trained_runs, capsys):
    assert "BITS PER WORD" in trained_runs.fetch("words")
    words = Words.from_folder(Path("run"))
    Path("data").rename("gone")  # what is generated needs the run alone
    assert call("generate", "run", "--prompt", "the zebra is", "--length", "6", "--seed", "0") == 0
    made = capsys.readouterr()
    assert "note: not in the vocabulary, read as <unk>: zebra" in made.err
    assert made.out.startswith("the <unk> is")
    assert call("generate", "run", "--prompt", "the sea , is", "--length", "6", "--seed", "0", "--tokenised") == 0
    plain = capsys.readouterr().out
    assert plain.startswith("the sea , is")
    assert set(plain.split()) <= set(words.words)
    assert call("generate", "run", "--prompt", "the sea , is", "--length", "6", "--seed", "0") == 0
    assert capsys.readouterr().out == "".join(words.prose(words.encode(plain)))
    Path("run/vocabulary.txt").unlink()
    assert call("generate", "run", "--seed", "0") == 2
    assert "vocabulary.txt: expected the vocabulary of a run" in capsys.readouterr().err


def test_a_text_is_scored_again_with_the_state_carried_on(text_run, capsys):
    scores = []
    for more in ([], ["--carry-state"]):
        assert call("evaluate", "run", *more) == 0
        scores.append(capsys.readouterr().out.split())
    assert scores[0][::3] == scores[1][::3]
    assert scores[0][2] != scores[1][2]  # the loss
    assert call("evaluate", "run", "--carry-state", "--rate", "2") == 2
    assert "--carry-state: cannot be combined with other sampling rates or files" in capsys.readouterr().err


# Images


def test_images_are_trained_scored_and_shown(image_run, capsys):
    assert "BITS PER DIM" in image_run
    assert call("evaluate", "run", "--carry-state") == 2
    assert "carry_state: the examples of mnist-density do not follow one another" in capsys.readouterr().err
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "<h2>Samples</h2>" in page
    assert 'alt="completed test images"' in page


def test_samples_and_completions_are_written_as_pictures(image_run, capsys):
    Path("data").rename("moved")  # what is drawn from nothing needs no data
    assert call("generate", "run", "--count", "2", "--seed", "0", "--out", "some/digits.png") == 0
    assert capsys.readouterr().out == "picture: some/digits.png\n"
    assert Path("some/digits.png").read_bytes().startswith(b"\x89PNG")
    assert call("generate", "run", "--complete", "--images", "5", "2", "--seed", "0", "--data-dir", "moved") == 0
    assert capsys.readouterr().out == "picture: completions.png\n"


# Mistakes


def test_a_mistake_is_refused(text_run, capsys):
    for arguments, hint in (
        (["--complete"], "Unrecognized options: --complete"),
        (["--out", "a.png"], "Unrecognized options: --out"),
        (["--temperature", "-1"], "temperature: expected a finite number of at least 0"),
        (["--top-k", "0"], "top_k: expected a whole number, at least 1"),
        (["--top-p", "2"], "top_p: expected a probability above 0 and up to 1"),
        (["--min-p", "2"], "min_p: expected a share from 0 to 1"),
        (["--repetition-penalty", "0"], "repetition_penalty: expected a finite number above 0"),
        (["--stop", "ab"], "stop: expected one byte or one word of the vocabulary, got 'ab'"),
        (["--length", "0"], "length: expected a whole number, at least 1, got 0"),
        (["--count", "0"], "count: expected at least 1, got 0"),
        (["--device", "cuda:99"], "device: 'cuda:99' is not available; expected one of auto, cpu"),
    ):
        assert call("generate", "run", *arguments) == 2
        captured = capsys.readouterr()
        assert hint in captured.err
        assert "seed" not in captured.err.replace("--seed", "")  # the error alone
        assert captured.out == ""
    assert call("predict", "run", "--csv", "my.txt") == 2
    assert "run: a run of kind text cannot predict; use longwave generate run" in capsys.readouterr().err


def test_a_mistake_with_images_is_refused(image_run, capsys):
    for arguments, hint in (
        (["--prompt", "a"], "Unrecognized options: --prompt"),
        (["--length", "9"], "Unrecognized options: --length"),
        (["--images", "8"], "images: expected test images from 0 to 7, got 8"),
        (["--count", "0"], "count: expected at least 1, got 0"),
        (["--temperature", "-1"], "temperature: expected a finite number of at least 0"),
        (["--out", "digits"], "expected a picture ending in one of"),
    ):
        assert call("generate", "run", *arguments) == 2
        captured = capsys.readouterr().err
        assert hint in captured
        assert "seed" not in captured.replace("--seed", "")


def test_a_text_that_changed_is_refused(text_run, capsys):
    content = Path("my.txt").read_bytes()
    Path("my.txt").write_bytes(bytes(reversed(content)))
    assert call("evaluate", "run") == 2
    assert "the data is not what the run was trained on" in capsys.readouterr().err


def test_training_on_a_text_that_is_not_there_writes_nothing(capsys):
    for arguments, hint in (
        ([], "text: expected --file FILE"),
        (["--file", "none.txt"], "none.txt: no such file"),
    ):
        assert call("train", "text", *arguments, *TINY) == 2
        assert hint in capsys.readouterr().err
    assert not Path("runs").exists()
