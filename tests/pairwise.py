"""Parameters of a test that meet in pairs, without their full product."""

from collections import Counter
from itertools import combinations, product

import pytest
import torch

from longwave.ops import BACKENDS

CPU_BACKENDS = [name for name, backend in BACKENDS.items() if backend.serves("cpu", torch.float32)]


def rows(*axes):
    """Few rows of the product of some axes, among them every pair of values of two axes.

    Greedy: the row with the most pairs that are still missing comes next; of several, one whose pairs were seen the
    least, so that all come about as often. Nothing is random: the rows are the same in every process.
    """
    candidates = {
        row: list(combinations(enumerate(row), min(2, len(row)))) for row in product(*(range(len(a)) for a in axes))
    }
    seen, chosen = Counter(), []
    missing = {pair for pairs in candidates.values() for pair in pairs}
    while missing:
        gains = {row: len(missing.intersection(pairs)) for row, pairs in candidates.items()}
        most = max(gains.values())
        best = (row for row, gain in gains.items() if gain == most)
        row = min(best, key=lambda row: sum(seen[pair] for pair in candidates[row]))
        pairs = candidates.pop(row)
        seen.update(pairs)
        missing.difference_update(pairs)
        chosen.append(row)
    return [tuple(axis[k] for axis, k in zip(axes, row, strict=True)) for row in sorted(chosen)]


def in_pairs(**axes):
    """Mark a test to run over some parameters so that any value of one meets any value of another.

    A fault nearly always depends on one value or on two together, which the full product of three or more parameters
    repeats many times. Parameters that belong together are one axis, "maps, rank", of tuples. `backend` is the
    fixture of this name, as it is without this mark.
    """
    cases = []
    for row in rows(*map(list, axes.values())):
        given = zip(axes, row, strict=True)
        cases.append([value for names, values in given for value in (values if ", " in names else (values,))])
    names = ", ".join(axes).split(", ")
    ids = ["-".join(map(str, case)) for case in cases]
    return pytest.mark.parametrize(names, cases, ids=ids, indirect=["backend"] if "backend" in names else [])
