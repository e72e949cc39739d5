"""Packed batches: sequences end to end in one row equal each of them alone, and nothing crosses a seam."""

import itertools
import math

import pytest
import torch
from dense import error
from pairwise import in_one_case

from longwave import S4, S4D
from longwave.layers import MIXERS, make_mixer, packed

H, N = 4, 6
# Empty ones at the ends and within, single steps, both sides of a block of 64 steps, and lengths far apart.
LENGTHS = [0, 5, 1, 1, 0, 400, 37, 40, 64, 300, 2, 350, 0]
# Of outputs, states and the input's gradient, and of the parameters' gradients, which are sums that cancel. The worst
# of 6 seeds, with both backends: 3e-15 and 8e-14 in float64, 4e-7 and 5e-5 in float32.
BOUNDS = {torch.float64: (1e-13, 1e-12), torch.float32: (2e-6, 5e-4)}
LAYERS = {
    "s4": lambda **settings: S4(H, N, **settings),
    "s4 of one length": lambda **settings: S4(H, N, length=40, **settings),
    "s4 pq": lambda **settings: S4(H, N, low_rank="pq", **settings),
    "s4d": lambda **settings: S4D(H, N, **settings),
}
BOTH = torch.tensor([0, 4, 9])
every_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


def bounds(lengths):
    return torch.tensor([0, *lengths]).cumsum(0)


def alone(layer, u, lengths, **settings):
    """Outputs and states of the sequences one by one; of empty ones there is no output, and the initial state."""
    outputs, states = [], []
    for sequence in u.split(lengths, dim=1):
        y, state = layer(sequence, **settings) if sequence.shape[1] else (sequence, None)
        outputs.append(y)
        states.append(layer.initial_state(1) if state is None and not layer.bidirectional else state)
    return torch.cat(outputs, dim=1), None if layer.bidirectional else torch.cat(states)


def together(layer, u, lengths, **settings):
    return layer(u, cu_seqlens=bounds(lengths), **settings)


def with_gradients(run, layer, lengths, dtype, **settings):
    """Outputs, states, and the gradients of a loss of both: of the input and of all parameters."""
    draws = torch.Generator().manual_seed(1)
    u = torch.randn(1, sum(lengths), H, generator=draws, dtype=torch.float64).to(dtype).requires_grad_()
    y, states = run(layer, u, lengths, **settings)
    loss = (y * torch.randn(y.shape, generator=draws, dtype=torch.float64).to(dtype)).sum()
    if states is not None:
        loss = loss + torch.view_as_real(states).square().sum()
    found = {"y": y, "u": torch.autograd.grad(loss, u, retain_graph=True)[0]}
    found |= {} if states is None else {"states": states}
    gradients = torch.autograd.grad(loss, list(layer.parameters()))
    return found | dict(zip((name for name, _ in layer.named_parameters()), gradients, strict=True))


def close(found, expected, dtype):
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        assert error(found[name], value) < BOUNDS[dtype][name not in ("y", "u", "states")], name


