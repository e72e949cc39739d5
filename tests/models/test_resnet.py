"""ResNet-18: the image that a sequence of pixels is, gradients, and files."""

import json

import pytest
import torch

from longwave.layers import S4Config
from longwave.models import ResNet, ResNetConfig, SequenceConfig, SequenceModel, Spec, load_model
from longwave.models.resnet import NORMS


def small(**changes):
    return ResNet(ResNetConfig(**{"width": 4, "height": 8, "image_width": 8, "output_size": 5, **changes}))


def test_resnet_18_has_eleven_million_parameters_and_eighteen_layers_of_weights():
    model = ResNet(ResNetConfig())
    assert sum(p.numel() for p in model.parameters()) == 11_173_962
    weights = [name for name, p in model.named_parameters() if p.ndim > 1 and "shortcut" not in name]
    assert len(weights) == 18


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_a_sequence_of_pixels_is_read_as_the_image_that_it_is(norm):
    model = small(norm=norm).eval()
    x = torch.randn(2, 64, 3)
    y, state = model(x)
    assert (y.shape, state) == ((2, 5), None)
    image = x.reshape(2, 8, 8, 3).permute(0, 3, 1, 2)
    features = model.blocks(model.stem(image))
    assert features.shape == (2, 32, 1, 1)
    torch.testing.assert_close(model.linear(features.mean((2, 3))), y)


def test_features_see_their_neighbours_above_and_below():
    model = small().eval()
    x = torch.randn(1, 64, 3, requires_grad=True)
    stem = model.stem(x.transpose(1, 2).unflatten(2, (8, 8)))
    (gradient,) = torch.autograd.grad(stem[0, :, 3, 3].sum(), x)
    seen = gradient[0].abs().sum(-1).reshape(8, 8).nonzero()
    assert {tuple(place) for place in seen.tolist()} <= {(i, j) for i in (2, 3, 4) for j in (2, 3, 4)}
    assert len(seen) == 9


def test_the_norm_is_over_features_and_pixels_or_over_the_batch():
    x = torch.randn(3, 4, 8, 8) * 5 + 2
    layer = NORMS["layer"](4)(x)
    torch.testing.assert_close(layer.mean((1, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    batch = NORMS["batch"](4)(x)
    torch.testing.assert_close(batch.mean((0, 2, 3)), torch.zeros(4), atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="norm: expected one of batch, layer, got 'group'"):
        small(norm="group")


def test_what_an_image_is_not_is_refused():
    model = small()
    with pytest.raises(ValueError, match=r"x: expected \(B, 8 \* 8, channels\), got \(1, 63, 3\)"):
        model(torch.zeros(1, 63, 3))
    with pytest.raises(ValueError, match="lengths: a ResNet takes only whole images of one size"):
        model(torch.zeros(1, 64, 3), lengths=torch.tensor([60]))


def test_every_parameter_has_a_finite_gradient():
    model = small()
    model(torch.randn(4, 64, 3))[0].square().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_either_kind_of_model_comes_back_to_the_bit_by_the_same_call(tmp_path):
    sequence = SequenceModel(SequenceConfig(d_model=4, n_layers=1, mixer=S4Config(d_state=4)))
    network = small()
    network(torch.randn(4, 64, 3))  # running statistics that are not those of a new one
    for name, model in (("a", sequence), ("b", network)):
        model.save_pretrained(tmp_path / name)
        loaded = load_model(tmp_path / name)
        assert type(loaded) is type(model)
        assert loaded.config == model.config
        assert all(
            torch.equal(a, b) for a, b in zip(model.state_dict().values(), loaded.state_dict().values(), strict=True)
        )
    assert json.loads((tmp_path / "b" / "config.json").read_text())["model"] == "ResNet"
    with pytest.raises(ValueError, match="b: expected a SequenceModel, got a ResNet"):
        SequenceModel.from_pretrained(tmp_path / "b")


@pytest.mark.parametrize("config", [SequenceConfig(d_model=4), ResNetConfig(width=4)])
def test_a_config_builds_its_own_kind_of_model(config):
    assert config.build().config == config


def test_a_resnet_takes_its_sizes_from_the_images_of_a_task_and_refuses_others():
    config = ResNetConfig(width=4).resolve(Spec(input_size=1, output_size=7, image_size=(6, 5)))
    assert (config.input_size, config.output_size, config.height, config.image_width) == (1, 7, 6, 5)
    with pytest.raises(ValueError, match="model: a ResNet needs images of one size, which this task does not have"):
        config.resolve(Spec(input_size=1, output_size=7))
