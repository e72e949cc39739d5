"""The ladder: the definition, the generating function, Algorithm 1 in plain torch, the recurrence: one kernel."""

import math

import pytest
import torch
from dense import (
    LOW_RANK_INITS,
    System,
    dense_kernel,
    dense_matrix,
    discrete,
    error,
    full,
    gradients,
    hippo_system,
    log_uniform,
    random_system,
    worst_error,
)
from hypothesis import given
from hypothesis import strategies as st
from pairwise import in_one_case, in_pairs

from longwave.ssm import (
    bilinear,
    dplr,
    dplr_bilinear,
    dplr_kernel,
    dplr_step,
    generating_function_kernel,
    hippo,
    output_map,
    power_kernel,
    truncated_output_map,
)

LENGTHS = [1, 2, 3, 4, 7, 16, 31, 100, 257]


def unrolled_kernel(system, L):
    """The response to a unit impulse, step by step in O(N)."""
    H, M = system.Lambda.shape
    discretised = dplr_bilinear(system.Lambda, system.P, system.B, system.dt)
    state, K = torch.zeros(1, H, M, dtype=system.Lambda.dtype), []
    for k in range(L):
        state = dplr_step(discretised, state, torch.full((1, H), float(k == 0), dtype=system.dt.dtype))
        K.append(2 * (system.C * state[0]).sum(-1).real)
    return torch.stack(K, dim=-1)


# Values


@in_pairs(by="init", init=LOW_RANK_INITS, N=[2, 16], L=LENGTHS)
def test_every_way_to_the_kernel_agrees(init, N, L):
    system = hippo_system(init, N, [0.0137])
    A, B = hippo(init, N)
    _, _, _, V = dplr(init, N)
    C = (full(system.C[0]) @ full(V).mH).real  # the same output map for the state in A's own basis
    K = power_kernel(*bilinear(A, B, 0.0137), C, L)
    assert K.shape == (L,)
    assert error(generating_function_kernel(A, B, C, 0.0137, L), K) < 1e-11
    assert error(dplr_kernel(*system, L)[0], K) < 1e-11
    assert error(unrolled_kernel(system, L)[0], K) < 1e-11
    assert error(dense_kernel(system, L)[0], K) < 1e-11


@in_pairs(by="rank", L=LENGTHS, rank=[0, 1, 2], maps=[1, 2])
def test_any_damped_system_equals_the_dense_one(L, rank, maps):
    system = random_system(3, 5, rank, maps)
    K = dplr_kernel(*system, L)
    assert K.shape == ((3, L) if maps == 1 else (2, 3, L))
    assert K.dtype == torch.float64
    assert worst_error(K, dense_kernel(system, L)) < 1e-11


@given(st.integers(0, 2), st.integers(1, 9), st.integers(1, 700), st.integers(0, 1 << 30))
def test_random_sizes_equal_the_dense_system(rank, M, L, seed):
    system = random_system(2, M, rank, seed=seed)
    assert worst_error(dplr_kernel(*system, L), dense_kernel(system, L)) < 1e-10


@given(
    st.sampled_from(LOW_RANK_INITS),
    st.integers(1, 16),
    st.integers(1, 400),
    st.floats(1e-4, 3),
    st.integers(0, 1 << 30),
)
def test_random_step_sizes_equal_the_dense_system(init, M, L, dt, seed):
    """Sooner or later a search meets a node on an undamped pole, where half the digits are left."""
    system = hippo_system(init, 2 * M, [dt], seed=seed)
    assert worst_error(dplr_kernel(*system, L), dense_kernel(system, L)) < (1e-10 if init == "legs" else 1e-6)


@pytest.mark.parametrize("rank", [0, 1, 2])
@in_one_case(L=[1, 2, 33, 64])
def test_float32_stays_within_rounding_of_the_dense_system(rank, L):
    system = random_system(4, 8, rank).to(torch.float32)
    K = dplr_kernel(*system, L)
    assert K.dtype == torch.float32
    assert error(K, dense_kernel(system, L)) < 5e-6


def test_two_output_maps_are_two_kernels_of_one_system():
    system = random_system(3, 4, 1, maps=2)
    both = dplr_kernel(*system, 50)
    for one, C in zip(both, system.C, strict=True):
        torch.testing.assert_close(one, dplr_kernel(*system._replace(C=C), 50), rtol=1e-12, atol=1e-12)


