"""Diagonal systems: the two rules of discretisation, and the kernel as a sum of powers."""

import pytest
import torch
from dense import (
    LOW_RANK_INITS,
    System,
    dense_kernel,
    diagonal_definition,
    error,
    gradients,
    hippo_system,
    log_uniform,
    random_system,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from pairwise import in_pairs

from longwave.ssm import INITS, DiagonalPowers, diagonal_discrete, diagonal_kernel, dplr_step, response, state_after
from longwave.ssm.diagonal import hold_gain

DIAGONAL_INITS = [name for name in INITS if name.startswith("s4d-")]
rules = pytest.mark.parametrize("rule", ["zoh", "bilinear"])


def without_P(system):
    Lambda, _, B, C, dt = system
    return Lambda, B, C, dt


@in_pairs(by="rule", L=[1, 2, 3, 16, 65, 300], maps=[1, 2], rule=["zoh", "bilinear"])
def test_the_kernel_and_its_gradients_are_those_of_the_definition(L, maps, rule):
    system = random_system(3, 5, 0, maps).leaves()
    K, true = diagonal_kernel(*without_P(system), L, rule), diagonal_definition(system, L, rule)
    assert error(K, true) < 1e-13
    for g, g_true in zip(gradients(K, without_P(system)), gradients(true, without_P(system)), strict=True):
        assert error(g, g_true) < 1e-11


@pytest.mark.parametrize("init", DIAGONAL_INITS)
def test_the_bilinear_kernel_is_that_of_the_dense_system(init):
    system = hippo_system(init, 16, log_uniform(3))
    assert error(diagonal_kernel(*without_P(system), 200, "bilinear"), dense_kernel(system, 200)) < 1e-12


@settings(max_examples=30)
@given(st.integers(1, 400), st.floats(1e-5, 3), st.integers(0, 1 << 30), st.sampled_from(["zoh", "bilinear"]))
def test_any_length_and_step_give_the_definition(L, dt, seed, rule):
    system = random_system(2, 3, 0, seed=seed)._replace(dt=torch.tensor([dt, dt / 3], dtype=torch.float64))
    assert (
        error(diagonal_kernel(*without_P(system), L, rule), diagonal_definition(system, max(L, 64), rule)[..., :L])
        < 1e-11
    )


def test_the_zero_order_hold_is_exact_for_an_input_that_holds():
    """x(t + dt) from x(t) and a constant u, in one step and in a hundred."""
    Lambda, B, _, dt = without_P(random_system(2, 3, 0))
    state, u = torch.randn(1, 2, 3, dtype=torch.complex128), torch.randn(1, 2, dtype=torch.float64)
    once, small = dplr_step(diagonal_discrete(Lambda, B, dt), state, u), state
    for _ in range(100):
        small = dplr_step(diagonal_discrete(Lambda, B, dt / 100), small, u)
    assert error(small, once) < 1e-13


def test_the_gain_of_a_hold_keeps_its_digits_near_zero():
    x = torch.tensor([0, 1e-300, 1e-9 + 1e-9j, 1e-3j, 0.49, -0.5, 0.51j, -3 + 40j], dtype=torch.complex128)
    true = torch.tensor([1, 1, 1 + 5e-10 + 5e-10j], dtype=torch.complex128)
    assert error(hold_gain(x)[:3], true) < 1e-15
    assert error(hold_gain(x)[3:], torch.expm1(x[3:]) / x[3:]) < 1e-14
    assert torch.autograd.gradcheck(hold_gain, x.requires_grad_())


@rules
@pytest.mark.parametrize("L", [1, 64, 150])
def test_chunks_of_a_diagonal_system_equal_its_steps(rule, L):
    Lambda, B, C, dt = without_P(random_system(2, 3, 0))
    discrete, powers = (
        diagonal_discrete(Lambda, B, dt, rule),
        DiagonalPowers(diagonal_discrete(Lambda, B, dt, rule).change, Lambda.dtype),
    )
    state = torch.randn(2, 2, 3, dtype=torch.complex128)
    u = torch.randn(2, 2, L, dtype=torch.float64)
    real = torch.view_as_real(state).flatten(-2)
    C_row = torch.stack((2 * C.real, -2 * C.imag), dim=-1).flatten(-2)
    found = state_after(powers, torch.view_as_real(discrete.B_bar).flatten(-2), u, real)
    silent, outputs = state, []
    for k in range(L):
        state, silent = dplr_step(discrete, state, u[..., k]), dplr_step(discrete, silent, 0 * u[..., k])
        outputs.append(2 * (C * silent).real.sum(-1))
    assert error(torch.view_as_complex(found.unflatten(-1, (-1, 2))), state) < 1e-12
    assert error(response(powers, C_row, real, L), torch.stack(outputs, -1)) < 1e-12


def test_a_system_is_diagonal_or_has_a_low_rank_part():
    assert {*DIAGONAL_INITS, *LOW_RANK_INITS, "random-nplr"} == set(INITS)


def test_a_length_below_1_is_refused():
    system: System = random_system(1, 2, 0)
    with pytest.raises(ValueError, match="L: expected a length of at least 1, got 0"):
        diagonal_kernel(*without_P(system), 0)
