"""The convolution in plain torch, against the sum that defines it."""

import pytest
import torch
from dense import direct_convolution, error, gradients
from hypothesis import given
from hypothesis import strategies as st
from pairwise import in_one_case

from longwave.ssm import fft_conv


def signals(batch, L, H, sides=1, seed=0):
    """u (batch, L, H) and one kernel (H, L) for each side."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((batch, L, H), *((H, L),) * sides)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize("sides", [1, 2])
@in_one_case(L=[1, 2, 3, 17, 64, 101])
def test_the_convolution_and_its_gradients_are_those_of_the_direct_sum(L, sides):
    inputs = [t.requires_grad_() for t in signals(3, L, 4, sides)]
    y, truth = fft_conv(*inputs), direct_convolution(*inputs)
    assert error(y, truth) < 1e-13
    for value, true in zip(gradients(y, inputs), gradients(truth, inputs), strict=True):
        assert (value - true).abs().max() < 1e-13 * true.abs().max().clamp(min=1)


@given(st.integers(1, 3), st.integers(1, 90), st.integers(1, 5), st.integers(1, 2), st.integers(0, 1 << 30))
def test_any_sizes_give_the_direct_sum(batch, L, H, sides, seed):
    u, *K = signals(batch, L, H, sides, seed)
    assert error(fft_conv(u, *K), direct_convolution(u, *K)) < 1e-12


def test_d_is_added():
    u, K = signals(2, 9, 3)
    D = torch.randn(3, dtype=torch.float64)
    assert error(fft_conv(u, K, D=D), direct_convolution(u, K) + D * u) < 1e-13


def test_second_derivatives_are_those_of_the_direct_sum():
    """They are torch's own here: the op refuses them."""
    inputs = [t.requires_grad_() for t in signals(1, 4, 1)]

    def second(convolution):
        first = torch.autograd.grad(convolution(*inputs).square().sum(), inputs, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), inputs)

    for value, true in zip(second(fft_conv), second(direct_convolution), strict=True):
        assert error(value, true) < 1e-12


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("K", [torch.zeros(3, 7), torch.zeros(2, 8), torch.zeros(8)])
def test_a_kernel_that_does_not_fit_is_refused(K):
    with pytest.raises(ValueError, match=r"^K: expected \(3, 8\) beside u \(2, 8, 3\), got"):
        fft_conv(torch.zeros(2, 8, 3), K)
    with pytest.raises(ValueError, match=r"^K_back: expected"):
        fft_conv(torch.zeros(2, 8, 3), torch.zeros(3, 8), K)
