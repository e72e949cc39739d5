"""The state after a sequence and the states on the way, against the dense recurrence and the layer's own steps."""

import pytest
import torch
from dense import LOW_RANK_INITS, System, dense_recurrence, error
from pairwise import CPU_BACKENDS, in_pairs

from longwave import S4, S4D, ops
from longwave.ssm import dplr_step

LAYERS = {
    **{init: (S4, {"init": init}) for init in [*LOW_RANK_INITS, "random-nplr"]},
    "pq": (S4, {"low_rank": "pq"}),
    "shared": (S4, {"n_ssm": 1, "length": 150}),
    "s4d": (S4D, {}),
    "s4d-bilinear": (S4D, {"init": "s4d-lin", "rule": "bilinear"}),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


def make(name, dtype=torch.float64, H=4, N=8, seed=0):
    torch.manual_seed(seed)
    kind, options = LAYERS[name]
    return kind(H, N, dt_min=0.01, dt_max=0.1, **options).to(dtype)


def signal(batch, L, dtype=torch.float64, H=4, seed=1):
    return torch.randn(batch, L, H, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def random_state(layer, batch, seed=2):
    zero = layer.initial_state(batch)
    return torch.randn(zero.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.complex128).to(zero.dtype)


def by_steps(layer, u, state):
    """Each state, by what `layer.step` does; its constants are derived once."""
    discrete, found = layer.step_constants().discrete, []
    for u_t in u.unbind(1):
        state = dplr_step(discrete, state, u_t)
        found.append(state)
    return torch.stack(found, dim=1)


def gradients(value, layer, *more):
    """Of a fixed random weighting of a complex tensor, with respect to the parameters that have a say in it."""
    pairs = torch.view_as_real(value)
    weights = torch.randn(pairs.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(pairs.dtype)
    leaves = [*layer.parameters(), *more]
    return torch.autograd.grad((pairs * weights).sum(), leaves, materialize_grads=True)


@in_pairs(by="backend, name", backend=CPU_BACKENDS, name=LAYERS, dtype=[torch.float64, torch.float32])
def test_the_state_and_its_gradients_are_those_of_steps(backend, name, dtype):
    """Past some blocks, with steps that remain. In float32 against steps in float64; the worst seen is 7e-7."""
    layer, exact = make(name, dtype), make(name, dtype).double()
    u, bound = signal(3, 150, dtype).requires_grad_(), 1e-10 if dtype == torch.float64 else 1e-5
    start = random_state(layer, 3).requires_grad_()
    for state in (None, start):
        _, after = layer(u, state)
        wide = u.detach().double().requires_grad_()
        begin = exact.initial_state(3) if state is None else state.detach().to(torch.complex128).requires_grad_()
        truth = by_steps(exact, wide, begin)[:, -1]
        assert after.dtype == layer.initial_state(1).dtype
        assert error(after, truth) < bound
        leaves = ((u, state), (wide, begin)) if state is not None else ((u,), (wide,))
        found, expected = gradients(after, layer, *leaves[0]), gradients(truth, exact, *leaves[1])
        for value, true in zip(found, expected, strict=True):
            if true.abs().max() > 0:
                assert error(value, true) < bound
            else:
                assert (value == 0).all()


@in_pairs(by="backend, init", backend=CPU_BACKENDS, init=LOW_RANK_INITS, L=[1, 2, 63, 64, 65, 129, 500])
def test_outputs_and_state_after_any_length_are_those_of_the_dense_recurrence(backend, init, L):
    """Against dense matrices; the kernel of undamped systems has an error of 1e-9 of its own (docs/kernel.md)."""
    layer, u = make(init, N=16), signal(9, L)
    Lambda, P, B, C, D, dt = (t.detach() for t in layer.ssm())
    state = random_state(layer, 9)
    y, after = layer(u, state)
    true_y, true_state = dense_recurrence(System(Lambda, P, B, C, dt), u, state)
    assert error(after, true_state) < 1e-10
    assert error(y - u * D, true_y) < 1e-8


@every_layer
def test_the_state_after_each_rows_length_is_that_of_the_row_alone(backend, name):
    layer, u = make(name), signal(5, 200)
    lengths = torch.tensor([0, 200, 64, 127, 3])
    state = random_state(layer, 5)
    padded = torch.where(torch.arange(200)[None, :, None] < lengths[:, None, None], u, torch.nan)
    _, after = layer(padded, state, lengths=lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = state[row : row + 1]
        if length:
            _, alone = layer(u[row : row + 1, :length], alone)
        assert error(after[row], alone[0]) < 1e-11


def test_single_precision_keeps_its_digits_over_many_blocks(backend):
    """What is carried from block to block is in double: 2,000 steps, 31 blocks. The worst seen is 8e-7."""
    for name in ("legs", "legt", "lagt"):
        layer = make(name, torch.float32, N=64)
        u = signal(2, 2000, torch.float32)
        with torch.no_grad():
            truth = layer.double().states(u.double(), every=2000)[:, 0]
            _, after = make(name, torch.float32, N=64)(u)
        assert error(after, truth) < 5e-6


def test_a_gradient_into_the_outputs_alone_does_nothing_for_the_state(backend, monkeypatch):
    called = []
    for op in ("krylov", "power", "collect", "scan"):
        functions = ops.BACKENDS[backend].functions
        backward = functions[f"{op}_backward"]
        monkeypatch.setitem(functions, f"{op}_backward", lambda *a, f=backward, op=op: (called.append(op), f(*a))[1])
    layer, u = make("legs"), signal(40, 150)
    y, _ = layer(u)
    y.sum().backward()
    assert not called
    layer(u)[1].abs().sum().backward()
    assert set(called) == {"krylov", "power", "collect", "scan"}


# The states on the way


@every_layer
def test_states_are_those_of_steps(backend, name):
    layer, u = make(name), signal(2, 50)
    state, lengths = random_state(layer, 2), torch.tensor([50, 17])
    truth = by_steps(layer, u, state)
    assert error(layer.states(u, state), truth) < 1e-12
    assert error(layer.states(u, state, every=7), truth[:, 6::7]) < 1e-12
    assert layer.states(u, every=51).shape == (2, 0, 4, 4)
    padded = u.clone()
    padded[1, 17:] = torch.nan
    found = layer.states(padded, state, every=5, lengths=lengths)
    assert error(found[0], truth[0, 4::5]) < 1e-12
    assert error(found[1, :3], truth[1, 4:17:5]) < 1e-12
    assert all(torch.equal(later, found[1, 3]) for later in found[1, 3:])  # it stays what it is after its length
    assert error(found[1, 3], truth[1, 16]) < 1e-12


@pytest.mark.parametrize("every", [1, 6])
def test_gradients_of_states_are_those_of_steps(backend, every):
    layer, u = make("legs"), signal(2, 20).requires_grad_()
    state = random_state(layer, 2).requires_grad_()
    truth = gradients(by_steps(layer, u, state)[:, every - 1 :: every], layer, u, state)
    for value, true in zip(gradients(layer.states(u, state, every=every), layer, u, state), truth, strict=True):
        assert error(value, true) < 1e-11 if true.abs().max() > 0 else (value == 0).all()


def test_the_last_of_the_states_is_what_the_forward_pass_gives(backend):
    layer, u = make("legs", torch.float32), signal(2, 128, torch.float32)
    _, after = layer(u, rate=1.7)
    states = layer.states(u, every=32, rate=1.7)
    assert states.dtype == torch.complex64
    assert error(states[:, -1], after) < 2e-6


def test_states_that_do_not_fit_are_refused_with_the_memory_that_they_take():
    layer, u = S4(4, 8), torch.randn(2, 30, 4)
    assert layer.states(u, every=3, limit=2 * 10 * 4 * 4 * 8).shape == (2, 10, 4, 4)
    with pytest.raises(
        ValueError, match=r"^limit: states \(2, 10, 4, 4\) take 2,560 bytes, more than .* 2,559; increase"
    ):
        layer.states(u, every=3, limit=2559)
    with pytest.raises(ValueError, match="every: expected"):
        layer.states(u, every=0)
    with pytest.raises(ValueError, match="states: a bidirectional layer has no state"):
        S4(4, 8, bidirectional=True).states(u)
