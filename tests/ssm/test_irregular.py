"""Rows at irregular times: the zero-order hold over each gap, against the matrix exponential."""

import cmath

import pytest
import torch
from dense import error, full, gradients, random_system
from pairwise import in_pairs

from longwave.ssm import diagonal_discrete, dplr_step, even_steps, irregular


def by_matrix_exponential(Lambda, B, C, dt, u, gaps, state):
    """exp of [[A, B], [0, 0]] dt g is [[A_bar, B_bar], [0, 1]]: outputs and the last state, step by step."""
    M, outputs, after = Lambda.shape[1], [], []
    for h in range(len(Lambda)):
        generator = torch.zeros(2 * M + 1, 2 * M + 1, dtype=torch.complex128)
        generator[:-1] = torch.cat((full(Lambda[h]).diag(), full(B[h]).unsqueeze(-1)), dim=1)
        moves = torch.linalg.matrix_exp(generator * (dt[h] * gaps)[..., None, None])
        x, y = full(state[:, h]), []
        for k, move in enumerate(moves.unbind(1)):
            x = (move[:, :-1, :-1] @ x.unsqueeze(-1)).squeeze(-1) + move[:, :-1, -1] * u[:, k, h, None]
            y.append((x @ full(C[h])).real)
        outputs.append(torch.stack(y, dim=1))
        after.append(x[:, :M])
    return torch.stack(outputs, dim=-1), torch.stack(after, dim=1)


def example(L, H=2, M=3, batch=2, seed=0):
    """A system, a signal and gaps between 1/100 and 100 steps."""
    system = random_system(H, M, 0, seed=seed)
    random = torch.Generator().manual_seed(seed)
    u = torch.randn(batch, L, H, generator=random, dtype=torch.float64)
    gaps = 10 ** (4 * torch.rand(batch, L, generator=random, dtype=torch.float64) - 2)
    state = torch.randn(batch, H, M, generator=random, dtype=torch.complex128)
    return [t.detach().requires_grad_() for t in (system.Lambda, system.B, system.C, system.dt, u, gaps, state)]


@in_pairs(by="seed", L=[1, 2, 31, 32, 33, 64, 65, 100], seed=[0, 1])
def test_values_and_gradients_are_those_of_the_matrix_exponential(L, seed):
    inputs = example(L, seed=seed)
    found, true = irregular(*inputs), by_matrix_exponential(*inputs)
    for value, truth in zip(found, true, strict=True):
        assert error(value, truth) < 1e-12
    found, true = (torch.cat((y.flatten(), torch.view_as_real(x).flatten())) for y, x in (found, true))
    for g, g_true in zip(gradients(found, inputs), gradients(true, inputs), strict=True):
        assert error(g, g_true) < 1e-10


def test_gaps_of_one_are_the_regular_step():
    Lambda, B, C, dt, u, _, state = example(100)
    discrete, x, outputs = diagonal_discrete(Lambda, B, dt), state, []
    for u_t in u.unbind(1):
        x = dplr_step(discrete, x, u_t)
        outputs.append(2 * (C * x).real.sum(-1))
    y, after = irregular(Lambda, B, C, dt, u, torch.ones(2, 100, dtype=torch.float64), state)
    assert error(y, torch.stack(outputs, dim=1)) < 1e-12
    assert error(after, x) < 1e-12


def test_two_gaps_with_the_same_input_are_one_gap_of_their_sum():
    Lambda, B, C, dt, u, gaps, state = example(1)
    parts = torch.cat((0.3 * gaps, 0.7 * gaps), dim=1)
    twice = irregular(Lambda, B, C, dt, u.repeat(1, 2, 1), parts, state)
    once = irregular(Lambda, B, C, dt, u, gaps, state)
    assert error(twice[0][:, 1:], once[0]) < 1e-13
    assert error(twice[1], once[1]) < 1e-13


def test_a_long_gap_forgets_and_stays_finite():
    Lambda, B, C, dt, u, gaps, state = example(9)
    far = torch.full_like(gaps, 1e6)
    y, after = irregular(Lambda, B, C, dt, u, far, state)
    assert error(after, -(B / Lambda) * u[:, -1:].mT) < 1e-12  # where a constant input comes to rest
    for g in gradients(y, [Lambda, B, C, dt, u]):
        assert torch.isfinite(g).all()


@pytest.mark.parametrize("size", [0.0, 1e-8, 0.99e-5, 1.01e-5, 1e-3])
def test_slow_modes_and_integrators_are_exact(size):
    """The worst is the gradient of Lambda at the bound of slow modes, where A_bar - 1 has lost digits: 4e-9."""
    inputs = example(33)
    with torch.no_grad():
        inputs[0][:, 0] = size * cmath.exp(2j)
    found, true = irregular(*inputs), by_matrix_exponential(*inputs)
    assert error(found[0], true[0]) < 1e-11
    assert error(found[1], true[1]) < 1e-11
    for g, g_true in zip(gradients(found[0], inputs[:4]), gradients(true[0], inputs[:4]), strict=True):
        assert error(g, g_true) < 2e-8


def test_even_steps_are_multiples_of_the_greatest_unit():
    unit, steps = even_steps(torch.tensor([[1.0, 1.5, 0.0, 7.0], [2.5, 2.5, 2.5, 0.0]]))
    assert unit == 0.5
    assert steps.tolist() == [[2, 3, 0, 14], [5, 5, 5, 0]]
    thirds = torch.tensor([[1.0, 4 / 3, 2 / 3] * 50 + [1e3 / 3]])  # float32: rounded in the seventh digit
    unit, steps = even_steps(thirds)
    assert unit == pytest.approx(1 / 3)
    assert steps[0].tolist() == [3, 4, 2] * 50 + [1000]


@pytest.mark.parametrize("gaps", [[[1.0, 2.0**0.5]], [[1.0, 1.001]], [[1.0, 33.0]], [[0.0, 0.0]]])
def test_there_are_no_even_steps_without_a_unit_or_with_too_many_of_it(gaps):
    assert even_steps(torch.tensor(gaps)) is None