def test_features_do_not_see_each_other():
    system = random_system(4, 3, 2)
    alone = System(*(t[..., 2:3, :] if t.ndim > 1 else t[2:3] for t in system))
    torch.testing.assert_close(dplr_kernel(*system, 37)[2:3], dplr_kernel(*alone, 37), rtol=1e-13, atol=1e-14)


def test_a_node_on_an_undamped_pole_gives_no_infinity():
    """i tan(theta/2) = lambda exactly, with Re(Lambda) = 0: only P P^* keeps the kernel finite there."""
    L, k, dt = 16, 4, 0.5  # theta = pi/2, tan(theta/2) = 1
    Lambda = torch.tensor([[1j * math.tan(math.pi * k / L) * 2 / dt, 1j]], dtype=torch.complex128)
    system = random_system(1, 2, 1)._replace(Lambda=Lambda, dt=torch.tensor([dt], dtype=torch.float64)).leaves()
    K = dplr_kernel(*system, L)
    assert worst_error(K, dense_kernel(system, L)) < 1e-6
    assert all(torch.isfinite(torch.view_as_real(g) if g.is_complex() else g).all() for g in gradients(K, system))


def test_a_step_size_near_0_loses_no_digits():
    system = random_system(3, 4, 1)._replace(dt=torch.tensor([1e-7, 1e-12, 1e-20], dtype=torch.float64))
    assert worst_error(dplr_kernel(*system, 20), dense_kernel(system, 20)) < 1e-9
    rounded = system.to(torch.float32)
    assert worst_error(dplr_kernel(*rounded, 20), dense_kernel(rounded, 20)) < 5e-6


# Gradients


@pytest.mark.parametrize("init", LOW_RANK_INITS)
@in_one_case(L=[1, 2, 9, 64, 129])
def test_gradients_of_every_way_agree(init, L):
    system = hippo_system(init, 8, log_uniform(2, 1e-2, 1e-1, seed=3)).leaves()
    truth = gradients(dense_kernel(system, L), system)
    for K in (dplr_kernel(*system, L), unrolled_kernel(system, L)):
        for value, true in zip(gradients(K, system), truth, strict=True):
            assert error(value, true) < 1e-9


@in_pairs(by="rank", L=[1, 2, 11, 40], rank=[0, 1, 2], maps=[1, 2])
def test_gradients_of_any_damped_system_equal_the_dense_ones(L, rank, maps):
    system = random_system(3, 4, rank, maps).leaves()
    truth = gradients(dense_kernel(system, L), system)
    for value, true in zip(gradients(dplr_kernel(*system, L), system), truth, strict=True):
        assert error(value, true) < 1e-10


def test_gradients_of_the_definition_and_of_the_generating_function_agree():
    A, B = (t.requires_grad_() for t in hippo("legs", 6))
    C = torch.randn(6, dtype=torch.float64, requires_grad=True)
    truth = gradients(power_kernel(*bilinear(A, B, 0.05), C, 21), (A, B, C))
    for value, true in zip(gradients(generating_function_kernel(A, B, C, 0.05, 21), (A, B, C)), truth, strict=True):
        assert error(value, true) < 1e-10


# C and C~


@in_pairs(by="rank", rank=[0, 1, 2], maps=[1, 2], L=[1, 2, 31, 32, 33, 100, 1000])
def test_truncation_is_c_times_identity_minus_the_power(rank, maps, L):
    system = random_system(2, 4, rank, maps)
    C_tilde = truncated_output_map(system.Lambda, system.P, system.C, system.dt, L)
    for h, (A_bar, _) in enumerate(discrete(system)):
        truth = full(system.C[..., h, :]) @ (torch.eye(8) - torch.linalg.matrix_power(A_bar, L))
        assert error(full(C_tilde[..., h, :]), truth) < 1e-12


@pytest.mark.parametrize("rank", [0, 1, 2])
@in_one_case(L=[1, 2, 33, 100])
def test_gradients_of_the_truncation_equal_the_dense_ones(rank, L):
    system = random_system(2, 3, rank).leaves()
    inputs = (system.Lambda, system.P, system.C, system.dt)
    C_tilde = truncated_output_map(*inputs, L)
    dense = [
        (full(system.C[h]) @ (torch.eye(6) - torch.linalg.matrix_power(A_bar, L)))[:3]
        for h, (A_bar, _) in enumerate(discrete(system))
    ]
    truth = gradients(torch.view_as_real(torch.stack(dense)), inputs)
    for value, true in zip(gradients(torch.view_as_real(C_tilde), inputs), truth, strict=True):
        assert error(value, true) < 1e-11


