"""The ops compute what longwave.ssm defines: values and gradients, by every backend."""

import pytest
import torch
from dense import LOW_RANK_INITS, dense_kernel, error, gradients, hippo_system, log_uniform, random_system, worst_error
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pairwise import CPU_BACKENDS, in_pairs

from longwave import ops, ssm

with_backend = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def agree(compute, leaves, bound, gradient_bound):
    """Whether compute(ops) and compute(ssm) are one, and their gradients with respect to the leaves."""
    value, truth = compute(ops), compute(ssm)
    assert error(value, truth) < bound
    for one, true in zip(gradients(value.abs(), leaves), gradients(truth.abs(), leaves), strict=True):
        # Of a kernel of one step the gradient by dt is 0, but for rounding.
        assert true.numel() == 0 or (one - true).abs().max() < gradient_bound * true.abs().max().clamp(min=1)


@in_pairs(by="backend", backend=CPU_BACKENDS, rank=[0, 1, 2], maps=[1, 2], L=[1, 2, 63, 300])
def test_kernels_and_truncations_are_those_of_ssm(backend, rank, maps, L):
    system = random_system(3, 5, rank, maps).leaves()
    Lambda, P, _, C, dt = system
    agree(lambda way: way.dplr_kernel(*system, L), system, 1e-11, 1e-9)
    agree(lambda way: way.truncated_output_map(Lambda, P, C, dt, L), (Lambda, P, C, dt), 1e-11, 1e-9)
    agree(lambda way: way.dplr_kernel(*system, L, C_is_truncated=True), system, 1e-11, 1e-9)


@in_pairs(by="backend", backend=CPU_BACKENDS, init=LOW_RANK_INITS, dtype=[torch.float32, torch.float64])
def test_the_kernels_of_every_initialisation_are_those_of_ssm(backend, init, dtype):
    system = hippo_system(init, 16, log_uniform(4)).to(dtype)
    bound = 1e-9 if dtype == torch.float64 else 1e-5
    assert error(ops.dplr_kernel(*system, 200), ssm.dplr_kernel(*system, 200)) < bound


@given(st.integers(0, 2), st.integers(1, 6), st.integers(1, 700), st.integers(0, 1 << 30))
@with_backend
def test_random_sizes_equal_the_dense_system(backend, rank, M, L, seed):
    system = random_system(2, M, rank, seed=seed)
    truth = dense_kernel(system, max(L, 64))
    K = ops.dplr_kernel(*system, L)
    assert ((K - truth[..., :L]).abs().amax(-1) / truth.abs().amax(-1)).max() < 1e-10


@in_pairs(backend=CPU_BACKENDS, sides=[1, 2], H=[3, 20], L=[1, 2, 50, 301])
def test_convolutions_are_those_of_ssm(backend, sides, H, L):
    u, K, D = torch.randn(2, L, H).double(), torch.randn(sides, H, L).double(), torch.randn(H).double()
    leaves = [t.requires_grad_() for t in (u, K, D)]
    agree(lambda way: way.fft_conv(u, *K, D=D), leaves, 1e-13, 1e-12)
    agree(lambda way: way.fft_conv(u, *K), leaves[:2], 1e-13, 1e-12)


@pytest.mark.parametrize("name", ["P", "B", "C", "dt"])
def test_a_parameter_of_another_shape_is_refused(backend, name):
    """The compiled loops would read memory that is not theirs."""
    wrong = getattr(random_system(1, 2, 1), name)
    with pytest.raises(ValueError, match=r"expected .*got"):
        ops.dplr_kernel(*random_system(3, 4, 1)._replace(**{name: wrong}), 8)


@pytest.mark.parametrize("name", ["Lambda", "P", "B", "C", "dt"])
def test_parameters_of_mixed_precision_are_refused_or_computed_in_the_wider_one(backend, name):
    """Never read as the numbers that they are not."""
    system = random_system(3, 4, 1)
    mixed = system._replace(**{name: getattr(system.to(torch.float32), name)})
    try:
        K = ops.dplr_kernel(*mixed, 8)
    except (ValueError, RuntimeError):
        return
    assert worst_error(K, dense_kernel(mixed, 8)) < 5e-6
