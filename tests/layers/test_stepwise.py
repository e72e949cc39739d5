"""ExpRNN and LipschitzRNN against their definitions; test_laws.py has what holds for every mixer."""

import math

import pytest
import torch
from dense import error

from longwave.layers import make_mixer

CLOSE = 1e-12


def make(kind, d_model=5, **settings):
    torch.manual_seed(0)
    layer = make_mixer(kind, d_model, **settings).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer


def signal(batch=2, L=17, H=5):
    return torch.randn(batch, L, H, generator=torch.Generator().manual_seed(1)).double()


def exp_rnn(cell, u):
    """By series: exp(S) = sum of S^k / k!."""
    n = u.shape[-1]
    S, k = torch.zeros(n, n, dtype=torch.float64), 0
    for i in range(n):
        for j in range(i + 1, n):
            S[i, j], S[j, i] = cell.upper[k], -cell.upper[k]
            k += 1
    Q = term = torch.eye(n, dtype=torch.float64)
    for power in range(1, 60):
        term = term @ S / power
        Q = Q + term
    h, outputs = torch.zeros(len(u), n, dtype=torch.float64), []
    for u_t in u.unbind(1):
        z = u_t @ cell.input.weight.T + h @ Q.T
        h = torch.sign(z) * torch.clamp(z.abs() + cell.threshold, min=0)
        outputs.append(h)
    return torch.stack(outputs, 1)


def lipschitz_rnn(cell, u, skew=0.75, damping=0.001, step_size=0.03):
    def matrix(M):
        return (1 - skew) * (M + M.T) + skew * (M - M.T) - damping * torch.eye(len(M), dtype=M.dtype)

    h, outputs = torch.zeros(len(u), u.shape[-1], dtype=torch.float64), []
    for u_t in u.unbind(1):
        inner = h @ matrix(cell.inner).T + u_t @ cell.input.weight.T + cell.input.bias
        h = h + step_size * (h @ matrix(cell.linear).T + torch.tanh(inner))
        outputs.append(h)
    return torch.stack(outputs, 1)


@pytest.mark.parametrize(("kind", "definition"), [("exp-rnn", exp_rnn), ("lipschitz-rnn", lipschitz_rnn)])
def test_the_layer_is_its_definition_values_and_gradients(kind, definition):
    layer, u = make(kind), signal()
    y, truth = layer(u)[0], definition(layer.cells[0], u)
    assert error(y, truth) < CLOSE
    found, expected = (torch.autograd.grad(x.square().sum(), layer.parameters()) for x in (y, truth))
    for one, other in zip(found, expected, strict=True):
        assert error(one, other) < CLOSE


@pytest.mark.parametrize(("kind", "definition"), [("exp-rnn", exp_rnn), ("lipschitz-rnn", lipschitz_rnn)])
def test_two_directions_are_two_recurrences(kind, definition):
    layer, u = make(kind, bidirectional=True), signal()
    forward, backward = (definition(cell, x) for cell, x in zip(layer.cells, (u, u.flip(1)), strict=True))
    assert error(layer(u)[0], forward + backward.flip(1)) < CLOSE


@pytest.mark.parametrize("d_model", [1, 2, 5, 32])
def test_an_exp_rnn_without_inputs_keeps_its_norm(d_model):
    """For 2,000 steps and weights far from those that it starts from: Q is orthogonal."""
    layer = make("exp-rnn", d_model)
    with torch.no_grad():
        layer.cells[0].upper.mul_(3)
        layer.cells[0].threshold.zero_()
    h = torch.randn(2, d_model).double()
    y, after = layer(torch.zeros(2, 2000, d_model, dtype=torch.float64), h)
    assert error(after.norm(dim=1), h.norm(dim=1)) < 1e-11
    assert torch.equal(after, y[:, -1])


def test_a_skew_lipschitz_rnn_has_eigenvalues_on_the_imaginary_axis():
    cell = make("lipschitz-rnn", 8, skew=1.0, damping=0.0).cells[0]
    assert torch.linalg.eigvals(cell.matrix(cell.linear)).real.abs().max() < 1e-12


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("skew", 1.5, "skew: expected a share from 0 to 1, got 1.5"),
        ("damping", -1.0, "damping: expected a finite number, at least 0, got -1.0"),
        ("step_size", 0.0, "step_size: expected a finite number above 0, got 0.0"),
        ("step_size", math.nan, "step_size: expected a finite number above 0, got nan"),
    ],
)
def test_settings_out_of_range_are_refused(setting, value, message):
    with pytest.raises(ValueError, match=message):
        make_mixer("lipschitz-rnn", 4, **{setting: value})
