"""The vectors that tokens begin with, where they stand for values in order."""

import pytest
import torch

from longwave.models import SequenceConfig, SequenceModel, UNet


@pytest.mark.parametrize("d_model", [7, 64])
@pytest.mark.parametrize("channels", [1, 3])
def test_vectors_of_near_values_begin_nearer_than_those_of_far_ones(d_model, channels):
    torch.manual_seed(0)
    model = SequenceModel(d_model=d_model, n_layers=1, vocabulary=1 + 256 * channels, scale=256)
    vectors = model.encoder.values.weight.detach()[1:].unflatten(0, (channels, 256))
    assert abs(float(vectors.std()) - 1) < 0.35  # as large as random ones
    for own in vectors:
        near, middling, far = ((own[k:] - own[:-k]).norm(dim=-1).mean() for k in (1, 16, 128))
        assert 2 * near < middling < far
        assert (own[1:] - own[:-1]).norm(dim=-1).min() > 0  # no two values are one
    if channels > 1:
        assert (vectors[0] - vectors[1]).norm(dim=-1).min() > 0.1 * d_model**0.5


def test_a_token_before_the_values_keeps_its_own_vector():
    def first(**settings):
        torch.manual_seed(0)
        return SequenceModel(d_model=8, n_layers=1, vocabulary=769, **settings).encoder.values.weight[0]

    assert torch.equal(first(scale=256), first())


def test_a_unet_takes_the_order_of_values_too():
    model = UNet(d_model=8, n_layers=1, poolings=(2,), vocabulary=256, output_size=256, scale=256)
    vectors = model.encoder.values.weight.detach()
    assert (vectors[1:] - vectors[:-1]).norm(dim=-1).mean() < 0.2 * vectors.norm(dim=-1).mean()


@pytest.mark.parametrize("scale", [1, -3, 6])
def test_a_scale_of_more_values_than_tokens_is_refused(scale):
    with pytest.raises(ValueError, match=f"scale: expected from 2 to 5 values, the tokens of the model, got {scale}"):
        SequenceModel(d_model=4, n_layers=1, vocabulary=5, scale=scale)


def test_settings_from_before_scales_are_those_of_tokens_without_order():
    assert SequenceConfig.from_dict({"d_model": 4, "vocabulary": 5}).scale == 0
