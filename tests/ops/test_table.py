"""The table of the ops: what it says is what torch has, and what callers are told."""

import inspect

import pytest
import torch
from dense import random_system

from longwave import ops
from longwave.ops import BACKENDS
from longwave.ops.table import OPS
from longwave.ssm import dplr_bilinear

registered = torch.ops.longwave


def pairs(*tensors):
    return [torch.view_as_real(t.resolve_conj()).contiguous() for t in tensors]


def step():
    """change, left, right and B_bar of two features with six numbers of state each."""
    system = random_system(2, 3, 1)
    change, left, right, B_bar = pairs(*dplr_bilinear(system.Lambda, system.P, system.B, system.dt))
    return change, left, right, B_bar.flatten(-2)


def signal():
    """u, K and D of a convolution."""
    return [torch.randn(shape, dtype=torch.float64) for shape in ((2, 9, 3), (1, 3, 9), (3,))]


@pytest.mark.parametrize("name", OPS)
def test_the_functions_of_a_backend_take_what_the_table_says(name):
    """By position: a backend may have names of its own, and arguments with defaults behind."""
    for backend in BACKENDS.values():
        for function, signature in ((name, OPS[name].forward), (f"{name}_backward", OPS[name].backward)):
            if name in backend.ops:
                inspect.signature(backend.functions[function]).bind(*signature.names)


def test_a_refusal_names_the_argument_that_does_not_fit_the_first():
    system = random_system(3, 4, 1)
    Lambda, P, B, C, dt = *pairs(system.Lambda, system.P, system.B, system.C.unsqueeze(0)), system.dt
    with pytest.raises(ValueError, match=r"^dt: expected torch\.float64 \(3\) on cpu beside Lambda \(3, 4, 2\), got"):
        ops.spectrum(Lambda, P, B, C, dt[:2], 8)
    with pytest.raises(ValueError, match=r"^Lambda: expected floating-point numbers \(H, M, 2\), got torch\.int64"):
        ops.spectrum(Lambda.long(), P, B, C, dt, 8)
    u, K, D = signal()
    with pytest.raises(ValueError, match=r"^u: expected torch\.float32 or torch\.float64 \(batch, L, H\), got"):
        ops.convolve(u.bfloat16(), K.bfloat16(), D.bfloat16())


def test_options_out_of_range_are_refused_by_name():
    with pytest.raises(ValueError, match=r"^T: expected a power of two steps per block, got 3"):
        ops.power(*step()[:3], 3)
    with pytest.raises(ValueError, match=r"^count: expected a number of vectors of at least 1, got 0"):
        ops.krylov(*step(), 0)


def test_a_power_is_required_where_states_move_from_block_to_block():
    columns, u, lengths = torch.randn(2, 4, 6).double(), torch.randn(1, 8, 2), torch.tensor([8])
    with pytest.raises(ValueError, match=r"^E: expected A\^4 - I, .* got None"):
        ops.collect(columns, None, u, None, lengths)
    with pytest.raises(ValueError, match=r"^E: expected A\^4 - I, .* got None"):
        ops.spread(columns, None, torch.randn(1, 2, 6), 5)


def test_graphs_know_the_shapes_of_states_without_a_power_or_a_start(backend):
    columns = step()[3].unsqueeze(1).repeat(1, 4, 1)
    u, x, lengths = torch.randn(2, 5, 2), torch.randn(2, 2, 6), torch.tensor([5, 3])
    _, kept = registered.collect(columns, None, u, None, lengths, True)
    given = (x, columns, None, u, lengths, kept, False)
    calls = [(registered.collect, (columns, None, u, None, lengths, keep)) for keep in (True, False)]
    calls += [(registered.spread, (columns, None, x, 3, keep)) for keep in (True, False)]
    for op, arguments in (*calls, (registered.collect_backward, given)):
        torch.library.opcheck(op.default, arguments, test_utils="test_faketensor")
    assert [g.shape for g in registered.collect_backward(*given)] == [columns.shape, u.shape]


def test_a_signal_shorter_than_a_block_leaves_a_state_and_its_gradient_as_they_are(backend):
    columns, E = (t.requires_grad_() for t in (ops.krylov(*step(), 8), ops.power(*step()[:3], 8)))
    for dtype in (torch.float32, torch.float64):
        u, x = (torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in ((2, 5, 2), (2, 2, 6)))
        state, grad = ops.collect(columns, E, u, x, torch.tensor([5, 3])), torch.randn(2, 2, 6, dtype=dtype)
        assert torch.equal(state, x)
        *others, dx = torch.autograd.grad(state, (columns, E, u, x), grad)
        assert torch.equal(dx, grad)
        assert not any(g.any() for g in others)
        assert not ops.collect(columns, None, u, None, torch.tensor([5, 3])).any()


def test_second_derivatives_are_refused_in_plain_words(backend):
    inputs = [t.requires_grad_() for t in signal()]
    (du,) = torch.autograd.grad(ops.convolve(*inputs).square().sum(), inputs[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="convolve_backward is not differentiable: second derivatives are not"):
        du.sum().backward()
