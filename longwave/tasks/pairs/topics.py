"""A synthetic stand-in for Retrieval: two documents, and whether they are about the same topic. These are no papers.

A topic is a cyclic order of 27 characters. A document of a topic is a Markov chain: with probability 1/2 the next
character is the successor, else it is uniform. Every character is equally frequent in every topic, so that character
counts are no help; bigrams differ.

Each character depends on the seed, the number of the document and its place alone, in integer arithmetic: the same seed
makes the same files on every machine.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longwave.core import files
from longwave.core.progress import Progress
from longwave.core.random import GOLDEN, mixed, numbered_bits
from longwave.tasks.pairs import retrieval

Keys = NDArray[np.uint64]
Index = NDArray[np.int64]

FILES = {
    split: f"synthetic_pairs.{name}.tsv" for split, name in (("train", "train"), ("valid", "eval"), ("test", "test"))
}
ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz ", np.uint8)
TOPICS = 8
SHORTEST, LONGEST = 200, 1000  # characters of a document
FOLLOWS = 2  # one character in this many is the successor of the one before
SHARE = 10  # one pair in this many is for validation, and one for the test
DRAWN = 1000  # pairs at a time


def _scaled(bits: Keys, count: int) -> Index:
    """0 to count - 1, from the upper 32 of 64 random bits."""
    return ((bits >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.int64)


def followers(seed: int) -> Index:
    """(topics, characters): the successor of each character in each topic; all of them form one cycle."""
    size = len(ALPHABET)
    bits = numbered_bits(seed, np.arange(TOPICS * size), 0).reshape(TOPICS, size)
    order = np.argsort(bits, axis=1, kind="stable")
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.roll(order, -1, axis=1), axis=1)
    return found


def documents(seed: int, numbers: Index, topics: Index) -> list[str]:
    """The documents with these numbers, on these topics."""
    follower, keys = followers(seed), numbered_bits(seed, numbers, 1)
    lengths = SHORTEST + _scaled(keys, LONGEST - SHORTEST + 1)
    codes = np.empty((len(numbers), LONGEST), np.int64)
    places = GOLDEN * np.arange(1, LONGEST + 1, dtype=np.uint64)
    for k in range(LONGEST):
        bits = mixed(keys + places[k])
        codes[:, k] = _scaled(bits, len(ALPHABET))
        if k:
            follow = bits % np.uint64(FOLLOWS) == 0
            codes[follow, k] = follower[topics[follow], codes[follow, k - 1]]
    letters = ALPHABET[codes]
    return [row[:length].tobytes().decode() for row, length in zip(letters, lengths.tolist(), strict=True)]


def pairs(seed: int, count: int) -> Iterator[tuple[Index, list[tuple[str, str]]]]:
    """Labels and texts of the first pairs, DRAWN at a time: every second pair shares a topic."""
    for start in range(0, count, DRAWN):
        number = np.arange(start, min(start + DRAWN, count))
        labels = number % 2
        bits = numbered_bits(seed, number, 2)
        first = _scaled(bits, TOPICS)
        other = (first + 1 + _scaled(bits << np.uint64(32), TOPICS - 1)) % TOPICS
        second = np.where(labels == 1, first, other)
        texts = documents(seed, 2 * number, first), documents(seed, 2 * number + 1, second)
        yield labels, list(zip(*texts, strict=True))


def make(folder: Path, count: int, seed: int, progress: Progress) -> None:
    """Write `count` pairs in the format of Retrieval: 80 % to train, 10 % to validate, 10 % to test."""
    if count < 2 * SHARE:
        raise ValueError(f"count: expected at least {2 * SHARE} pairs, two in each file, got {count}")
    held = count // SHARE
    ends = {"train": count - 2 * held, "valid": count - held, "test": count}
    progress.start("retrieval-synthetic", count)
    labelled = (pair for labels, texts in pairs(seed, count) for pair in zip(labels.tolist(), texts, strict=True))
    done = 0
    for split, name in FILES.items():
        with files.atomic(folder / name) as file:
            for k in range(done, ends[split]):
                label, texts = next(labelled)
                file.write(retrieval.line(label, (f"S{2 * k:06d}", f"S{2 * k + 1:06d}"), texts))
                progress.advance(1)
        done = ends[split]
