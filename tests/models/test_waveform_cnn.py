"""The convolutional network on waveforms: sizes, lengths, files, and what it refuses."""

from itertools import pairwise

import pytest
import torch

from longwave.models import Spec, WaveformCNN, WaveformCNNConfig, load_model


def test_the_layers_are_those_of_wavegans_discriminator():
    """Convolutions of 25 steps from 1 to 64, 128 ... 1024 features, each over a quarter of the steps."""
    with torch.device("meta"):
        model = WaveformCNN(WaveformCNNConfig())
    widths = [1, 64, 128, 256, 512, 1024]
    expected = sum(25 * a * b + 2 * b for a, b in pairwise(widths)) + 1025 * 10
    assert sum(p.numel() for p in model.parameters()) == expected


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
