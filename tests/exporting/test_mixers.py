"""Layers in real arithmetic against the layers that they are made of, over 512 steps, at 2e-6 of the largest output."""

import copy
from functools import partial

import pytest
import torch
from pairwise import in_one_case
from torch import nn

from longwave import S4, S4D, SequenceModel, ops
from longwave.exporting.mixers import Blocks, Direct, Fourier, Steps, in_real_arithmetic
from longwave.layers.block import MaskedBatchNorm
from longwave.models import ClassifierConfig
from longwave.ssm import INITS, nplr

BOUND = 2e-6
DENSE = [name for name in INITS if len(nplr(name, 2).P)]
LAYERS = {
    **{f"S4 {init}": partial(S4, init=init) for init in DENSE},
    **{f"S4D {init}": partial(S4D, init=init) for init in INITS if init not in DENSE},
    "S4D bilinear": partial(S4D, rule="bilinear"),
    "S4 of a length": partial(S4, length=512, n_ssm=2, dt_transform="softplus"),
    "S4 pq": partial(S4, low_rank="pq"),
}
every_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())


def error(value, true):
    assert value.shape == true.shape
    return ((value - true).abs().max() / true.abs().max()).item()


def wide(layer):
    """A copy in float64, which constants are derived from."""
    return copy.deepcopy(layer).double()


def streamed(layer, u, T):
    """y and the last state, T steps at a time."""
    state, found = layer.initial_state(len(u)), []
    for part in u.split(T, dim=1):
        y, state = layer(part, state)
        found.append(y)
    return torch.cat(found, dim=1), state


@pytest.fixture
def u():
    torch.manual_seed(1)
    return torch.randn(3, 512, 6)


@every_layer
@torch.no_grad()
def test_steps_and_blocks_equal_the_convolution(make, u):
    layer = make(6, 8)
    y, state = layer(u)
    true = torch.cat((state.real, state.imag), -1)
    for one, T in ((Steps(wide(layer)), 1), (Blocks(wide(layer), 32), 32)):
        found, after = streamed(one, u, T)
        assert error(found, y) < BOUND
        assert error(after, true) < BOUND


@every_layer
@torch.no_grad()
@in_one_case(kernel=[Direct, Fourier])
def test_a_fixed_kernel_equals_the_layer_at_every_length(make, kernel, u):
    for layer in (make(6, 8), make(6, 8, bidirectional=True)):
        whole = kernel(wide(layer), 512)
        for L in (1, 2, 7, 511, 512):
            assert error(whole(u[:, :L])[0], layer(u[:, :L])[0]) < BOUND


@torch.no_grad()
def test_padding_changes_nothing(u):
    lengths = torch.tensor([1, 300, 512])
    layer = S4(6, 8, bidirectional=True)
    true = layer(u, lengths=lengths)[0]
    u[0, 1:] = torch.nan
    for kernel in (Direct, Fourier):
        assert error(kernel(wide(layer), 512)(u, lengths=lengths)[0], true) < BOUND


@torch.no_grad()
def test_slow_modes_keep_their_memory(u):
    """A step that is so short that A is the identity to float32's rounding must not become the identity."""
    layer = S4(6, 8, dt_min=1e-6, dt_max=1e-6)
    y, _ = layer(u)
    for one, T in ((Steps(wide(layer)), 1), (Blocks(wide(layer), 32), 32)):
        assert error(streamed(one, u, T)[0], y) < 1e-5


def test_a_model_in_real_arithmetic_is_made_of_torchs_own_operators():
    model = SequenceModel(d_model=6, n_layers=1, norm="batch", feed_forward=5, decoder="sequence").eval()
    for module in model.modules():
        if isinstance(module, MaskedBatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    x = torch.randn(2, 9, 1)
    real = in_real_arithmetic(model, partial(Fourier, longest=9))
    with torch.no_grad(), ops.unfused():
        traced = torch.export.export(real, (x,))
        assert error(traced.module()(x)[0], model(x)[0]) < BOUND
    assert "longwave" not in str(traced.graph)
    assert not any(isinstance(module, MaskedBatchNorm) for module in real.modules())
    assert all(tensor.dtype == torch.float32 for tensor in traced.state_dict.values())


def test_random_convolutions_are_the_same_features():
    """To the bit: the least difference could put an output on the other side of a bias."""
    config = ClassifierConfig(d_model=4, n_layers=1, convolutions=400, input_size=2, longest=20)
    model = config.build().eval()
    x, lengths = torch.randn(5, 20, 2), torch.tensor([20, 9, 1, 13, 20])
    model.convolutions.start(x, lengths)
    real = in_real_arithmetic(model, partial(Direct, longest=20))
    assert torch.equal(real.convolutions(x, lengths), model.convolutions(x, lengths))
    assert torch.equal(real.convolutions(x), model.convolutions(x))


def test_other_mixers_are_refused():
    model = SequenceModel(d_model=4, n_layers=1, mixer="lstm")
    with pytest.raises(ValueError, match=r"mixer: expected S4 or S4D layers, .* got Recurrent"):
        in_real_arithmetic(model, partial(Direct, longest=20))
    assert isinstance(model.blocks[0].mixer, nn.Module)
