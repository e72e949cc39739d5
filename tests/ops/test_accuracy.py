"""How exact the kernel is: max error over max kernel, against a dense recurrence in float64 from the same parameters.

N = 64 throughout, as in the paper. docs/results has the measured figures; the bounds here are what is promised.
"""

import math

import pytest
import torch
from dense import dense_kernel, diagonal_definition, error, gradients, hippo_system, log_uniform
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pairwise import CPU_BACKENDS, in_one_case, in_pairs

from longwave.ops import diagonal_kernel, dplr_kernel
from longwave.ops.cpu.kernel import DAMPING
from longwave.ssm import INITS, dplr
from longwave.ssm.spectrum import needs_float64

N = 64
GRID = [0.001, 0.003, 0.01, 0.03, 0.1]
DIAGONAL_INITS = [name for name in INITS if name.startswith("s4d-")]
LENGTHS = [1, 2, 3, 16, 127, 784, 1024, 4095, 16384]
with_backend = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)

KNOWN = {}  # the last truths


def kernel_error(system, L):
    """max |K - truth| / max |truth|, the worst of all features.

    The largest number is that of 64 steps at least: the few numbers of a shorter kernel may all happen to be near 0.
    """
    K, truth = dplr_kernel(*system, L), known_kernel(system, max(L, 64))
    assert torch.isfinite(K).all()
    return ((K.double() - truth[..., :L]).abs().amax(-1) / truth.abs().amax(-1)).max().item()


def known_kernel(system, L):
    """The dense kernel, which takes far longer than what is tested: worked out once for all backends."""
    key = L, *(t.numpy().tobytes() for t in system)
    if key not in KNOWN:
        while len(KNOWN) >= 20:
            KNOWN.pop(next(iter(KNOWN)))
        KNOWN[key] = dense_kernel(system, L)
    return KNOWN[key]


# LegS


@in_one_case(L=LENGTHS)
def test_legs_in_float64_is_exact_to_1e_10(backend, L):
    system = hippo_system("legs", N, GRID, seed=L)
    assert kernel_error(system, L) < 1e-10


@in_one_case(L=LENGTHS)
def test_legs_in_float32_is_exact_to_5e_6_on_the_grid(backend, L):
    system = hippo_system("legs", N, GRID, seed=L).to(torch.float32)
    assert kernel_error(system, L) < 5e-6


@given(st.integers(1, 16384), st.integers(0, 1 << 30))
@with_backend
def test_legs_in_float32_is_exact_to_2e_5_under_random_search(backend, L, seed):
    system = hippo_system("legs", N, log_uniform(8, seed=seed), seed=seed).to(torch.float32)
    assert kernel_error(system, L) < 2e-5


@given(st.integers(1, 16384), st.integers(0, 1 << 30))
@with_backend
def test_legs_in_float64_is_exact_to_1e_10_under_random_search(backend, L, seed):
    system = hippo_system("legs", N, log_uniform(4, seed=seed), seed=seed)
    assert kernel_error(system, L) < 1e-10


# LegT, LagT and FouT: the poles of the normal part sit on the line of the nodes


@in_pairs(backend=CPU_BACKENDS, init=["legt", "lagt", "fout"], L=[1024, 1023])
def test_undamped_systems_in_float64_are_exact_to_1e_8(backend, init, L):
    system = hippo_system(init, N, log_uniform(100, seed=L))
    assert kernel_error(system, L) < 1e-8


@in_pairs(backend=CPU_BACKENDS, init=["legt", "lagt", "fout"], L=[1024, 1023])
def test_undamped_systems_in_float32_are_exact_to_5e_6(backend, init, L):
    system = hippo_system(init, N, log_uniform(100, seed=L)).to(torch.float32)
    assert kernel_error(system, L) < 5e-6