@pytest.mark.parametrize("init", LOW_RANK_INITS)
@in_one_case(L=[1, 7, 64, 1024])
def test_output_map_undoes_the_truncation(init, L):
    system = hippo_system(init, 16, log_uniform(3), maps=2)
    C_tilde = truncated_output_map(system.Lambda, system.P, system.C, system.dt, L)
    C = output_map(system.Lambda, system.P, C_tilde, system.dt, L)
    assert error(C, system.C) < 1e-9
    assert C.dtype == torch.complex128


def test_gradients_through_both_maps_are_those_of_the_identity():
    system = random_system(2, 3, 1).leaves()
    inputs = (system.Lambda, system.P, system.C, system.dt)
    C_tilde = truncated_output_map(*inputs, 20)
    C = output_map(system.Lambda, system.P, C_tilde, system.dt, 20)
    dLambda, dP, dC, ddt = gradients(torch.view_as_real(C), inputs)
    truth = gradients(torch.view_as_real(system.C * 1), [system.C])[0]
    assert error(dC, truth) < 1e-10
    assert max(t.abs().max().item() for t in (dLambda, dP, ddt)) < 1e-9 * truth.abs().max()


def test_a_c_that_is_truncated_already_gives_the_same_kernel():
    Lambda, P, B, C, dt = random_system(2, 4, 1)
    C_tilde = truncated_output_map(Lambda, P, C, dt, 45)
    K = dplr_kernel(Lambda, P, B, C_tilde, dt, 45, C_is_truncated=True)
    assert torch.equal(K, dplr_kernel(Lambda, P, B, C, dt, 45))


# Separate P and Q


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("L", [1, 2, 15, 64])
def test_separate_p_and_q_equal_the_dense_system(rank, L):
    system = random_system(2, 4, rank).leaves()
    Q = (system.P + 0.3 * random_system(2, 4, rank, seed=9).P).detach().requires_grad_()
    K, truth = dplr_kernel(*system, L, Q=Q), dense_kernel(system, L, Q)
    assert worst_error(K, truth) < 1e-11
    inputs = (*system, Q)
    for value, true in zip(gradients(K, inputs), gradients(truth, inputs), strict=True):
        assert error(value, true) < 1e-9


def test_q_equal_to_p_is_the_default():
    system = random_system(2, 4, 2)
    assert error(dplr_kernel(*system, 33, Q=system.P), dplr_kernel(*system, 33)) < 1e-12


@given(st.integers(1, 2), st.integers(1, 6), st.floats(-1, 1), st.integers(0, 1 << 30))
def test_with_p_equal_to_q_no_eigenvalue_reaches_the_right_half_plane(rank, M, log_scale, seed):
    system = random_system(1, M, rank, seed=seed)
    undamped = system.Lambda[0].imag * 1j
    A = dense_matrix(undamped, system.P[:, 0] * 10**log_scale)
    assert torch.linalg.eigvals(A).real.max() <= 1e-10 * A.abs().max()


def test_with_free_p_and_q_eigenvalues_move_to_the_right_half_plane_and_the_kernel_explodes():
    system = random_system(1, 3, 1)
    Q = -2 * system.P
    assert torch.linalg.eigvals(dense_matrix(system.Lambda[0], system.P[:, 0])).real.max() < 0
    assert torch.linalg.eigvals(dense_matrix(system.Lambda[0], system.P[:, 0], Q[:, 0])).real.max() > 0.1
    tied, free = dplr_kernel(*system, 300)[0], dplr_kernel(*system, 300, Q=Q)[0]
    assert tied[-10:].abs().max() < 0.01 * tied[:10].abs().max()
    assert free[-10:].abs().max() > 100 * free[:10].abs().max()
    assert error(free, dense_kernel(system, 300, Q)[0]) < 1e-8


# Errors


@pytest.mark.parametrize("L", [0, -3])
def test_a_length_below_1_is_refused(L):
    with pytest.raises(ValueError, match=rf"L: expected a length of at least 1, got {L}"):
        dplr_kernel(*random_system(1, 2, 1), L)


def test_more_than_two_corrections_are_refused():
    system = random_system(1, 2, 3)
    for call in (dplr_kernel, lambda Lambda, P, B, C, dt, L: truncated_output_map(Lambda, P, C, dt, L)):
        with pytest.raises(ValueError, match=r"rank 0, 1 or 2.*got rank 3"):
            call(*system, 8)
