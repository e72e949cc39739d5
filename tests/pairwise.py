"""Parameters of a test that meet in pairs, without their full product, or within one case."""

import functools
import inspect
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


def in_pairs(*, by=None, **axes):
    """Mark a test to run over some parameters so that any value of one meets any value of another.

    A fault nearly always depends on one value or on two together, which the full product of three or more parameters
    repeats many times. Parameters that belong together are one axis, "maps, rank", of tuples. `backend` is the
    fixture of this name, as it is without this mark.

    Args:
        by: One of the axes, or several, "backend, init": their values make the cases, and the rows of a case run one
            after another in it.
        axes: The values of each parameter.
    """
    chosen = []
    for row in rows(*map(list, axes.values())):
        given = zip(axes, row, strict=True)
        chosen.append([value for names, values in given for value in (values if ", " in names else (values,))])
    names = ", ".join(axes).split(", ")
    if by is None:
        return cases_of(names, chosen)
    return grouped(by, ", ".join(names), chosen)


def cases_of(names, cases):
    """Mark a test to run with each row of values as a case."""
    ids = ["-".join(map(str, case)) for case in cases]
    return pytest.mark.parametrize(names, cases, ids=ids, indirect=["backend"] if "backend" in names else [])


def grouped(by, names, chosen):
    """Mark a test to run with each row of values, those that agree in the parameters `by` as one case."""
    own, named = by.split(", "), [dict(zip(names.split(", "), row, strict=True)) for row in chosen]
    cases = []
    for row in named:
        if (case := [row[name] for name in own]) not in cases:
            cases.append(case)
    return lambda test: cases_of(own, cases)(one_after_another(named, own)(test))


def in_one_case(**axes):
    """Run a test over the product of some parameters within one case: for what is one claim and costs little."""
    return one_after_another([dict(zip(axes, values, strict=True)) for values in product(*axes.values())])


def one_after_another(cases, by=()):
    """Run a test with each row of arguments, each time from the same seed. `by` names those of the case itself."""

    def decorate(test):
        @functools.wraps(test)
        def run(**given):
            for row in cases:
                if all(row[name] == given[name] for name in by):
                    torch.default_generator.manual_seed(0)
                    try:
                        test(**given | row)
                    except BaseException as error:
                        error.add_note(f"with {row}")
                        raise

        taken = inspect.signature(test)
        left = [parameter for name, parameter in taken.parameters.items() if name in by or name not in cases[0]]
        run.__signature__ = taken.replace(parameters=left)
        return run

    return decorate
