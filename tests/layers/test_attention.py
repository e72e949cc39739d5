import copy

import pytest
import torch
from dense import error, gradients
from torch import nn

from longwave.layers import Attention
from longwave.layers.attention import LEAST_CAPACITY, Heads

H = 12


def make(**options):
    torch.set_default_dtype(torch.float64)
    layer = Attention(H, **{"heads": 3} | options)
    torch.set_default_dtype(torch.float32)
    return layer


def signal(batch=2, L=20, seed=1):
    return torch.randn(batch, L, H, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_without_positions_it_is_torchs_multi_head_attention(stored, bidirectional):
    layer, u = make(stored=stored, bidirectional=bidirectional, rotary=False), signal()
    truth = nn.MultiheadAttention(H, 3, batch_first=True, dtype=torch.float64)
    truth.in_proj_weight, truth.in_proj_bias = layer.heads.project.weight, layer.heads.project.bias
    truth.out_proj = layer.heads.output
    future = None if bidirectional else torch.ones(20, 20, dtype=torch.bool).triu(1)
    expected, _ = truth(u, u, u, attn_mask=future, need_weights=False)
    assert error(layer(u)[0], expected) < 1e-12


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_the_stored_matrix_gives_what_tiles_give(bidirectional, padded):
    layer, u = make(bidirectional=bidirectional), signal(2, 30).requires_grad_()
    stored = copy.deepcopy(layer)
    stored.stored = True
    lengths = torch.tensor([30, 11]) if padded else None

    def run(layer):
        y, state = layer(u, lengths=lengths)
        more = y if bidirectional else layer(u[:, :7], state)[0]
        return torch.cat((y, more), dim=1)

    assert error(run(stored), run(layer)) < 1e-12
    grads = [gradients(run(m), [u, *m.parameters()]) for m in (stored, layer)]
    for value, true in zip(*grads, strict=True):
        assert error(value, true) < 1e-11


def largest_saved(layer, u):
    """Numbers in the largest tensor that the forward pass keeps for the backward pass."""
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
        layer(u, need_state=False)
    return max(sizes)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_only_the_stored_kind_stores_the_matrix(bidirectional):
    u = torch.randn(1, 400, H)
    layers = {stored: Attention(H, heads=3, stored=stored, bidirectional=bidirectional) for stored in (False, True)}
    assert largest_saved(layers[True], u) == 3 * 400 * 400
    assert largest_saved(layers[False], u) <= 400 * 3 * H


# Positions


def test_rotary_weights_depend_on_distances_only():
    heads, u = Heads(H, 3, None, rotary=True).double(), signal()
    q, k, _ = heads(u, 0)
    for start in (1, 1000, torch.tensor([5, 70_000])):
        q_later, k_later, _ = heads(u, start)
        assert error(q_later @ k_later.mT, q @ k.mT) < 1e-9
        assert error(q_later, q) > 0.1


def test_rotary_attention_tells_the_order_of_steps():
    """Without positions, the last step of causal attention sees a set."""
    u = signal(1, 9)
    swapped = u[:, [1, 0, *range(2, 9)]]
    assert error(make()(swapped)[0][:, -1], make()(u)[0][:, -1]) > 1e-3
    bare = make(rotary=False)
    assert error(bare(swapped)[0][:, -1], bare(u)[0][:, -1]) < 1e-13


# The cache


def test_a_step_without_gradients_writes_in_place_and_doubles_when_full():
    layer, u = make().requires_grad_(False), signal(2, 2 * LEAST_CAPACITY + 1)
    state, moves, capacities = layer.initial_state(2), [], []
    for k, u_t in enumerate(u.unbind(1)):
        _, after = layer.step(u_t, state)
        if after.keys.data_ptr() != state.keys.data_ptr():
            moves.append(k)
        capacities.append(after.keys.shape[2])
        state = after
    assert moves == [LEAST_CAPACITY, 2 * LEAST_CAPACITY]
    assert sorted(set(capacities)) == [LEAST_CAPACITY, 2 * LEAST_CAPACITY, 4 * LEAST_CAPACITY]


def test_only_the_latest_holder_of_a_cache_writes_in_place():
    layer, u = make().requires_grad_(False), signal(2, 3)
    _, first = layer.step(u[:, 0], layer.initial_state(2))
    _, second = layer.step(u[:, 1], first)
    _, other = layer.step(u[:, 2], first)
    assert second.keys.data_ptr() == first.keys.data_ptr()
    assert other.keys.data_ptr() != first.keys.data_ptr()
    assert torch.equal(other.keys[:, :, 0], first.keys[:, :, 0])
    assert (other.keys[:, :, 2:] == 0).all()


def test_what_another_holder_wrote_behind_a_short_row_has_no_effect():
    layer, u = make().requires_grad_(False), signal(2, 9)
    _, state = layer(u[:, :5], lengths=torch.tensor([2, 5]))
    expected, _ = layer(torch.cat((u[:1, :2], u[:1, 5:]), dim=1))
    other = state
    for _ in range(3):
        _, other = layer.step(torch.full((2, H), torch.nan, dtype=torch.float64), other)
    for k in range(5, 9):
        y, state = layer.step(u[:, k], state)
        assert error(y[0], expected[0, k - 3]) < 1e-12


def test_the_cache_is_the_same_by_whatever_way_it_came():
    layer, u = make().requires_grad_(False), signal(2, 70)
    _, whole = layer(u)
    _, chunks = layer(u[:, 50:], layer(u[:, :50])[1])
    torch.testing.assert_close(chunks, whole)


def test_padding_takes_no_room_in_the_cache():
    layer, u = make(), signal(3, 70)
    _, state = layer(u, lengths=torch.tensor([2, 70, 0]))
    _, state = layer(u[:, :5], state, lengths=torch.tensor([3, 0, 1]))
    assert state.row_steps.tolist() == [5, 70, 1]
    assert state.steps == 70
    counts = [(row.abs().sum((0, 2)) > 0).sum().item() for row in state.keys]
    assert counts == [5, 70, 1]


def test_a_wide_or_narrow_attention_has_its_own_width():
    layer, u = make(d_attention=6), signal()
    assert layer.heads.project.weight.shape == (18, H)
    assert layer(u)[0].shape == u.shape
    assert layer.initial_state(2).keys.shape[1::2] == (3, 2)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 0}, "heads: expected a whole number, at least 1, got 0"),
        ({"heads": 5}, "heads: expected a divisor of the attention's width 12, got 5"),
        ({"heads": 4}, "heads: rotary positions turn pairs of features.* got 12 features in 4 heads; .*rotary=False"),
        ({"d_attention": 0}, "d_attention: expected a whole number, at least 1, got 0"),
    ],
)
def test_settings_that_make_no_layer_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Attention(H, **options)
    assert Attention(H, heads=4, rotary=False).heads.d_head == 3


def test_the_printed_layer_shows_its_settings():
    assert "d_model=12, bidirectional=True, stored=False" in repr(Attention(H, heads=3, bidirectional=True))
