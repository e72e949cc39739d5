"""The synthetic stand-in for Retrieval: equally frequent characters, neighbours that differ, the same files."""

import hashlib

import numpy as np
import pytest
from pair_files import write_synthetic

from longwave.core.progress import SILENT
from longwave.io.download import making
from longwave.tasks.pairs import retrieval, topics

SIZE = len(topics.ALPHABET)


def codes(text):
    places = {int(letter): k for k, letter in enumerate(topics.ALPHABET)}
    return np.array([places[byte] for byte in text.encode()])


def test_the_same_seed_makes_the_same_files_for_ever(tmp_path):
    folder = write_synthetic(tmp_path, count=60)
    content = b"".join((folder / name).read_bytes() for name in topics.FILES.values())
    assert hashlib.sha256(content).hexdigest() == "3e7800bc28ba2d26a109fc304d8f5fd506a8eefc0303c47ee333e87d8ef8d1e5"
    other = making.make("retrieval-synthetic", tmp_path / "other", count=60, seed=1)
    assert (other / topics.FILES["test"]).read_bytes() != (folder / topics.FILES["test"]).read_bytes()


def test_pairs_do_not_depend_on_how_many_are_drawn_at_a_time(monkeypatch):
    def drawn(size):
        monkeypatch.setattr(topics, "DRAWN", size)
        parts = list(topics.pairs(3, 20))
        return np.concatenate([labels for labels, _ in parts]).tolist(), [pair for _, texts in parts for pair in texts]

    assert drawn(7) == drawn(1000)


def test_files_are_those_of_retrieval_and_both_classes_are_equally_frequent(tmp_path):
    folder = write_synthetic(tmp_path, count=60)
    sizes = []
    for name in topics.FILES.values():
        found = retrieval.read(folder / name, 10_000, False, SILENT)
        sizes.append(len(found))
        assert found.labels.mean() == 0.5
        assert len(found.lengths) == 2 * len(found)  # no document is in two pairs
        assert found.lengths.min() >= topics.SHORTEST + 3  # b''
        assert found.lengths.max() <= topics.LONGEST + 3
    assert sizes == [48, 6, 6]


def test_every_character_has_one_that_follows_and_all_form_one_cycle():
    follower = topics.followers(0)
    assert follower.shape == (topics.TOPICS, SIZE)
    assert len(np.unique(follower, axis=0)) == topics.TOPICS
    for row in follower:
        seen, place = set(), 0
        while place not in seen:
            seen.add(place)
            place = int(row[place])
        assert len(seen) == SIZE


def test_topics_have_the_same_characters_and_other_neighbours():
    """300,000 characters of each topic: shares of single ones within 5 deviations of even, of followers as they should.

    The deviation of a character's share is a little above that of independent ones, 0.00034.
    """
    follower = topics.followers(0)
    for topic in range(topics.TOPICS):
        texts = topics.documents(0, np.arange(500), np.full(500, topic))
        rows = [codes(text) for text in texts]
        share = np.bincount(np.concatenate(rows), minlength=SIZE) / sum(map(len, rows))
        assert np.abs(share - 1 / SIZE).max() < 0.0025
        for other in range(topics.TOPICS):
            follows = np.mean(np.concatenate([follower[other, row[:-1]] == row[1:] for row in rows]))
            by_chance = 1 / SIZE
            expected = (1 / topics.FOLLOWS + (1 - 1 / topics.FOLLOWS) * by_chance) if other == topic else None
            if expected is None:
                assert follows < 0.2
            else:
                assert follows == pytest.approx(expected, abs=0.005)


def test_pairs_of_one_topic_are_so_labelled():
    """By which topic explains the neighbours of a document best."""
    follower = topics.followers(5)

    def topic_of(text):
        row = codes(text)
        return int(np.argmax([(follower[k, row[:-1]] == row[1:]).sum() for k in range(topics.TOPICS)]))

    ((labels, texts),) = topics.pairs(5, 200)
    found = [(topic_of(a), topic_of(b)) for a, b in texts]
    assert [int(a == b) for a, b in found] == labels.tolist()
    assert {a for a, _ in found} == {b for _, b in found} == set(range(topics.TOPICS))


def test_too_few_pairs_are_refused(tmp_path):
    with pytest.raises(ValueError, match="count: expected at least 20 pairs, two in each file, got 19"):
        making.make("retrieval-synthetic", tmp_path, count=19)