def resonant_steps(init, L, count=100):
    """Step sizes at which a node falls exactly on a pole of the normal part: i tan(theta/2) = Lambda dt/2."""
    Lambda = dplr(init, N)[0].imag
    nodes = torch.arange(1, L // 2, dtype=torch.float64)
    dt = (2 * torch.tan(math.pi * nodes / L).unsqueeze(-1) / Lambda).flatten()
    dt = dt[(dt > 1e-3) & (dt < 0.1)]
    return dt[torch.randperm(len(dt), generator=torch.Generator().manual_seed(0))[:count]]


@in_pairs(by="backend, init", backend=CPU_BACKENDS, init=["legt", "lagt"], off=[0.0, 1e-12, 1e-9, 1e-8, 1e-7])
def test_a_node_on_a_pole_costs_no_more_than_half_the_digits(backend, init, off):
    L = 256
    system = hippo_system(init, N, resonant_steps(init, L) * (1 + off))
    assert kernel_error(system, L) < 1e-6


@pytest.mark.parametrize("init", ["legt", "lagt"])
def test_a_node_on_a_pole_stays_within_the_bound_of_float32(backend, init):
    L = 256
    system = hippo_system(init, N, resonant_steps(init, L)).to(torch.float32)
    assert kernel_error(system, L) < 5e-6


# S4D, whose kernel has no nodes


def diagonal_errors(init, rule, L, dtype):
    """Of the kernel, and of its gradients by Lambda, B, C and dt, against exponentials in float64."""
    system = hippo_system(init, N, log_uniform(3, seed=L)).to(dtype)
    exact, given = system.to(torch.float64).leaves(), system.leaves()
    K, truth = diagonal_kernel(*without_P(given), L, rule), diagonal_definition(exact, L, rule)
    found = zip(gradients(K, without_P(given)), gradients(truth, without_P(exact)), strict=True)
    return [((K - truth).abs().amax(-1) / truth.abs().amax(-1)).max().item(), *(error(g, true) for g, true in found)]


def without_P(system):
    return system.Lambda, system.B, system.C, system.dt


@in_pairs(backend=CPU_BACKENDS, init=DIAGONAL_INITS, rule=["zoh", "bilinear"], L=[50, 1001])
def test_s4d_and_its_gradients_in_float64_are_exact_to_1e_10(backend, init, rule, L):
    assert max(diagonal_errors(init, rule, L, torch.float64)) < 1e-10


@in_pairs(backend=CPU_BACKENDS, init=DIAGONAL_INITS, rule=["zoh", "bilinear"], L=[50, 1001])
def test_s4d_in_float32_is_exact_to_2e_6_and_its_gradients_to_2e_5(backend, init, rule, L):
    kernel, *errors, dt_error = diagonal_errors(init, rule, L, torch.float32)
    assert kernel < 2e-6
    assert max(errors) < 2e-5
    assert dt_error < 5e-5  # it is a sum of both signs, and may happen to be small


# Gradients, and a length of a million


def gradient_errors(system, L):
    """Of Lambda, P, B, C and dt, against the dense system in float64 from the same numbers."""
    exact = system.to(torch.float64).leaves()
    system = system.leaves()
    truth = gradients(dense_kernel(exact, L), exact)
    return [error(g, true) for g, true in zip(gradients(dplr_kernel(*system, L), system), truth, strict=True)]


@in_pairs(backend=CPU_BACKENDS, init=["legs", "legt", "lagt", "fout"], L=[784, 1001])
def test_gradients_in_float64_are_exact_to_1e_8(backend, init, L):
    assert max(gradient_errors(hippo_system(init, N, log_uniform(3, seed=L)), L)) < 1e-8


@pytest.mark.parametrize("init", ["legs", "legt", "lagt", "fout"])
@in_one_case(L=[50, 784, 1001, 4096])
def test_gradients_in_float32_are_exact_to_2e_5(compiled, monkeypatch, init, L):
    monkeypatch.setenv("LONGWAVE_KERNEL", "native")
    for seed in range(3):
        *errors, dt_error = gradient_errors(hippo_system(init, N, log_uniform(3, seed=L + seed)).to(torch.float32), L)
        assert max(errors) < 2e-5
        assert dt_error < 5e-5  # it is a sum of both signs, and may happen to be small


@pytest.mark.parametrize("L", [101, 784])
def test_legs_with_256_states_is_exact_to_2e_5_in_float32(compiled, monkeypatch, L):
    """Its damping is just enough for float32 away from the poles: measured 2.6e-6 and 9.7e-6."""
    monkeypatch.setenv("LONGWAVE_KERNEL", "native")
    system = hippo_system("legs", 256, log_uniform(2, seed=L)).to(torch.float32)
    assert not needs_float64(torch.view_as_real(system.Lambda), system.dt, DAMPING).any()
    assert kernel_error(system, L) < 1e-5
    assert max(gradient_errors(system, L)[:4]) < 2e-5


@pytest.mark.parametrize("init", ["legs", "legt", "lagt"])
@pytest.mark.parametrize("L", [784, 1001])
def test_the_reference_in_float32_has_two_digits_less_of_dt(monkeypatch, init, L):
    """All of a LegS kernel is in float32 there, nodes near a pole too, and dt's gradient is a small difference."""
    monkeypatch.setenv("LONGWAVE_KERNEL", "reference")
    *errors, dt_error = gradient_errors(hippo_system(init, N, log_uniform(3, seed=L)).to(torch.float32), L)
    assert max(errors) < 2e-5
    assert dt_error < 2e-3


@pytest.mark.slow
@pytest.mark.parametrize("init", ["legs", "legt", "lagt"])
def test_a_million_steps_in_float32_are_exact_to_2e_5(init):
    system = hippo_system(init, N, [0.001, 0.01, 0.1]).to(torch.float32)
    assert kernel_error(system, 1 << 20) < 2e-5


@pytest.mark.slow
@pytest.mark.parametrize("init", ["legs", "legt", "lagt"])
def test_gradients_over_a_million_steps_in_float32_are_exact_to_2e_5(init):
    assert max(gradient_errors(hippo_system(init, N, [0.001, 0.01, 0.1]).to(torch.float32), 1 << 20)) < 2e-5