@every_layer
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@in_one_case(settings=[{}, {"rate": 1.7}])
def test_packed_sequences_equal_each_alone(make, dtype, settings):
    torch.set_default_dtype(dtype)
    layer = make()
    found = with_gradients(together, layer, LENGTHS, dtype, **settings)
    expected = with_gradients(alone, layer, LENGTHS, dtype, **settings)
    assert found["states"].shape == (len(LENGTHS), H, N // 2)
    close(found, expected, dtype)


@every_layer
def test_packed_sequences_equal_each_alone_both_ways(make):
    torch.set_default_dtype(torch.float64)
    layer = make(bidirectional=True)
    found = with_gradients(together, layer, LENGTHS, torch.float64)
    expected = with_gradients(alone, layer, LENGTHS, torch.float64)
    assert together(layer, torch.randn(1, sum(LENGTHS), H), LENGTHS)[1] is None
    close(found, expected, torch.float64)


def test_nothing_crosses_a_seam(backend):
    """Not even NaN, which every product passes on."""
    layer, lengths = S4(H, N), [70, 65, 70, 1, 64]
    u = torch.randn(1, sum(lengths), H)
    u[0, 70 + 30] = math.nan
    y, states = together(layer, u, lengths)
    assert y[0, :70].isfinite().all()
    assert y[0, 135:].isfinite().all()
    assert states.isfinite().flatten(1).all(1).tolist() == [True, False, True, True, True]


def test_the_states_go_on_as_rows_of_a_batch():
    torch.set_default_dtype(torch.float64)
    layer, lengths = S4(H, N), [30, 0, 7]
    u, after = torch.randn(1, 37, H), torch.randn(3, 20, H)
    y, _ = layer(after, together(layer, u, lengths)[1])
    for k, sequence in enumerate(u.split(lengths, dim=1)):
        whole, _ = layer(torch.cat((sequence, after[k : k + 1]), dim=1))
        torch.testing.assert_close(y[k], whole[0, -20:])


@pytest.mark.parametrize("settings", [{"need_state": False}, {}], ids=str)
def test_no_state_is_computed_that_nobody_asked_for(settings, monkeypatch):
    layer = S4(H, N, return_state=bool(settings))
    monkeypatch.setattr("longwave.layers.chunk.Chunks.state_after", lambda *_: 1 / 0)
    result = layer(torch.randn(1, 9, H), cu_seqlens=BOTH, **settings)
    assert result[1] is None if settings else result.shape == (1, 9, H)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_the_output_has_the_dtype_of_the_input(dtype):
    y, state = S4(H, N)(torch.randn(1, 9, H).to(dtype), cu_seqlens=torch.tensor([0, 0, 4, 9], dtype=torch.int32))
    assert y.dtype == dtype
    assert state.dtype == torch.complex64


# Memory


@pytest.mark.parametrize(
    "lengths",
    [[16_384] + [1] * 1000, list(range(1, 200)), [1000, 799] * 20, [2**k for k in range(12)], [7]],
    ids=["one long", "all", "two", "powers", "one"],
)
def test_groups_take_little_more_than_the_sequences_and_each_is_in_one(lengths):
    found = packed.groups([*lengths, 0])
    assert sorted(itertools.chain(*found)) == list(range(len(lengths)))
    for group in found:
        steps = [lengths[k] for k in group]
        assert len(steps) * max(steps) <= packed.SLACK * sum(steps)


def test_lengths_that_are_alike_are_one_group():
    assert len(packed.groups([100, 90, 95, 100, 80])) == 1


def test_what_is_kept_for_backward_is_less_than_twice_that_of_one_row():
    layer, lengths = S4(H, N), [4096, 1, 7, 300, 310, 1500, *[3] * 200]
    u = torch.randn(1, sum(lengths), H)

    def kept(run):
        sizes = {}

        def count(tensor):
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            output = run()  # which keeps them alive, so that no two have one address
        assert output.requires_grad
        return sum(sizes.values())

    assert kept(lambda: layer(u, cu_seqlens=bounds(lengths))[0]) < 2 * kept(lambda: layer(u)[0])


# What is refused


@pytest.mark.parametrize(
    ("cu_seqlens", "message"),
    [
        ([1, 4, 9], r"cu_seqlens: expected numbers that begin with 0, never fall, and end with 9, .* got \[1, 4, 9\]"),
        ([0, 5, 4, 9], r"never fall, .* got \[0, 5, 4, 9\]"),
        ([0, 4, 8], "end with 9, the steps of u"),
        ([0, 12, 9], "never fall"),
        ([9], r"whole numbers \(n \+ 1,\): where each of n sequences begins"),
        ([[0, 9]], r"cu_seqlens: expected whole numbers \(n \+ 1,\)"),
        ([0.0, 9.0], "got torch.float32"),
        (torch.zeros(2, dtype=torch.long, device="meta"), "got torch.int64 .* meta"),
    ],
    ids=str,
)
def test_wrong_bounds_are_refused(cu_seqlens, message):
    with pytest.raises(ValueError, match=message):
        S4(H, N)(torch.randn(1, 9, H), cu_seqlens=torch.as_tensor(cu_seqlens))


def test_what_only_a_padded_batch_has_is_refused():
    layer, u = S4(H, N), torch.randn(1, 9, H)
    for name, value in (
        ("state", layer.initial_state(1)),
        ("lengths", torch.tensor([9])),
        ("constants", layer.chunk_constants(9)),
    ):
        with pytest.raises(ValueError, match=f"{name}: expected None beside cu_seqlens"):
            layer(u, cu_seqlens=BOTH, **{name: value})
    with pytest.raises(
        ValueError, match=r"u: expected one row \(1, total, features\) beside cu_seqlens, got .*2, 9, 4"
    ):
        layer(torch.randn(2, 9, H), cu_seqlens=BOTH)


@pytest.mark.parametrize("kind", sorted(set(MIXERS) - {"s4", "s4d"}))
def test_other_mixers_refuse_packed_sequences(kind):
    with pytest.raises(ValueError, match=r"cu_seqlens: only S4 and S4D take it, got .*; pad"):
        make_mixer(kind, 8)(torch.randn(1, 9, 8), cu_seqlens=BOTH)
