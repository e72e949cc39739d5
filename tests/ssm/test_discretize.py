import pytest
import torch
from dense import (
    LOW_RANK_INITS,
    dense_bilinear,
    dense_matrix,
    discrete,
    error,
    full,
    gradients,
    hippo_system,
    log_uniform,
    random_system,
)
from hypothesis import given
from hypothesis import strategies as st
from pairwise import in_one_case, in_pairs
from scipy import signal

from longwave.ssm import bilinear, dplr_bilinear, dplr_step, hippo, power_kernel


def a_bar(discretised, state):
    """A_bar applied to the states (batch, H, M): a step without input."""
    return dplr_step(discretised, state, torch.zeros(state.shape[:2], dtype=state.real.dtype))


# Dense


@in_pairs(by="init", init=LOW_RANK_INITS, N=[2, 8, 64, 256], dt=[0.0013, 0.021, 0.17])
def test_the_dense_rule_is_scipys(init, N, dt):
    A, B = hippo(init, N)
    A_bar, B_bar = bilinear(A, B, dt)
    matrices = (A.numpy(), B.unsqueeze(1).numpy(), torch.zeros(1, N).numpy(), [[0.0]])
    A_scipy, B_scipy, *_ = signal.cont2discrete(matrices, dt, method="bilinear")
    assert error(A_bar, torch.from_numpy(A_scipy)) < 1e-11
    assert error(B_bar, torch.from_numpy(B_scipy[:, 0])) < 1e-11


def test_scipys_output_is_the_mean_of_two_neighbours_of_the_kernel():
    """scipy reads y between two states and so folds (A_bar + I)/2 into C; the paper reads y at the new state."""
    N, L, dt = 8, 40, 0.03
    A, B = hippo("legs", N)
    C = torch.randn(N, dtype=torch.float64)
    K = power_kernel(*bilinear(A, B, dt), C, L)
    system = signal.cont2discrete((A.numpy(), B[:, None].numpy(), C[None].numpy(), [[0.0]]), dt, method="bilinear")
    _, (response,) = signal.dimpulse(system, n=L)
    before = torch.nn.functional.pad(K, (1, 0))[:-1]
    assert error(torch.from_numpy(response[:, 0]), (K + before) / 2) < 1e-12


@given(st.floats(1e-4, 10), st.integers(1, 12), st.integers(0, 1 << 30))
def test_the_dense_rule_solves_its_two_equations(dt, N, seed):
    A, B = torch.randn(N, N + 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).split((N, 1), -1)
    A, B = A - N * torch.eye(N, dtype=A.dtype), B[:, 0]
    A_bar, B_bar = bilinear(A, B, dt)
    identity = torch.eye(N, dtype=A.dtype)
    torch.testing.assert_close((identity - dt / 2 * A) @ A_bar, identity + dt / 2 * A, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close((identity - dt / 2 * A) @ B_bar, dt * B, rtol=1e-10, atol=1e-10)


def test_the_dense_rule_takes_a_tensor_as_dt_and_complex_matrices():
    Lambda, P, B, _, dt = random_system(1, 3, 1)
    A = dense_matrix(Lambda[0], P[:, 0])
    A_bar, B_bar = bilinear(A, full(B[0]), dt[0])
    A_true, B_true = dense_bilinear(A, full(B[0]), dt[0])
    assert max(error(A_bar, A_true), error(B_bar, B_true)) < 1e-13


# DPLR


@pytest.mark.parametrize("init", LOW_RANK_INITS)
@in_one_case(N=[2, 4, 10, 64, 128, 256, 512])
def test_the_step_equals_the_dense_rule(init, N):
    system = hippo_system(init, N, log_uniform(2, 1e-3, 1, seed=N))
    discretised = dplr_bilinear(system.Lambda, system.P, system.B, system.dt)
    state = torch.randn(3, 2, N // 2, dtype=torch.complex128)
    u = torch.randn(3, 2, dtype=torch.float64)
    after = dplr_step(discretised, state, u)
    for h, (A_bar, B_bar) in enumerate(discrete(system)):
        assert error(full(discretised.B_bar[h]), B_bar) < 1e-11
        assert error(full(after[:, h]), full(state[:, h]) @ A_bar.mT + u[:, h, None] * B_bar) < 1e-11


@given(st.integers(0, 2), st.integers(1, 6), st.integers(0, 1 << 30))
def test_the_step_equals_the_dense_rule_for_any_system(rank, M, seed):
    system = random_system(2, M, rank, seed=seed)
    state = torch.randn(1, 2, M, generator=torch.Generator().manual_seed(seed), dtype=torch.complex128)
    after = a_bar(dplr_bilinear(*system[:3], system.dt), state)
    for h, (A_bar, _) in enumerate(discrete(system)):
        assert error(full(after[:, h]), full(state[:, h]) @ A_bar.mT) < 1e-12


@pytest.mark.parametrize("init", LOW_RANK_INITS)
def test_the_step_in_float32_stays_within_rounding_of_the_dense_rule(init):
    system = hippo_system(init, 64, log_uniform(8)).to(torch.float32)
    state, u = torch.randn(2, 8, 32, dtype=torch.complex64), torch.randn(2, 8)
    after = dplr_step(dplr_bilinear(*system[:3], system.dt), state, u)
    assert after.dtype == torch.complex64
    for h, (A_bar, B_bar) in enumerate(discrete(system)):
        assert error(full(after[:, h]), full(state[:, h]) @ A_bar.mT + u[:, h, None] * B_bar) < 2e-6


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_gradients_of_a_step_equal_those_of_the_dense_rule(rank):
    system = random_system(2, 3, rank).leaves()
    state = torch.randn(2, 2, 3, dtype=torch.complex128, requires_grad=True)
    u = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    inputs = (system.Lambda, system.P, system.B, system.dt, state, u)
    fast = dplr_step(dplr_bilinear(*system[:3], system.dt), state, u)
    dense = [
        (full(state[:, h]) @ A_bar.mT + u[:, h, None] * B_bar)[:, :3]
        for h, (A_bar, B_bar) in enumerate(discrete(system))
    ]
    true = gradients(torch.view_as_real(torch.stack(dense, dim=1)), inputs)
    for value, truth in zip(gradients(torch.view_as_real(fast), inputs), true, strict=True):
        assert error(value, truth) < 1e-12


@pytest.mark.parametrize("init", LOW_RANK_INITS)
def test_a_step_never_makes_a_state_longer(init):
    """Re(Lambda) <= 0 and A = Lambda - P P^*: A_bar is a contraction, whatever dt."""
    dt = log_uniform(16, 1e-4, 100)
    system = hippo_system(init, 32, dt)
    state = torch.randn(5, 16, 16, dtype=torch.complex128)
    after = a_bar(dplr_bilinear(*system[:3], system.dt), state)
    assert (torch.linalg.vector_norm(after, dim=-1) <= torch.linalg.vector_norm(state, dim=-1) * (1 + 1e-13)).all()


def test_a_slow_mode_keeps_its_decay_in_float32():
    """1 - 1e-9 is 1 in float32: the change has to be kept, not A_bar."""
    Lambda = torch.full((1, 1), -1e-6 + 0j, dtype=torch.complex64)
    change = dplr_bilinear(Lambda, torch.zeros(0, 1, 1, dtype=torch.complex64), Lambda, torch.tensor([1e-3])).change
    assert change.real.item() == pytest.approx(-1e-9, rel=1e-6)
