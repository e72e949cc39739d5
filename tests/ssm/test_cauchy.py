"""Algorithm 1 as the paper writes it, against the dense recurrence, and the Cauchy product against its sum."""

import pytest
import torch
from dense import dense_kernel, error, full, gradients, hippo_system, random_system
from pairwise import in_one_case

from longwave.ssm import cauchy_kernel, cauchy_product, dplr_kernel

DT = 0.0137


def parameters(system, Q=None):
    """One feature on all N states."""
    P = system.P[0, 0]
    return [full(part) for part in (system.Lambda[0], P, P if Q is None else Q[0, 0], system.B[0], system.C[0])]


@pytest.mark.parametrize("N", [2, 16])
@in_one_case(L=[1, 2, 3, 16, 31, 64, 257])
def test_the_literal_algorithm_gives_the_kernel_of_the_definition(N, L):
    """In float64: at even lengths a node near z = -1 is about 1e16 (docs/kernel.md)."""
    system = hippo_system("legs", N, [DT])
    K = cauchy_kernel(*parameters(system), system.dt.item(), L)
    assert K.shape == (L,)
    assert error(K, dense_kernel(system, L)[0]) < 1e-10
    assert error(K, dplr_kernel(*system, L)[0]) < 1e-10


@pytest.mark.parametrize("L", [1, 12, 33])
def test_with_a_q_of_its_own_it_is_the_papers_first_form_values_and_gradients(L):
    system = random_system(1, 4, 1).leaves()
    Q = (system.P + 0.3 * random_system(1, 4, 1, seed=9).P).detach().requires_grad_()
    K, truth = cauchy_kernel(*parameters(system, Q), system.dt.item(), L), dense_kernel(system, L, Q)[0]
    assert error(K.detach(), truth.detach()) < 1e-10
    inputs = (system.Lambda, system.P, system.B, system.C, Q)
    for value, true in zip(gradients(K, inputs), gradients(truth, inputs), strict=True):
        assert error(value, true) < 1e-8


def test_a_cauchy_product_is_its_sum():
    draw = torch.Generator().manual_seed(0)
    weights, nodes, poles = (
        torch.randn(*size, dtype=torch.complex128, generator=draw) for size in ((3, 5), (7,), (5,))
    )
    found = cauchy_product(weights, nodes, poles)
    for d in range(3):
        for i in range(7):
            assert abs(found[d, i] - sum(weights[d, n] / (nodes[i] - poles[n]) for n in range(5))) < 1e-12
