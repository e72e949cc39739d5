"""The cases that `in_pairs` leaves of a product."""

import inspect
from collections import Counter
from itertools import combinations, product

import pytest
from pairwise import in_one_case, in_pairs, rows


@pytest.mark.parametrize("sizes", [(1,), (2, 3), (2, 3, 5, 2, 2), (3, 3, 3, 3), (1, 7, 2), (9, 3, 2, 2, 2, 2)], ids=str)
def test_every_two_values_of_two_parameters_meet_and_no_case_comes_twice(sizes):
    axes = [[f"{chr(97 + k)}{i}" for i in range(size)] for k, size in enumerate(sizes)]
    chosen = rows(*axes)
    met = {pair for row in chosen for pair in combinations(row, 2)}
    assert met == {pair for a, b in combinations(axes, 2) for pair in product(a, b)}
    assert len(set(chosen)) == len(chosen)
    assert {value for row in chosen for value in row} == {value for axis in axes for value in axis}


def test_there_are_not_many_more_cases_than_the_two_longest_axes_have():
    assert len(rows(range(3), range(3), range(3), range(3))) <= 12  # of 81; 9 at best
    assert len(rows(range(9), range(3), range(2), range(2), range(2))) <= 30  # of 216; 27 at best


def test_parameters_that_belong_together_are_one_axis():
    mark = in_pairs(**{"L": [1, 2], "maps, rank": [(1, 0), (2, 1)], "backend": ["reference"]}).mark
    names, cases = mark.args
    assert names == ["L", "maps", "rank", "backend"]
    assert cases == [[1, 1, 0, "reference"], [1, 2, 1, "reference"], [2, 1, 0, "reference"], [2, 2, 1, "reference"]]
    assert mark.kwargs["indirect"] == ["backend"]


def test_pairs_that_could_come_once_come_about_as_often_as_the_others():
    """Two backends, eight lengths and two sides: not one backend with one side at all lengths but one."""
    times = Counter((backend, sides) for backend, _, sides in rows("ab", range(8), (1, 2)))
    assert set(times.values()) == {4}


def test_rows_of_one_case_run_one_after_another_and_a_failure_names_its_row():
    met = []

    @in_pairs(by="init", init=["legs", "fout"], L=[1, 2], sides=[1, 2])
    def pairs(init, tmp_path, L, sides):
        met.append((init, L, sides))

    @in_one_case(L=[1, 2], sides=[1, 2])
    def fails(name, L, sides):
        assert (name, L, sides) != ("s4", 2, 1)

    assert list(inspect.signature(pairs).parameters) == ["init", "tmp_path"]
    assert pairs.pytestmark[0].args == (["init"], [["legs"], ["fout"]])
    for init in ("legs", "fout"):
        pairs(init=init, tmp_path=None)
    assert sorted(met) == sorted(rows(["legs", "fout"], [1, 2], [1, 2]))
    assert list(inspect.signature(fails).parameters) == ["name"]
    fails(name="lssl")
    with pytest.raises(AssertionError) as caught:
        fails(name="s4")
    assert caught.value.__notes__ == ["with {'L': 2, 'sides': 1}"]
