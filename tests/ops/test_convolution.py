"""The convolution op by every backend, against the sum that defines it."""

import pytest
import torch
from dense import direct_convolution, error, gradients
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pairwise import CPU_BACKENDS, in_pairs
from torch.autograd import gradcheck

from longwave.ops import fft_conv

LENGTHS = [1, 2, 3, 5, 8, 17, 64, 101]
with_backend = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def signals(batch, L, H, sides=1, dtype=torch.float64, seed=0):
    """u (batch, L, H) and one kernel (H, L) for each side."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((batch, L, H), *((H, L),) * sides)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


@in_pairs(by="backend", backend=CPU_BACKENDS, L=LENGTHS, sides=[1, 2])
def test_the_convolution_is_the_direct_sum(backend, L, sides):
    u, *K = signals(3, L, 4, sides)
    y = fft_conv(u, *K)
    assert y.shape == u.shape
    assert error(y, direct_convolution(u, *K)) < 1e-13


@in_pairs(by="backend", backend=CPU_BACKENDS, L=LENGTHS, sides=[1, 2])
def test_its_gradients_are_those_of_the_direct_sum(backend, L, sides):
    inputs = [t.requires_grad_() for t in signals(3, L, 4, sides)]
    truth = gradients(direct_convolution(*inputs), inputs)
    for value, true in zip(gradients(fft_conv(*inputs), inputs), truth, strict=True):
        if true.abs().max() == 0:  # the backward kernel of one step reaches nothing
            assert value.abs().max() == 0
        else:
            assert error(value, true) < 1e-13


@given(st.integers(1, 4), st.integers(1, 90), st.integers(1, 40), st.integers(1, 2), st.integers(0, 1 << 30))
@with_backend
def test_any_sizes_give_the_direct_sum(backend, batch, L, H, sides, seed):
    u, *K = signals(batch, L, H, sides, seed=seed)
    assert error(fft_conv(u, *K), direct_convolution(u, *K)) < 1e-12


@pytest.mark.parametrize("sides", [1, 2])
def test_gradcheck(backend, sides):
    assert gradcheck(fft_conv, [t.requires_grad_() for t in signals(2, 5, 2, sides)])


@pytest.mark.parametrize("sides", [1, 2])
def test_many_features_that_fill_several_groups_give_the_direct_sum(backend, sides):
    """The compiled backend works on groups of features, the last of which may be smaller."""
    inputs = [t.requires_grad_() for t in signals(2, 500, 70, sides)]
    y = fft_conv(*inputs)
    some = [inputs[0].detach()[..., 60:], *(K.detach()[60:] for K in inputs[1:])]
    assert error(y[..., 60:], direct_convolution(*some)) < 1e-12
    du, *dK = gradients(y, inputs)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    leaves = [t.requires_grad_() for t in some]
    for value, true in zip(
        (du[..., 60:], *(g[60:] for g in dK)),
        torch.autograd.grad((direct_convolution(*leaves) * weights[..., 60:]).sum(), leaves),
        strict=True,
    ):
        assert error(value, true) < 1e-12


@in_pairs(backend=CPU_BACKENDS, L=[1, 100, 1023], sides=[1, 2])
def test_float32_stays_within_rounding(backend, L, sides):
    u, *K = signals(2, L, 3, sides, torch.float32)
    y = fft_conv(u, *K)
    assert y.dtype == torch.float32
    assert error(y, direct_convolution(u.double(), *(k.double() for k in K))) < 2e-6


def test_the_causal_convolution_does_not_see_the_future(backend):
    u, K = signals(1, 40, 2)
    changed = u.clone()
    changed[:, 25:] += 100
    y, y_changed = fft_conv(u, K), fft_conv(changed, K)
    torch.testing.assert_close(y[:, :25], y_changed[:, :25], rtol=0, atol=1e-11)
    assert (y[:, 25] - y_changed[:, 25]).abs().min() > 1e-3


def test_nothing_wraps_around(backend):
    L = 33
    u, K = torch.zeros(1, L, 1, dtype=torch.float64), torch.zeros(1, L, dtype=torch.float64)
    u[0, -1], K[0, -1] = 1, 1
    assert fft_conv(u, K).abs().max() < 1e-15
    u = u.flip(1)
    assert fft_conv(u, torch.zeros_like(K), K).abs().max() < 1e-15


def test_the_backward_kernel_starts_one_step_ahead(backend):
    u, K = torch.zeros(1, 6, 1, dtype=torch.float64), torch.zeros(1, 6, dtype=torch.float64)
    u[0, 3] = 1
    K_back = torch.arange(1.0, 7, dtype=torch.float64).unsqueeze(0)
    torch.testing.assert_close(fft_conv(u, K, K_back)[0, :, 0], torch.tensor([3.0, 2, 1, 0, 0, 0], dtype=torch.float64))


def test_strided_and_expanded_inputs_give_the_same(backend):
    u, K = signals(2, 30, 3)
    expected = fft_conv(u, K)
    strided = torch.empty(2, 3, 60, dtype=torch.float64)[..., ::2].mT.copy_(u)
    assert not strided.is_contiguous()
    assert error(fft_conv(strided, K.T.contiguous().T), expected) < 1e-14
    leaf = K[:1].clone().requires_grad_()
    fft_conv(u, leaf.expand(3, -1)).sum().backward()
    full = K[:1].repeat(3, 1).requires_grad_()
    fft_conv(u, full).sum().backward()
    assert error(leaf.grad, full.grad.sum(0, keepdim=True)) < 1e-13


def test_a_gradient_that_is_expanded_or_strided_is_read_right(backend):
    inputs = [t.requires_grad_() for t in signals(2, 12, 3)]
    truth = torch.autograd.grad(direct_convolution(*inputs)[:, ::2].sum(), inputs)
    for value, true in zip(torch.autograd.grad(fft_conv(*inputs)[:, ::2].sum(), inputs), truth, strict=True):
        assert error(value, true) < 1e-13


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_a_gradient_can_be_wanted_for_one_input_only(backend, wanted):
    inputs = signals(2, 9, 3, 2)
    inputs[wanted].requires_grad_()
    (value,) = gradients(fft_conv(*inputs), [inputs[wanted]])
    (true,) = gradients(direct_convolution(*inputs), [inputs[wanted]])
    assert error(value, true) < 1e-13


def test_second_derivatives_are_right_or_refused(backend):
    """Never silently wrong."""
    inputs = [t.requires_grad_() for t in signals(1, 4, 1)]

    def second(convolution):
        first = torch.autograd.grad(convolution(*inputs).square().sum(), inputs, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), inputs)

    truth = second(direct_convolution)
    try:
        values = second(fft_conv)
    except (RuntimeError, NotImplementedError) as refusal:
        assert "autograd" in str(refusal) or "differentiable" in str(refusal)  # noqa: PT017
    else:
        assert max(error(value, true) for value, true in zip(values, truth, strict=True)) < 1e-12


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("K", [torch.zeros(3, 7), torch.zeros(2, 8), torch.zeros(3, 8).double(), torch.zeros(8)])
def test_a_kernel_that_does_not_fit_is_refused(backend, K):
    with pytest.raises((ValueError, RuntimeError, IndexError)):
        fft_conv(torch.zeros(2, 8, 3), K)
