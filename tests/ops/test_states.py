"""States of whole sequences: the compiled ops, the reference and the recurrence itself agree, gradients included."""

import pytest
import torch
from dense import LOW_RANK_INITS, WITHOUT_DYNAMIC_SHAPES, error, hippo_system, log_uniform, random_system
from pairwise import in_pairs
from torch.autograd import gradcheck

from longwave import ops
from longwave.ops import reference
from longwave.ops.cpu import states
from longwave.ssm import diagonal_discrete, dplr_bilinear, dplr_step, moved_row
from longwave.ssm.states import LONGEST, SHORTEST, block_size

VECTOR_BITS = (128, 256, 512)
T = 16
# Rows of a tile go six at a time, then those that are left; a tile has 64 rows of the batch at most.
SHAPES = [(1, 16, None), (3, 100, None), (6, 100, [0, 16, 15, 100, 99, 33]), (67, 40, None)]


def step_of(system, diagonal=False):
    """change, left, right (pairs) and B_bar (H, N) of a system, in float64."""
    if diagonal:
        discrete = diagonal_discrete(system.Lambda, system.B, system.dt)
    else:
        discrete = dplr_bilinear(system.Lambda, system.P, system.B, system.dt)
    change, left, right, B_bar = (torch.view_as_real(t.resolve_conj()).contiguous() for t in discrete)
    return change, left, right, B_bar.flatten(-2)


def random_step(H, M, rank, seed=0):
    return step_of(random_system(H, M, rank, seed=seed), diagonal=rank == 0)


def by_steps(step, u, x, lengths):
    """The states after each step (batch, L, H, N), one after the other; a row stays as it is after its length."""
    change, left, right, B_bar = step
    pairs = [torch.view_as_complex(t) for t in (change, left, right, B_bar.unflatten(-1, (-1, 2)))]
    discrete = type(dplr_bilinear(*random_system(1, 1, 1)[:3], torch.ones(1)))(*pairs)
    x, found = torch.view_as_complex(x.double().unflatten(-1, (-1, 2))), []
    for k, u_k in enumerate(u.double().unbind(1)):
        x = torch.where((lengths > k)[:, None, None], dplr_step(discrete, x, u_k), x)
        found.append(torch.view_as_real(x).flatten(-2))
    return torch.stack(found, dim=1)


def worst(values, truth):
    values, truth = (list(x) if isinstance(x, list | tuple) else [x] for x in (values, truth))
    nothing = [true.numel() > 0 and not true.any() for true in truth]  # no step, no gradient of one
    assert not any(value.any() for value, empty in zip(values, nothing, strict=True) if empty)
    return max(error(v, t) for v, t, empty in zip(values, truth, nothing, strict=True) if not empty)


@in_pairs(by="bits", bits=VECTOR_BITS, M=[1, 3, 32], rank=[0, 1, 2])
def test_the_compiled_tables_agree_with_the_reference(limit_vectors, bits, M, rank):
    """In float64 both; the gradients of a power are sums over the steps of a block."""
    limit_vectors(bits)
    change, left, right, B_bar = random_step(3, M, rank)
    for count in (1, 2, 64):
        for transposed in (False, True):
            arguments = (change, left, right, B_bar, count, transposed)
            vectors = reference.krylov(*arguments)
            assert worst(states.krylov(*arguments), vectors) < 1e-12
            truth = reference.krylov_backward(vectors, *arguments)
            assert worst(states.krylov_backward(vectors, *arguments), truth) < 1e-11
        E = reference.power(change, left, right, count)
        assert worst(states.power(change, left, right, count), E) < 1e-12
        truth = reference.power_backward(E, change, left, right, count)
        assert worst(states.power_backward(E, change, left, right, count), truth) < 1e-11


