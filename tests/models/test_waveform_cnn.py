"""The convolutional network on waveforms: sizes, lengths, files, and what it refuses."""

from itertools import pairwise

import pytest
import torch

from longwave.experiments import EXPERIMENTS
from longwave.models import Spec, WaveformCNN, WaveformCNNConfig, load_model


def test_the_layers_are_those_of_wavegans_discriminator():
    """Convolutions of 25 steps from 1 to 64, 128 ... 1024 features, each over a quarter of the steps."""
    with torch.device("meta"):
        model = WaveformCNN(WaveformCNNConfig())
    widths = [1, 64, 128, 256, 512, 1024]
    expected = sum(25 * a * b + 2 * b for a, b in pairwise(widths)) + 1025 * 10
    assert sum(p.numel() for p in model.parameters()) == expected


def test_with_a_layer_over_all_steps_it_has_the_parameters_of_the_paper():
    """26.3 million, where 16 of the 16,000 steps are left."""
    config = EXPERIMENTS.find("sc10-raw-cnn").model
    with torch.device("meta"):
        model = config.resolve(Spec(input_size=1, output_size=10, length=16_000)).build()
    assert model.hidden.in_features == 16 * 1024
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 1) == 26.3


def test_a_layer_over_all_steps_knows_where_a_step_stands_and_takes_one_length():
    torch.manual_seed(0)
    model = WaveformCNN(width=3, n_layers=2, hidden=5, length=45, output_size=4).eval()
    assert model.hidden.in_features == 3 * 6  # 45 -> 12 -> 3 steps of 6 features
    x = torch.randn(2, 45, 1)
    y = model(x)[0]
    assert y.shape == (2, 4)
    assert (y - model(x.roll(16, dims=1))[0]).abs().max() > 1e-3
    padded = torch.cat((x[:, :30], torch.full((2, 15, 1), torch.nan)), dim=1)
    lengths = torch.tensor([30, 30])
    zeros = torch.cat((x[:, :30], torch.zeros(2, 15, 1)), dim=1)
    torch.testing.assert_close(model(padded, lengths=lengths)[0], model(zeros, lengths=lengths)[0])
    with pytest.raises(ValueError, match="x: expected 45 steps, got 22; a fully-connected layer reads all of them"):
        model(x[:, ::2][:, :22])
    assert not model.config.takes_any_length
    assert WaveformCNNConfig().takes_any_length
    with pytest.raises(ValueError, match=r"hidden: expected 0, for the mean over the steps, got 5; .* differ"):
        WaveformCNNConfig(hidden=5).resolve(Spec(input_size=1, output_size=3))
    with pytest.raises(
        ValueError, match="length: expected the length of all clips, which a hidden layer of 5 needs, got none"
    ):
        WaveformCNN(hidden=5)


@pytest.mark.parametrize("length", [1, 24, 97, 100])
def test_padding_has_no_effect_in_training_and_in_evaluation(length):
    model = WaveformCNN(width=3, n_layers=3, input_size=2, output_size=4)
    x = torch.randn(2, 100, 2)
    x[1, length:] = torch.nan
    lengths = torch.tensor([100, length])
    y, state = model(x, lengths=lengths)
    assert state is None
    y.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(model(x, lengths=lengths)[0][1:], model(x[1:, :length])[0], rtol=1e-4, atol=1e-5)


def test_it_comes_back_from_a_folder(tmp_path):
    model = WaveformCNN(width=3, n_layers=2).eval()
    model.save_pretrained(tmp_path)
    x = torch.randn(2, 50, 1)
    assert torch.equal(load_model(tmp_path).eval()(x)[0], model(x)[0])


def test_other_tasks_and_states_are_refused():
    with pytest.raises(ValueError, match="a WaveformCNN classifies sequences of numbers"):
        WaveformCNNConfig().resolve(Spec(input_size=1, output_size=3, vocabulary=10))
    with pytest.raises(ValueError, match="a WaveformCNN classifies sequences of numbers"):
        WaveformCNNConfig().resolve(Spec(input_size=1, output_size=3, horizon=4, decoders=("forecast",)))
    with pytest.raises(ValueError, match="state: a WaveformCNN takes only whole sequences"):
        WaveformCNN()(torch.zeros(1, 9, 1), state=0)
