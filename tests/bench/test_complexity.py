"""Exponents of time and memory: how they are fitted, and what is measured."""

import pytest
import torch

from longwave.bench import complexity
from longwave.bench.complexity import ComplexityBench, cases, exponent, make_layer, next_step, times


def test_one_size_grows_at_a_time_from_one_base():
    found = cases(complexity.SIZES)
    assert all(sum(case[axis] != complexity.BASE[axis] for axis in case) <= 1 for case in found)
    assert complexity.BASE in found
    assert len(found) == sum(map(len, complexity.SIZES.values())) - 2


def test_the_exponent_of_a_power_is_its_own():
    rows = [
        {**case, "layer": "s4", "training": 3 * case["L"] ** 2 * case["H"] ** 0.5} for case in cases(complexity.SIZES)
    ]
    found = [exponent(rows, complexity.SIZES, "training", "s4", axis) for axis in ("L", "B", "H")]
    assert found == pytest.approx([2, 0, 0.5], abs=1e-12)
    assert exponent(rows, complexity.SIZES, "space", "s4", "L") is None


@pytest.mark.usefixtures("tiny")
def test_parameters_grow_as_in_the_papers_table():
    """Exactly, but for terms of lower order: biases, and the step sizes of S4."""
    sizes = {"L": (16, 32), "B": (1, 2), "H": (64, 128)}
    rows = [
        {
            **case,
            "layer": name,
            "parameters": sum(p.numel() for p in make_layer(name, case["L"], case["H"]).parameters()),
        }
        for case in cases(sizes)
        for name in complexity.LABELS
    ]
    for name, cost in complexity.PAPER["parameters"].items():
        for axis in ("L", "B", "H") if name != "convolution" else ("B",):  # with its linear layer, L H + H^2
            found = exponent(rows, sizes, "parameters", name, axis)
            if found is not None:
                assert found == pytest.approx(getattr(cost, axis)[0], abs=0.05)


@pytest.mark.parametrize("name", ["convolution", "recurrence", "s4"])
def test_the_next_step_is_the_last_of_the_whole_sequence(name):
    layer, u = make_layer(name, 9, 8).eval(), torch.randn(2, 9, 8)
    with torch.no_grad():
        expected = layer(u)[0][:, -1]
        if name == "convolution":
            found = layer.last(u)
        else:
            state = layer(u[:, :-1])[1]
            found = layer.step(u[:, -1], state)[0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)  # float32 by FFT and by sums


def test_the_memory_of_a_step_grows_with_length_only_where_the_past_is_kept():
    short, long = (times(L=L, B=2, H=8, repeats=1) for L in (16, 64))
    grown = {name for name in short if long[name]["inference_space"] > short[name]["inference_space"]}
    assert grown == {"convolution", "attention"}


def test_the_memory_of_a_step_has_the_state_in_it():
    """Of S4 the old state, the new one, and a few rows of features."""
    state = 2 * 8 * 4 * 8  # batch, features, pairs, bytes
    assert next_step("s4", make_layer("s4", 16, 8), 16, 2, 8)[1] == state
    assert 2 * state < times(L=16, B=2, H=8, repeats=1)["s4"]["inference_space"] < 3 * state


@pytest.mark.usefixtures("tiny")
def test_a_quick_bench_measures_no_memory_of_training_and_has_no_table_of_it():
    bench = ComplexityBench(quick=True)
    titles = [table.title for table in bench.tables(bench.run(lambda text: None))]
    assert len(titles) == 4
    assert not any(title.startswith(complexity.TITLES["space"]) for title in titles)