@in_pairs(
    by="dtype",
    **{
        "dtype": [torch.float32, torch.float64],
        "batch, L, lengths": SHAPES,
        "M, rank": [(3, 0), (1, 1), (32, 1), (3, 2)],
    },
)
def test_the_compiled_sums_agree_with_the_reference(limit_vectors, dtype, batch, L, lengths, M, rank):
    """In float32 the worst that was seen is 4e-7: sums of the steps of a block and, in gradients, of all rows."""
    bound = 1e-12 if dtype == torch.float64 else 1e-5
    step = random_step(5, M, rank)
    columns, E = reference.krylov(*step, T, False), reference.power(*step[:3], T)
    torch.manual_seed(0)
    u, x = torch.randn(batch, L, 5, dtype=dtype), torch.randn(batch, 5, 2 * M, dtype=dtype)
    steps = torch.full((batch,), L) if lengths is None else torch.tensor(lengths)
    for bits in VECTOR_BITS:
        limit_vectors(bits)
        for start in (None, x):
            last, kept = reference.collect(columns, E, u, start, steps, True)
            assert worst(states.collect(columns, E, u, start, steps, True), (last, kept)) < bound
            arguments = (last, columns, E, u, steps, kept, start is not None)
            truth = reference.collect_backward(*arguments)
            assert worst(states.collect_backward(*arguments), truth) < bound
        y, kept = reference.spread(columns, E, x, L, True)
        assert worst(states.spread(columns, E, x, L, True), (y, kept)) < bound
        truth = reference.spread_backward(y, columns, E, kept)
        assert worst(states.spread_backward(y, columns, E, kept), truth) < bound
        for every in (7, L):
            out = reference.scan(*step, u, x, steps, every)
            assert worst(states.scan(*step, u, x, steps, every), out) < bound
            truth = reference.scan_backward(out, *step, u, x, steps, out, every)
            values = states.scan_backward(out, *step, u, x, steps, out, every)
            assert worst(values, truth) < bound


@pytest.mark.parametrize("init", [*LOW_RANK_INITS, "s4d-lin"])
def test_blocks_and_scans_equal_the_recurrence(backend, init):
    """At 1e-11: steps of high frequency add up an angle that is rounded."""
    diagonal = init.startswith("s4d")
    step = step_of(hippo_system(init, 16, log_uniform(3)), diagonal)
    u, x = torch.randn(2, 100, 3, dtype=torch.float64), torch.randn(2, 3, 16, dtype=torch.float64)
    lengths = torch.tensor([37, 100])
    truth = by_steps(step, u, x, lengths)
    assert error(ops.scan(*step, u, x, lengths, 1), truth) < 1e-11
    assert error(ops.scan(*step, u, x, lengths, 30), truth[:, [29, 59, 89]]) < 1e-11
    columns, E = ops.krylov(*step, T), ops.power(*step[:3], T)
    after = ops.collect(columns, E, u, x, lengths)
    assert error(after, torch.stack([truth[0, 31], truth[1, 95]])) < 1e-11
    free = by_steps(step, torch.zeros_like(u), x, torch.tensor([100, 100]))
    free = torch.cat((x.unsqueeze(1), free[:, :-1]), dim=1)
    y = ops.spread(ops.krylov(*step[:3], step[3], T, transposed=True), E, x, 100)
    assert error(y, torch.einsum("blhn,hn->blh", free, step[3])) < 1e-11


def test_an_output_map_moves_by_a_step():
    system = random_system(3, 4, 2)
    discrete = dplr_bilinear(system.Lambda, system.P, system.B, system.dt)
    x = torch.randn(2, 3, 4, dtype=torch.complex128)
    later = dplr_step(discrete, x, torch.zeros(2, 3, dtype=torch.float64))
    moved = moved_row(discrete, system.C)
    assert error((moved * x).real.sum(-1), (system.C * later).real.sum(-1)) < 1e-13


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_gradcheck_of_states(backend, rank):
    step = [t.requires_grad_() for t in random_step(1, 2, rank)]
    torch.manual_seed(0)
    u, x = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 5, 1), (2, 1, 4)))
    lengths = torch.tensor([5, 3])
    assert gradcheck(lambda *step: ops.krylov(*step, 3, transposed=True), step)
    assert gradcheck(lambda *step: ops.power(*step, 4), step[:3])
    assert gradcheck(lambda *given: ops.scan(*given, lengths, 2), (*step, u, x))
    columns, E = (t.detach().requires_grad_() for t in (ops.krylov(*step, 2), ops.power(*step[:3], 2)))
    assert gradcheck(lambda *given: ops.collect(*given, lengths), (columns, E, u, x))
    few = torch.tensor([3, 1])
    assert gradcheck(lambda columns, u: ops.collect(columns, None, u, None, few), (columns, u[:, :3]))
    assert gradcheck(lambda *given: ops.spread(*given, 5), (columns, E, x))


