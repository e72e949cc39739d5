"""Classification of tokens: vocabulary, ends, padding, splits, what a run says of its data."""

import dataclasses

import numpy as np
import pytest
import torch
from mixer_settings import sequence_config
from token_files import write_listops, write_reviews

from longwave.io.download import making
from longwave.io.download.catalogue import MissingData
from longwave.models import SequenceModel
from longwave.tasks.base import batches, call
from longwave.tasks.tokens import listops
from longwave.tasks.tokens.data import SPECIAL, Vocabulary
from longwave.tasks.tokens.task import TokensConfig, TokenSplit

REVIEWS = TokensConfig("imdb", length=40, min_count=2)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_reviews(folder)
    write_listops(folder)
    return folder


@pytest.fixture
def film(data):
    return REVIEWS.build(data)


def texts(task, split):
    """The rows of a split as text, without padding."""
    batch = split.batch(range(len(split)))
    return [
        task.kind.separator.join(task.vocabulary.decode(row[:length].tolist()))
        for row, length in zip(batch["x"], batch["lengths"], strict=True)
    ]


def test_random_tokens_are_of_full_length_and_the_published_vocabulary(data):
    """18 tokens for ListOps, as its files have, and 134 for reviews, as was measured (docs: long-range-arena)."""
    for name, length, size in (("listops", 2048, 18), ("imdb", 30, 134)):
        config = TokensConfig(name, length=length)
        task = config.on_random_data(rows=7)
        batch = task.train.batch(range(7))
        assert (tuple(batch["x"].shape), task.spec.vocabulary, task.spec.longest) == ((7, length), size, length)
        assert batch["lengths"].tolist() == [length] * 7
        assert batch["x"].max() < size
        assert task.spec.output_size == len(task.inputs.classes)
        assert torch.equal(batch["x"], config.on_random_data(rows=7).train.batch(range(7))["x"])
    assert config.on_random_data(rows=7, seed=1).train.values.tolist() != task.train.values.tolist()
    real = TokensConfig("listops", length=2048).build(data).spec
    random = TokensConfig("listops", length=2048).on_random_data(rows=7).spec
    assert dataclasses.replace(real, longest=2048) == random


# Batches


def test_rows_are_cut_end_with_eos_and_are_padded_to_the_longest_of_the_batch():
    split = TokenSplit.of(np.array([5, 6, 7, 8, 9], np.uint8), np.array([3, 0, 2]), np.array([1, 0, 1]))
    batch = split.batch([2, 0])
    assert batch["x"].tolist() == [[8, 9, 2, 0], [5, 6, 7, 2]]
    assert batch["lengths"].tolist() == [3, 4]
    assert batch["y"].tolist() == [1, 1]
    assert batch["x"].dtype == torch.int64
    assert split.batch([1])["x"].tolist() == [[2]]
    assert split.chosen(np.array([2])).batch([0])["x"].tolist() == [[8, 9, 2]]


def test_reviews_are_characters_cut_to_the_length_with_their_end(film, data):
    found = texts(film, film.test)
    assert film.test.lengths.max() == 40
    paths = [data / "aclImdb" / "test" / name / f"{k}_{k % 5}.txt" for name in ("neg", "pos") for k in range(12)]
    assert found == [f"{path.read_bytes().decode()[:39]}<eos>" for path in paths]
    assert len(film.test) == 24


def test_rare_characters_are_unknown_and_the_cut_texts_are_counted(data):
    """U+0085 ends reviews, of which the longer ones are cut."""
    assert "\u0085" in TokensConfig("imdb", length=400).build(data).vocabulary.tokens
    assert "\u0085" not in TokensConfig("imdb", length=10).build(data).vocabulary.tokens
    rare = TokensConfig("imdb", length=400, min_count=13).build(data)
    assert "\u0085" not in rare.vocabulary.tokens
    assert any(text.endswith("<unk><eos>") for text in texts(rare, rare.test))


def test_listops_has_the_tokens_of_the_benchmark_and_the_published_splits(data):
    task = TokensConfig("listops").build(data)
    assert task.vocabulary.tokens[:3] == SPECIAL
    assert set(task.vocabulary.tokens[3:]) == set(listops.TOKENS)
    assert task.vocabulary.size == 18
    assert [len(split) for split in (task.train, task.valid, task.test)] == [192, 4, 4]
    first = (data / "listops-1000" / "basic_val.tsv").read_text().splitlines()[1]
    source, target = first.split("\t")
    assert texts(task, task.valid)[0] == f"{' '.join(listops.pieces(source))} <eos>"
    assert task.valid.labels[0] == int(target)


# Splits, and what is said of them


def test_a_tenth_of_the_reviews_is_held_out_and_the_run_says_so(film, data):
    assert [len(split) for split in (film.train, film.valid, film.test)] == [22, 2, 24]
    (note,) = (note for note in film.notes if "validated" in note)
    assert note.startswith("validated on 2 examples held out from the training set (seed 42)")
    both = sorted(film.train.starts.tolist() + film.valid.starts.tolist())
    assert both == sorted({*both})
    other = dataclasses.replace(REVIEWS, split_seed=1).build(data)
    assert other.valid.starts.tolist() != film.valid.starts.tolist()
    assert other.vocabulary == film.vocabulary
    assert film.describe()["notes"] == list(film.notes)


