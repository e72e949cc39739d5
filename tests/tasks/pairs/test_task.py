"""Pairs of documents: batches, vocabulary, baselines, what a run says of its data, new pairs."""

import dataclasses

import numpy as np
import pytest
import torch
from pair_files import TEXTS, pair_config, write_aan, write_synthetic
from tiny import assert_resumes_to_the_bit

from longwave.io.download import making
from longwave.io.download.catalogue import MissingData
from longwave.tasks.base import batches
from longwave.tasks.pairs.task import PairsConfig, PairSplit, cosines, similarity_scores
from longwave.tasks.tokens.task import TokenSplit

PAPERS = PairsConfig("aan", length=30)
SYNTHETIC = PairsConfig("retrieval-synthetic", length=1100)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_aan(folder)
    write_synthetic(folder)
    return folder


@pytest.fixture(scope="module")
def papers(data):
    return PAPERS.build(data)


def shown(task, batch):
    """The texts of a batch, with their ends and without their padding."""
    return [
        tuple("".join(task.vocabulary.decode(row[:length].tolist())) for row, length in zip(pair, lengths, strict=True))
        for pair, lengths in zip(batch["x"], batch["lengths"], strict=True)
    ]


def test_a_batch_has_both_documents_in_a_row_cut_ended_and_padded_to_the_longest(papers):
    batch = papers.test.batch([0, 5, 3])
    assert batch["x"].shape == (3, 2, 30)
    pairs = [(TEXTS[0], TEXTS[0]), (TEXTS[1], TEXTS[2]), (TEXTS[3], TEXTS[3])]
    assert shown(papers, batch) == [tuple(repr(text.encode())[:29] + "<eos>" for text in pair) for pair in pairs]
    assert batch["y"].tolist() == [1, 0, 1]
    for pair, lengths in zip(batch["x"], batch["lengths"], strict=True):
        for row, length in zip(pair, lengths, strict=True):
            assert (row[length:] == 0).all()
    np.testing.assert_array_equal(papers.test.lengths[[0, 5, 3]], batch["lengths"].max(1).values)
    assert papers.test.batch([3])["x"].shape == (1, 2, 5)  # b'b' and its end