@pytest.mark.parametrize("rank", [0, 1])
def test_states_are_proper_ops(backend, rank):
    step = [t.requires_grad_() for t in random_step(2, 3, rank)]
    u, x = (torch.randn(*shape, requires_grad=True) for shape in ((2, 5, 2), (2, 2, 6)))
    lengths = torch.tensor([5, 3])
    registered = torch.ops.longwave
    columns, E = (t.detach().requires_grad_() for t in (ops.krylov(*step, 2), ops.power(*step[:3], 2)))
    calls = {registered.krylov: (*step, 2, True), registered.power: (*step[:3], 4)}
    if rank:
        calls |= {
            registered.collect: (columns, E, u, x, lengths, True),
            registered.spread: (columns, E, x, 5, True),
            registered.scan: (*step, u, x, lengths, 2),
        }
    utils = "ALL" if rank and backend == "reference" else WITHOUT_DYNAMIC_SHAPES
    for op, arguments in calls.items():
        torch.library.opcheck(op.default, arguments, test_utils=utils)


def test_what_stands_behind_a_rows_end_has_no_effect_on_states(backend):
    step = random_step(3, 2, 1)
    columns, E = ops.krylov(*step, T), ops.power(*step[:3], T)
    u, x, lengths = torch.randn(2, 70, 3), torch.randn(2, 3, 4), torch.tensor([40, 16])
    other = u.clone()
    other[0, 40:], other[1, 16:] = torch.nan, torch.inf
    u.requires_grad_(), other.requires_grad_()
    for compute in (lambda u: ops.collect(columns, E, u, x, lengths), lambda u: ops.scan(*step, u, x, lengths, 70)):
        assert torch.equal(compute(u), compute(other))
        gradients = [torch.autograd.grad(compute(v).sum(), v)[0] for v in (u, other)]
        assert torch.equal(*gradients)
        assert (gradients[0][0, 40:] == 0).all()


def test_states_that_were_not_kept_are_computed_again_for_gradients(backend):
    step = random_step(2, 2, 1)
    columns, E = ops.krylov(*step, T), ops.power(*step[:3], T)
    x = torch.randn(1, 2, 4, requires_grad=True)
    u, lengths = torch.randn(1, 50, 2, requires_grad=True), torch.tensor([50])
    for keep in (True, False):
        last, _ = torch.ops.longwave.collect(columns, E, u, x, lengths, keep)
        y, _ = torch.ops.longwave.spread(columns, E, x, 50, keep)
        found = torch.autograd.grad(last.sum() + y.sum(), (u, x))
        expected = found if keep else expected
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_blocks_are_powers_of_two_that_grow_with_the_signal():
    sizes = [block_size(batch, L, 64, 1) for batch, L in ((1, 10), (16, 1024), (8, 4096), (64, 16384))]
    assert sizes == sorted(sizes)
    assert all(size & (size - 1) == 0 and SHORTEST <= size <= LONGEST for size in sizes)
    assert block_size(1, 100, 64, 1) > 100  # no power of A_bar for so few steps
    assert block_size(1000, 150, 8, 1) == SHORTEST  # few steps remain after the last whole block
    assert block_size(64, 2056, 64, 1) == 256  # an eighth at most, if the length is no power of two, too
    assert block_size(64, 16384, 64, 0) == SHORTEST  # powers of a diagonal matrix cost nothing


def test_a_thread_without_memory_raises_and_does_not_end_the_process():
    """Memory for 2^50 steps cannot be had, whatever the system promises; an empty batch has that many without any."""
    change, left, right, B_bar = step_of(hippo_system("legs", 2, dt=0.1))
    L = 1 << 50
    u, start, states_out = torch.empty(0, L, 1), torch.empty(0, 1, 2), torch.empty(0, 1, 1, 2)
    lengths = torch.empty(0, dtype=torch.int64)
    with pytest.raises(MemoryError, match="scan_backward"):
        states.scan_backward(states_out, change, left, right, B_bar, u, start, lengths, states_out, every=L)
