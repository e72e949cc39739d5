"""Parameters of a test that meet in pairs, without their full product."""

from itertools import combinations, product

import pytest


def rows(*axes):
    """Few rows of the product of some axes, among them every pair of values of two axes.

    Greedy: the row that has the most pairs which are still missing comes next, the first of them where several have
    as many. So the rows are the same in every process.
    """
    bits = {}
    candidates = {}
    for row in product(*(range(len(axis)) for axis in axes)):
        pairs = combinations(enumerate(row), 2)
        candidates[row] = sum(1 << bits.setdefault(pair, len(bits)) for pair in pairs)
    missing, chosen = (1 << len(bits)) - 1, []
    while missing:
        row = max(candidates, key=lambda row: (candidates[row] & missing).bit_count())
        missing &= ~candidates.pop(row)
        chosen.append(row)
    return [tuple(axis[k] for axis, k in zip(axes, row, strict=True)) for row in sorted(chosen)]


def pairwise(**axes):
    """Mark a test to run over some parameters so that any value of one meets any value of another.

    What a fault depends on is nearly always a value or two values together: the full product of three or more
    parameters repeats them many times. `backend` is the fixture of this name, as it is without this mark.
    """
    chosen = rows(*map(list, axes.values()))
    indirect = [name for name in axes if name == "backend"]
    ids = ["-".join(map(str, row)) for row in chosen]
    return pytest.mark.parametrize(list(axes), chosen, ids=ids, indirect=indirect)