def test_validation_on_the_test_set_is_the_habit_of_the_benchmark_and_said(data):
    task = dataclasses.replace(REVIEWS, validation="test").build(data)
    assert [len(split) for split in (task.train, task.valid, task.test)] == [24, 24, 24]
    assert task.valid is task.test
    assert any(note.startswith("validated on the test set, as in the benchmark") for note in task.notes)


def test_listops_brings_its_own_validation_set(data):
    with pytest.raises(ValueError, match="validation: listops has a validation set of its own"):
        TokensConfig("listops", validation="test").build(data)


def test_a_small_listops_is_noted(data):
    assert any("listops was made with 200 examples" in note for note in TokensConfig("listops").build(data).notes)


def test_missing_sets_are_named_with_the_command_that_brings_them(tmp_path):
    with pytest.raises(MissingData, match=f"longwave data make listops --data-dir {tmp_path}"):
        TokensConfig("listops").build(tmp_path)
    with pytest.raises(MissingData, match=f"longwave data get imdb --data-dir {tmp_path}"):
        TokensConfig("imdb").build(tmp_path)


def test_a_class_that_cannot_be_learnt_is_refused(tmp_path):
    making.make("listops", tmp_path, count=5)
    with pytest.raises(ValueError, match=r"it cannot be learnt: .* or take more examples"):
        TokensConfig("listops").build(tmp_path)


@pytest.mark.parametrize("setting", [{"length": 1}, {"min_count": 0}, {"split_seed": -1}])
def test_settings_that_make_no_sense_are_refused(setting):
    with pytest.raises(ValueError, match=f"{next(iter(setting))}: expected at least"):
        TokensConfig(**setting)


def test_other_texts_have_another_digest(data, tmp_path, film):
    assert REVIEWS.build(data).fingerprint == film.fingerprint
    folder = write_reviews(tmp_path)
    (folder / "test" / "pos" / "0_0.txt").write_text("a fine film")
    assert REVIEWS.build(tmp_path).fingerprint["digest"] != film.fingerprint["digest"]


# Models


@pytest.fixture
def model(film):
    config = sequence_config(d_model=8, n_layers=2, norm="batch", bidirectional=True)
    return SequenceModel(config.resolve(film.spec)).eval()


def test_a_model_has_an_embedding_for_each_token(film, model):
    assert model.encoder.values.weight.shape == (film.vocabulary.size, 8)
    assert film.spec.output_size == 2


def test_padding_has_no_effect(film, model):
    alone = torch.cat([call(model, film.test.batch([k])) for k in range(len(film.test))])
    together = call(model, film.test.batch(range(len(film.test))))
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    batch = film.test.batch(range(4))
    torch.testing.assert_close(
        call(model, {**batch, "x": torch.nn.functional.pad(batch["x"], (0, 9), value=3)}),
        call(model, batch),
        rtol=1e-4,
        atol=1e-5,
    )


def test_every_row_is_scored(film, model):
    sums = [film.outcome(model, batch).scores["accuracy"] for batch in batches(film.test, 7)]
    assert sum(count for _, count in sums) == len(film.test) == 24


def test_the_class_prior_is_the_baseline(data):
    task = TokensConfig("listops").build(data)
    train = np.bincount(task.train.labels, minlength=10)
    expected = float(np.mean(task.test.labels == train.argmax()))
    scores = task.baselines()["class prior"]["test"]
    assert scores["accuracy"] == expected
    assert scores["loss"] == pytest.approx(float(-np.log(train / train.sum())[task.test.labels].mean()))


# New texts


def test_new_texts_are_read_as_those_of_training(data, film):
    paths = [data / "aclImdb" / "test" / name / f"{k}_{k % 5}.txt" for name in ("neg", "pos") for k in range(12)]
    split, notes = REVIEWS.arrange([path.read_bytes().decode() for path in paths], film.vocabulary)
    assert torch.equal(split.batch(range(24))["x"], film.test.batch(range(24))["x"])
    assert notes == ["texts cut to 39 characters, as in training: 18"]
    _, notes = REVIEWS.arrange(["a ☃ and a 雪"], film.vocabulary)
    assert notes == ["not in the vocabulary, read as <unk>: '☃', '雪'"]


def test_expressions_may_be_written_with_or_without_parentheses():
    vocabulary = Vocabulary((*SPECIAL, *listops.TOKENS))
    split, notes = TokensConfig("listops").arrange(["[MAX 3 4 ]", "( ( ( [MAX 3 ) 4 ) ] )"], vocabulary)
    rows = split.batch([0, 1])["x"]
    assert rows[0].tolist() == rows[1].tolist()
    assert vocabulary.decode(rows[0].tolist()) == ["[MAX", "3", "4", "X", "<eos>"]
    assert notes == []


def test_an_empty_text_is_refused(film):
    with pytest.raises(ValueError, match="text 1: expected at least one character, got none"):
        REVIEWS.arrange(["good", ""], film.vocabulary)
