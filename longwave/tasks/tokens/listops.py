"""ListOps: nested lists of MIN, MAX, MED and SM (sum modulo 10) over digits, each with a value from 0 to 9.

A tree depends on a seed and its number alone: every node has 64 random bits, mixed from those of its parent and its
place there. So trees can be drawn in batches of any size, level by level, with numpy. Those of 501 to 1,999 tokens are
kept, as in the Long Range Arena, and written in its file format.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longwave.core import files
from longwave.core.progress import Progress
from longwave.core.random import GOLDEN, mixed, numbered_bits
from longwave.tasks.tokens.data import Labelled

Keys = NDArray[np.uint64]
Index = NDArray[np.int64]
Codes = NDArray[np.uint8]

OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
TOKENS = (*"0123456789", *OPERATORS, "X")  # X closes a list
FILES = {"train": "basic_train.tsv", "valid": "basic_val.tsv", "test": "basic_test.tsv"}
HEADER = b"Source\tTarget"

DEEPEST = 10  # level of the deepest leaves; the root is at level 1
SHORTEST, LONGEST = 501, 1999  # tokens of a tree that is kept
ARGUMENTS = range(2, 11)  # how many a list may have
SHARE = 50  # one tree in this many is for validation, and one for the test
DRAWN = 1 << 14  # trees at a time
CLOSE, OPEN = 10, 11  # codes in a drawn tree: digits, the end of a list, OPEN + 9 operator + arguments - 2


# Drawing


class Level(NamedTuple):
    """The nodes of some trees at one depth; the arguments of a list are contiguous, in order."""

    digit: Codes  # (n,) of a leaf
    operator: Codes  # (n,) of a list
    arguments: Index  # (n,) of a list; 0 for a leaf

    @property
    def lists(self) -> NDArray[np.bool_]:
        """(n,) mask of the nodes that are lists."""
        return self.arguments > 0

    @property
    def first(self) -> Index:
        """The first argument of each list on the level below."""
        counts = self.arguments[self.lists]
        return np.cumsum(counts) - counts


def draw(keys: Keys) -> list[Level]:
    """The trees with these bits at their roots, level by level; above the deepest, one node in 4 is a list."""
    levels = []
    for depth in range(1, DEEPEST + 1):
        is_list = (keys >> np.uint64(62) == 0) if depth < DEEPEST else np.zeros(len(keys), bool)
        low = keys & np.uint64(0xFFFFFFFF)
        arguments = np.where(is_list, ARGUMENTS.start + _scaled(low, len(ARGUMENTS)), 0).astype(np.int64)
        operator = (keys >> np.uint64(60) & np.uint64(3)).astype(np.uint8)
        levels.append(Level(_scaled(low, 10).astype(np.uint8), operator, arguments))
        parents = np.repeat(keys[is_list], arguments[is_list])
        place = np.arange(len(parents)) - np.repeat(levels[-1].first, arguments[is_list])
        keys = mixed(parents + GOLDEN * (place + 1).astype(np.uint64))
    return levels


def _scaled(bits: Keys, count: int) -> Keys:
    """0 to count - 1, from 32 random bits."""
    return bits * np.uint64(count) >> np.uint64(32)


def sizes(levels: list[Level]) -> list[Index]:
    """The number of tokens in each node of each level: 1 for a leaf; for a list, that of its arguments plus two."""
    below: Index = np.zeros(0, np.int64)
    found = []
    for level in reversed(levels):
        own = np.ones(len(level.digit), np.int64)
        if level.lists.any():
            own[level.lists] = 2 + np.add.reduceat(below, level.first)
        found.append(own)
        below = own
    return found[::-1]


def values(levels: list[Level]) -> Codes:
    """(n,): the value of each tree."""
    below: Codes = np.zeros(0, np.uint8)
    for level in reversed(levels):
        own = level.digit.copy()
        if level.lists.any():
            own[level.lists] = _values_of_lists(level, below)
        below = own
    return below


def _values_of_lists(level: Level, below: Codes) -> Codes:
    counts, operator = level.arguments[level.lists], level.operator[level.lists]
    rows = np.arange(len(counts))
    table = np.full((len(counts), ARGUMENTS[-1]), 255, np.uint8)  # sorts after every value
    table[np.arange(ARGUMENTS[-1]) < counts[:, None]] = below
    table.sort(axis=1)
    median = (table[rows, (counts - 1) // 2] + table[rows, counts // 2]) // 2
    total = np.add.reduceat(below.astype(np.int64), level.first) % 10
    choices = [table[:, 0], table[rows, counts - 1], median, total.astype(np.uint8)]
    found: Codes = np.choose(operator, choices)
    return found


def in_order(levels: list[Level], size: list[Index]) -> Codes:
    """The tokens of all trees, one tree after the other, as they are written: a list, its arguments, its end."""
    place = np.cumsum(size[0]) - size[0]
    tokens = np.empty(int(size[0].sum()), np.uint8)
    for k, level in enumerate(levels):
        is_list = level.lists
        opened = OPEN + len(ARGUMENTS) * level.operator.astype(np.int64) + level.arguments - ARGUMENTS.start
        tokens[place] = np.where(is_list, opened, level.digit)
        tokens[place[is_list] + size[k][is_list] - 1] = CLOSE
        if is_list.any():
            before = np.cumsum(size[k + 1]) - size[k + 1]
            place = before + np.repeat(place[is_list] + 1 - before[level.first], level.arguments[is_list])
    return tokens


def trees(seed: int) -> Iterator[tuple[Codes, int]]:
    """The tokens and the value of each tree that is kept, an endless stream."""
    start = 0
    while True:
        levels = draw(numbered_bits(seed, np.arange(start, start + DRAWN)))
        start += DRAWN
        size = sizes(levels)
        kept = (size[0] >= SHORTEST) & (size[0] <= LONGEST)
        for k, level in enumerate(levels):
            levels[k] = Level(level.digit[kept], level.operator[kept], level.arguments[kept])
            size[k] = size[k][kept]
            kept = np.repeat(kept[level.lists], level.arguments[level.lists])
        ends = np.cumsum(size[0])
        yield from zip(np.split(in_order(levels, size), ends[:-1]), values(levels).tolist(), strict=True)


# Files


# How each code is written in a list that is not the root. The published files nest lists in pairs: MAX of 3 and 4 is
# ( ( ( [MAX 3 ) 4 ) ] ).
PIECES = [
    *(f"{digit} )" for digit in range(10)),
    "] ) )",
    *(f"{'( ' * (count + 1)}{operator}" for operator in OPERATORS for count in ARGUMENTS),
]


def written(tokens: Codes) -> str:
    """A tree, whose root is a list, as the published files have it."""
    return " ".join([PIECES[code] for code in tokens.tolist()]).removesuffix(" )")


def make(folder: Path, count: int, seed: int, progress: Progress) -> None:
    """Write `count` different trees in the published format: 96 % to train, 2 % to validate, 2 % to test."""
    if count < 3:
        raise ValueError(f"count: expected at least 3 trees, one in each file, got {count}")
    held = max(1, count // SHARE)
    counts = {"train": count - 2 * held, "valid": held, "test": held}
    seen: set[bytes] = set()
    source = trees(seed)
    progress.start("listops", count)
    for split, name in FILES.items():
        with files.atomic(folder / name) as file:
            file.write(HEADER + b"\n")
            left = counts[split]
            while left:
                tokens, value = next(source)
                if (digest := hashlib.blake2b(tokens.tobytes(), digest_size=16).digest()) in seen:
                    continue
                seen.add(digest)
                file.write(f"{written(tokens)}\t{value}\n".encode())
                left -= 1
                progress.advance(1)


# Reading


def pieces(text: str) -> list[str]:
    """The tokens of an expression, with or without the parentheses of the published files."""
    return ["X" if token == "]" else token for token in text.replace("(", " ").replace(")", " ").split()]


def read(path: Path, most: int, progress: Progress) -> Labelled:
    """The trees of a published file, each cut to `most` tokens; codes are those of TOKENS."""
    letters = {name.encode(): bytes([k]) for k, name in enumerate(OPERATORS)}  # bytes that no expression has
    symbols = b"0123456789" + b"".join(letters.values()) + b"]"
    numbers = bytes(symbols.index(byte) if byte in symbols else 255 for byte in range(256))
    codes, lengths, labels = [], [], []
    progress.start(f"reading {path.name}", path.stat().st_size)
    with open(path, "rb") as file:
        if (header := file.readline().rstrip(b"\r\n")) != HEADER:
            raise ValueError(f"{path}: expected the header {HEADER!r}, got {header!r:.80}")
        for number, line in enumerate(file, 2):
            source, _, target = line.rstrip(b"\r\n").partition(b"\t")
            row = source.translate(None, b"() ")
            for operator, letter in letters.items():
                row = row.replace(operator, letter)
            row = row.translate(numbers)
            if not row or 255 in row or len(target) != 1 or not target.isdigit():
                raise ValueError(
                    f"{path}: line {number}: expected an expression of {' '.join(TOKENS[:-1])} ] ( ), a tab and a "
                    f"digit, got {line!r:.80}"
                )
            progress.advance(len(line))
            codes.append(np.frombuffer(row[:most], np.uint8))
            lengths.append(len(codes[-1]))
            labels.append(int(target))
    if not codes:
        raise ValueError(f"{path}: expected expressions below the header, got none")
    return Labelled(np.concatenate(codes), np.array(lengths, np.int64), np.array(labels, np.int64))
