"""Generation as a person meets it: text and digits, from data to the terminal, the picture and the report."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from command import call
from image_files import write_mnist
from text_files import write_wikitext2

from longwave.tasks.images import read_mnist
from longwave.tasks.text import Words
from longwave.train import predict, sample

TINY = ["--model.d-model", "8", "--model.n-layers", "1", "--model.d-state", "4", "--loop.epochs", "1", "--quiet"]


@pytest.fixture
def text_run(capsys):
    Path("my.txt").write_text("abc abd abe. " * 200)
    assert call("train", "text", "--file", "my.txt", "--length", "32", *TINY, "--out", "run") == 0
    return capsys.readouterr().out


@pytest.fixture
def image_run(tmp_path, capsys):
    write_mnist(tmp_path / "data", train=20, test=8)
    assert call("train", "mnist-density-small", *TINY, "--out", "run") == 0
    return capsys.readouterr().out


# Text


def test_a_text_of_ones_own_is_trained_scored_and_shown(text_run, capsys):
    assert re.search(r"LOSS ┃ PERPLEXITY ┃ BITS PER BYTE ┃", text_run)
    assert re.search(r"frequencies alone +│ +\d+\.\d{4} │ +\d+\.\d{4} │", text_run)
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


def test_without_a_seed_one_is_drawn_and_told(text_run, capsys):
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


def test_text_is_made_as_it_is_read(text_run, monkeypatch):
    steps = []
    monkeypatch.setattr(sample, "stream", lambda *_, **__: ((steps.append(k) or 65 + k, None) for k in range(9)))
    pieces = sample.write_text(Path("run"), "x", 9)
    assert [next(pieces) for _ in range(3)] == ["x", "A", "B"]
    assert steps == [0, 1]


def test_what_a_terminal_would_obey_does_not_reach_it(text_run, capsys, monkeypatch):
    monkeypatch.setattr(sample, "write_text", lambda *_, **__: iter(["a\x1b[31m", "\x07", "é\tb\r", "\n", "\x9b"]))
    assert call("generate", "run", "--seed", "0") == 0
    assert capsys.readouterr().out == "a\ufffd[31m\ufffdé\tb\n\ufffd\n"


def test_words_are_kept_with_the_run_and_unknown_ones_are_told(tmp_path, capsys):
    write_wikitext2(tmp_path / "data")
    assert call("train", "wikitext2-words-small", "--task.length", "8", *TINY, "--out", "run") == 0
    assert "BITS PER WORD" in capsys.readouterr().out
    words = Words.read(Path("run/vocabulary.txt"))
    (tmp_path / "data").rename(tmp_path / "gone")  # what is generated needs the run alone
    assert call("generate", "run", "--prompt", "the zebra is", "--length", "6", "--seed", "0") == 0
    made = capsys.readouterr()
    assert "note: read as <unk>, since the run does not know them: zebra" in made.err
    assert made.out.startswith("the <unk> is")
    assert set(made.out.split()) <= set(words.words)
    Path("run/vocabulary.txt").unlink()
    assert call("generate", "run", "--seed", "0") == 2
    assert "vocabulary.txt: expected the words of a run" in capsys.readouterr().err


# Images


def test_images_are_trained_scored_and_shown(image_run):
    assert "BITS PER DIM" in image_run
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "<h2>Samples</h2>" in page
    assert 'alt="completed test images"' in page


def test_samples_are_written_as_a_picture(image_run, capsys, tmp_path):
    (tmp_path / "data").rename(tmp_path / "gone")  # what is drawn from nothing needs no data
    assert call("generate", "run", "--count", "3", "--seed", "0", "--out", "some/digits.png") == 0
    assert capsys.readouterr().out == "picture: some/digits.png\n"
    assert Path("some/digits.png").read_bytes().startswith(b"\x89PNG")
    drawn = sample.draw_images(Path("run"), 3, seed=0)
    assert (drawn.shape, drawn.dtype) == ((3, 28, 28), np.uint8)
    np.testing.assert_array_equal(drawn, sample.draw_images(Path("run"), 3, seed=0))


def test_completions_keep_the_upper_half_of_test_images(image_run, capsys, tmp_path):
    originals, made = sample.complete_images(Path("run"), [5, 2], 3, seed=0)
    (_, _), (test, _) = read_mnist(tmp_path / "data" / "mnist")
    np.testing.assert_array_equal(originals, test[[5, 2], ..., 0])
    assert made.shape == (2, 3, 28, 28)
    for copy in range(3):
        np.testing.assert_array_equal(made[:, copy, :14], originals[:, :14])
    assert (made[:, 0, 14:] != made[:, 1, 14:]).any()
    (tmp_path / "data").rename(tmp_path / "moved")
    assert call("generate", "run", "--complete", "--images", "5", "2", "--seed", "0", "--data-dir", "moved") == 0
    assert capsys.readouterr().out == "picture: completions.png\n"


# Mistakes


def test_a_mistake_is_refused(text_run, capsys):
    for arguments, hint in (
        (["--complete"], "run is a run on text: expected --prompt and --length, and no --complete"),
        (["--out", "a.png"], "and no --out"),
        (["--temperature", "-1"], "temperature: expected a finite number from 0"),
        (["--top-k", "0"], "top_k: expected a whole number, at least 1"),
        (["--top-p", "2"], "top_p: expected a probability above 0 and up to 1"),
        (["--length", "0"], "length: expected a whole number of tokens, at least 1, got 0"),
        (["--count", "0"], "count: expected at least 1, got 0"),
    ):
        assert call("generate", "run", *arguments) == 2
        captured = capsys.readouterr()
        assert hint in captured.err
        assert captured.out == ""
    assert call("predict", "run", "--csv", "my.txt") == 2
    assert "run is a run that generates: use longwave generate run" in capsys.readouterr().err
    for use in (predict.forecast, predict.classify):
        with pytest.raises(ValueError, match=r"run: expected a run .* generates"):
            use(Path("run"), None)
    with pytest.raises(ValueError, match="run: expected a run on images, got one on text"):
        sample.draw_images(Path("run"), 1)


def test_a_mistake_with_images_is_refused(image_run, capsys):
    for arguments, hint in (
        (["--prompt", "a"], "run is a run on images: expected --count or --complete, and no --prompt"),
        (["--length", "9"], "and no --length"),
        (["--images", "8"], "images: expected numbers from 0 to 7 of test images, got 8"),
        (["--out", "digits"], "expected a picture ending in one of"),
    ):
        assert call("generate", "run", *arguments) == 2
        assert hint in capsys.readouterr().err
    with pytest.raises(ValueError, match="run: expected a run on text, got one on images"):
        sample.read_codec(Path("run"))


def test_a_run_that_classifies_is_refused(tmp_path, capsys):
    write_mnist(tmp_path / "data", train=20, test=8)
    assert call("train", "smnist-small", *TINY, "--out", "run") == 0
    assert call("generate", "run") == 2
    assert "run: expected a run of text or of images to generate" in capsys.readouterr().err


def test_a_text_that_changed_is_refused(text_run, capsys):
    content = Path("my.txt").read_bytes()
    Path("my.txt").write_bytes(bytes(reversed(content)))
    assert call("evaluate", "run") == 2
    assert "the data is not what the run was trained on" in capsys.readouterr().err


def test_training_on_a_text_that_is_not_there_writes_nothing(capsys):
    for arguments, hint in (
        ([], "text: expected --file FILE"),
        (["--file", "none.txt"], "none.txt: there is no such file"),
    ):
        assert call("train", "text", *arguments, *TINY) == 2
        assert hint in capsys.readouterr().err
    assert not Path("runs").exists()
