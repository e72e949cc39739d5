"""Where diagonalisation and the characteristic polynomial break, and S4 does not (docs/instability.md)."""

import importlib.util
import math

import pytest
import torch
from dense import ROOT

spec = importlib.util.spec_from_file_location("instability", ROOT / "examples" / "instability.py")
instability = importlib.util.module_from_spec(spec)
spec.loader.exec_module(instability)


@pytest.mark.parametrize("dt", [0.013, 0.11])
def test_all_ways_are_right_while_the_state_is_small(dt):
    """So that what is shown to break is the idea and not its implementation."""
    found = instability.errors(4, dt, L=256)
    assert found["polynomial"] < 1e-9
    assert found["eigenvectors"] < 1e-12
    assert found["S4"] < 1e-12


@pytest.mark.parametrize("dt", [0.0017, 0.0083])
def test_the_polynomial_breaks_before_12_states_and_eigenvectors_before_32_and_s4_does_not(dt):
    found = {N: instability.errors(N, dt, L=512) for N in (12, 32, 64)}
    assert found[12]["polynomial"] > 0.1
    assert found[32]["eigenvectors"] > 0.1
    for N, of in found.items():
        assert of["S4"] < 1e-12, N
        assert of["S4, float32"] < 2e-6, N


@pytest.mark.parametrize(("N", "L"), [(5, 40), (16, 60)])
def test_the_coefficients_at_the_identity_are_the_papers_binomials(N, L):
    """p = (1 - x)^N, and the largest coefficient of 1 / p mod x^L is binom(N + L - 2, N - 1)."""
    B, C = torch.randn(2, N, dtype=torch.float64)
    K, p, inverse = instability.by_characteristic_polynomial(torch.eye(N, dtype=torch.float64), B, C, L)
    assert [round(c) for c in p.abs().tolist()] == [math.comb(N, k) for k in range(N + 1)]
    assert inverse.max().item() == pytest.approx(math.comb(N + L - 2, N - 1), rel=1e-12)
    if N == 5:
        torch.testing.assert_close(K, (B @ C).expand(L), rtol=1e-6, atol=1e-6)
