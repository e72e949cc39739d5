"""The bench of accuracy: its truth for S4D, and which errors it finds."""

import pytest
import torch

from longwave.bench import accuracy
from longwave.bench.accuracy import AccuracyBench, diagonal_definition, gradient_errors, kernel_errors, random_systems
from longwave.bench.check import DenseSystem

SIZES = {"L": 50, "count": 4}


def systems(init="s4d-lin", count=3):
    return random_systems(init, torch.float64, count, torch.Generator().manual_seed(0))


def test_the_truth_of_a_hold_is_a_recurrence_by_matrix_exponentials():
    """exp of (A, B; 0, 0) dt has A_bar and B_bar of the zero-order hold in its first rows."""
    Lambda, _, B, C, dt = systems()
    K = diagonal_definition(Lambda, B, C, dt, 50, "zoh")
    for h in range(3):
        M = Lambda.shape[-1]
        whole = torch.zeros(M + 1, M + 1, dtype=torch.complex128)
        whole[:M, :M], whole[:M, M] = torch.diag(Lambda[h]), B[h]
        step = torch.linalg.matrix_exp(whole * dt[h])
        x = step[:M, M]
        for k in range(50):
            assert abs(K[h, k] - 2 * (C[h] @ x).real) < 1e-12 * K[h].abs().max()
            x = step[:M, :M] @ x


def test_the_truth_of_the_bilinear_rule_is_the_dense_system():
    Lambda, P, B, C, dt = systems()
    K = diagonal_definition(Lambda, B, C, dt, 50, "bilinear")
    for h in range(3):
        truth = DenseSystem.of(Lambda[h], P[:, h], B[h], C[h], float(dt[h])).kernel(50)
        assert (K[h] - truth).abs().max() < 1e-12 * truth.abs().max()


@pytest.mark.parametrize("rule", accuracy.RULES)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_errors_of_s4d_are_those_of_rounding(dtype, bound, rule):
    """Those of dt are left out: a sum of both signs, which may happen to be small."""
    generator = torch.Generator().manual_seed(0)
    assert 0 < kernel_errors("s4d-legs", dtype, **SIZES, generator=generator, rule=rule).max() < bound
    *errors, _ = gradient_errors("s4d-legs", dtype, **SIZES, generator=generator, rule=rule)
    assert all(0 < error.max() < bound for error in errors)


@pytest.mark.usefixtures("tiny")
def test_a_diagonal_init_is_measured_under_both_rules_and_with_gradients():
    result = AccuracyBench().run(lambda text: None)
    rules = {init: {row["rule"] for row in result["rows"] if row["init"] == init} for init in accuracy.INITS}
    assert rules["legs"] == {"bilinear"}
    assert rules["s4d-inv"] == {"bilinear", "zoh"}
    assert {row["init"] for row in result["gradients"]} == {init for init, found in rules.items() if len(found) == 2}