def test_the_vocabulary_is_that_of_the_training_pairs_the_most_frequent_first(papers):
    texts = [repr(TEXTS[(k + step) % 4].encode())[:29] for k in range(24) for step in (0, (k // 4) % 2)]
    every = "".join(texts)
    expected = sorted(set(every), key=lambda c: (-every.count(c), c))
    assert list(papers.vocabulary.tokens) == ["<pad>", "<unk>", "<eos>", *expected]


def test_rare_characters_are_unknown(data):
    task = dataclasses.replace(PAPERS, min_count=40).build(data)
    assert 3 < task.vocabulary.size < PAPERS.build(data).vocabulary.size
    assert "<unk>" in shown(task, task.test.batch([2]))[0][0]


def test_literals_are_decoded_if_asked_for(data):
    task = dataclasses.replace(PAPERS, decode=True).build(data)
    assert shown(task, task.test.batch([0]))[0] == (TEXTS[0] + "<eos>",) * 2
    assert task.fingerprint["digest"] != PAPERS.build(data).fingerprint["digest"]


def test_a_task_says_what_it_is(papers, data):
    spec = papers.spec
    assert (spec.output_size, spec.vocabulary, spec.decoders) == (2, papers.vocabulary.size, ("pair",))
    assert (papers.goal, papers.paper, papers.inputs.classes) == (
        "accuracy",
        {"accuracy": 0.909},
        ("unrelated", "related"),
    )
    assert papers.describe()["examples"] == {"train": 24, "valid": 24, "test": 24}


def test_the_synthetic_set_is_called_so_and_has_no_figure_of_the_paper(data):
    task = SYNTHETIC.build(data)
    assert task.name == "retrieval-synthetic"
    assert task.paper == {}
    assert task.notes[0].startswith("synthetic pairs of random texts, a stand-in for Retrieval (AAN)")
    assert any("was made with 60 examples" in note for note in task.notes)
    assert task.vocabulary.size == 3 + 27 + 1  # letters and space, and the quote of b'...'


def test_missing_sets_are_named_with_what_brings_them(tmp_path):
    with pytest.raises(MissingData, match="longwave does not download it"):
        PAPERS.build(tmp_path)
    with pytest.raises(MissingData, match=f"longwave data make retrieval-synthetic --data-dir {tmp_path}"):
        SYNTHETIC.build(tmp_path)


@pytest.mark.parametrize("setting", [{"length": 1}, {"min_count": 0}])
def test_settings_that_make_no_sense_are_refused(setting):
    with pytest.raises(ValueError, match=f"{next(iter(setting))}: expected at least"):
        PairsConfig(**setting)


# Scores


def test_every_pair_is_scored(papers):
    class Model:
        def __call__(self, x, **_):
            return torch.zeros(len(x), 2), None

    sums = [papers.outcome(Model(), batch).scores["accuracy"] for batch in batches(papers.test, 7)]
    assert sum(count for _, count in sums) == len(papers.test) == 24


def split_of(pairs, labels):
    """Pairs of rows of tokens, each document once."""
    rows = [row for pair in pairs for row in pair]
    lengths = np.array([len(row) for row in rows])
    documents = TokenSplit.of(np.array([t for row in rows for t in row]), lengths, np.zeros(len(rows), np.int64))
    return PairSplit(documents, np.arange(len(rows)).reshape(-1, 2), np.array(labels))


def test_the_cosine_is_that_of_the_counts():
    split = split_of([([3, 4, 3, 5], [4, 3, 5]), ([3], [4])], [1, 0])
    np.testing.assert_allclose(cosines(split, np.array([0, 1]), 1, 6), [4 / np.sqrt(6 * 3), 0])
    np.testing.assert_allclose(cosines(split, np.array([0, 1]), 2, 6), [2 / np.sqrt(3 * 2), 0])


def test_a_large_vocabulary_is_counted_in_little_memory():
    split = split_of([([3, 40_000, 7], [40_000, 7, 3])], [1])
    np.testing.assert_allclose(cosines(split, np.array([0]), 2, 50_000), [0.5])


@pytest.mark.parametrize("order", [1, 2])
def test_the_threshold_is_the_best_of_the_training_pairs(order):
    generator = np.random.default_rng(0)
    pairs = [tuple(generator.integers(3, 6, 5).tolist() for _ in range(2)) for _ in range(60)]  # many are equally alike
    labels = generator.integers(0, 2, 60)
    split = split_of(pairs, labels)
    cosine = cosines(split, np.arange(60), order, 6)
    assert len(np.unique(cosine)) < 60
    best = max(np.mean((cosine > edge) == labels) for edge in (-np.inf, *cosine))
    assert similarity_scores(split, {"test": split}, order)["test"]["accuracy"] == pytest.approx(best)


def test_neighbours_tell_synthetic_topics_apart_and_characters_do_not(tmp_path):
    write_synthetic(tmp_path, count=1000)
    scores = SYNTHETIC.build(tmp_path).baselines()
    assert scores["class prior"]["test"]["accuracy"] == 0.5
    assert abs(scores["characters alike"]["test"]["accuracy"] - 0.5) < 0.2  # 4 deviations of 100 pairs
    assert scores["neighbours alike"]["test"]["accuracy"] > 0.85


# New pairs


def test_new_pairs_are_read_as_those_of_training(papers):
    new = [(TEXTS[1], TEXTS[2]), (repr(TEXTS[1].encode()), TEXTS[2])]
    split, notes = PAPERS.arrange(new, papers.vocabulary)
    assert torch.equal(split.batch([0])["x"], papers.test.batch([5])["x"])
    assert torch.equal(split.batch([1])["x"], split.batch([0])["x"])
    assert notes == ["texts cut to 29 characters, as in training: 2"]
    _, notes = PAPERS.arrange([("b#", "b")], papers.vocabulary)
    assert notes == ["not in the vocabulary, read as <unk>: '#'"]
    with pytest.raises(ValueError, match="pair 1: expected two texts, got an empty one"):
        PAPERS.arrange([("a", "b"), ("a", "")], papers.vocabulary)


# Training


def test_a_run_on_pairs_of_similar_length_resumes_to_the_bit(data, tmp_path):
    task = dataclasses.replace(PAPERS, length=40).build(data)
    assert_resumes_to_the_bit(tmp_path, task, kind=pair_config(d_model=4, n_layers=1), bucket=2)


def test_parts_of_a_batch_have_the_gradient_of_the_whole(papers):
    model = pair_config(norm="layer").resolve(papers.spec).build()
    batch = papers.train.batch(range(6))

    def gradient(parts):
        model.zero_grad()
        for rows in parts:
            papers.outcome(model, {name: values[rows] for name, values in batch.items()}).loss.backward()
        return torch.cat([p.grad.flatten() for p in model.parameters()])

    whole = gradient([slice(0, 6)])
    torch.testing.assert_close(gradient([slice(0, 2), slice(2, 6)]), whole, rtol=1e-4, atol=1e-5)


def test_random_data_has_the_shapes_of_the_real_task(tmp_path):
    config = PairsConfig("aan", length=50)
    task = config.on_random_data(rows=3)
    batch = task.train.batch(range(3))
    assert (tuple(batch["x"].shape), batch["lengths"].tolist()) == ((3, 2, 50), [[50, 50]] * 3)
    assert task.spec.vocabulary == 98
    assert torch.equal(batch["x"], config.on_random_data(rows=3).train.batch(range(3))["x"])
    making.make("retrieval-synthetic", tmp_path, count=300)
    synthetic = PairsConfig("retrieval-synthetic", length=1100)
    assert synthetic.on_random_data(rows=1).spec.vocabulary == synthetic.build(tmp_path).spec.vocabulary
