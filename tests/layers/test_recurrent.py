import pytest
import torch
from dense import error

from longwave.layers import Recurrent

H = 6
kinds = pytest.mark.parametrize("kind", ["lstm", "gru"])


def weights(cell, suffix=""):
    return [getattr(cell, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def by_formula(kind, u, parameters):
    """h at every step, by the textbook's equations: gates i, f, g, o of an LSTM; r, z, n of a GRU."""
    w_u, w_h, b_u, b_h = parameters
    h = c = torch.zeros(len(u), H, dtype=u.dtype)
    outputs = []
    for u_t in u.unbind(1):
        from_u, from_h = u_t @ w_u.T + b_u, h @ w_h.T + b_h
        if kind == "lstm":
            i, f, g, o = (from_u + from_h).chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        else:
            (r, z, n), (r_h, z_h, n_h) = from_u.chunk(3, dim=-1), from_h.chunk(3, dim=-1)
            z = (z + z_h).sigmoid()
            h = (1 - z) * (n + (r + r_h).sigmoid() * n_h).tanh() + z * h
        outputs.append(h)
    return torch.stack(outputs, dim=1)


@kinds
def test_it_is_the_textbooks_recurrence(kind):
    layer, u = Recurrent(H, kind=kind).double(), torch.randn(2, 9, H, dtype=torch.float64)
    y, state = layer(u)
    assert error(y, by_formula(kind, u, weights(layer.cell))) < 1e-12
    assert len(state) == (2 if kind == "lstm" else 1)
    assert torch.equal(state[0], y[:, -1])


@kinds
def test_two_directions_are_added(kind):
    layer, u = Recurrent(H, kind=kind, bidirectional=True).double(), torch.randn(2, 9, H, dtype=torch.float64)
    forward = by_formula(kind, u, weights(layer.cell))
    backward = by_formula(kind, u.flip(1), weights(layer.cell, "_reverse")).flip(1)
    assert error(layer(u)[0], forward + backward) < 1e-12


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"^kind: expected one of lstm, gru, got 'rnn'$"):
        Recurrent(H, kind="rnn")


@kinds
def test_the_state_of_the_other_kind_is_refused(kind):
    layer, other = Recurrent(H, kind=kind), Recurrent(H, kind="gru" if kind == "lstm" else "lstm")
    with pytest.raises(ValueError, match=r"^state: expected a tuple of [12] tensors \(2, 6\), as returned by"):
        layer.step(torch.zeros(2, H), other.initial_state(2))


def test_the_printed_layer_shows_its_settings():
    assert "d_model=6, kind='gru', bidirectional=False" in repr(Recurrent(H, kind="gru"))
