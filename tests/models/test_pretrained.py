"""Models of every kind in a folder and on the hub. A folder stands for the hub, and nothing is sent."""

import dataclasses
import json

import pytest
import torch
from folder_hub import FolderHub, cached

from longwave.layers import S4Config
from longwave.models import MODELS, Pretrained, UNet, load_model
from longwave.models.pretrained import write_model

SMALL = {"d_model": 4, "n_layers": 1, "width": 4, "poolings": (2,), "mixer": S4Config(d_state=4)}


@pytest.fixture(params=sorted(MODELS))
def model(request):
    """A small one of each kind that is registered."""
    kind = MODELS[request.param]
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in SMALL.items() if name in names}).build()


def same(model, other):
    assert type(other) is type(model)
    assert other.config == model.config
    found, expected = other.state_dict(), model.state_dict()
    assert found.keys() == expected.keys()
    return all(torch.equal(found[name], expected[name]) for name in expected)


def changed(model):
    """The same model with other weights, as a folder would not be told from the hub by its settings."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    return model


def test_a_model_of_every_kind_goes_to_the_hub_and_comes_back_to_the_bit(model, tmp_path):
    hub = FolderHub(tmp_path / "hub")
    assert model.push_to_hub("me/model", licence="cc-by-4.0", client=hub) == "hub/me/model/commit"
    assert hub.made == {"me/model": True}
    sent = hub.folder / "me" / "model"
    assert sorted(path.name for path in sent.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    cached(sent, tmp_path / "cache", "me/model")
    where = {"revision": "main", "cache_dir": tmp_path / "cache", "local_files_only": True}
    assert same(model, type(model).from_pretrained("me/model", **where))
    assert same(model, load_model("me/model", **where))


def test_a_model_of_every_kind_is_loaded_without_drawing_weights_first(model, tmp_path):
    """What is drawn for nothing takes longer than all else; nothing is left without numbers."""
    model.save_pretrained(tmp_path)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    loaded = load_model(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    tensors = [*loaded.parameters(), *loaded.buffers()]
    tensors += [value for module in loaded.modules() for value in vars(module).values() if torch.is_tensor(value)]
    assert not any(tensor.is_meta for tensor in tensors)


def test_a_folder_wins_over_the_hub_for_every_kind(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model.save_pretrained("sent")
    cached(tmp_path / "sent", tmp_path / "cache", "me/model")
    where = {"cache_dir": tmp_path / "cache", "local_files_only": True}
    changed(model).save_pretrained("me/model")
    assert same(model, type(model).from_pretrained("me/model", **where))
    (tmp_path / "me").rename(tmp_path / "away")
    assert not same(model, type(model).from_pretrained("me/model", **where))


def test_loading_is_strict_for_every_kind(model, tmp_path):
    tensors = dict(model.state_dict())
    del tensors[min(tensors)]
    write_model(model.config, tensors, tmp_path)
    with pytest.raises(ValueError, match=r"the weights do not fit the config\.json beside them"):
        type(model).from_pretrained(tmp_path)


def test_a_kind_refuses_a_model_of_another(model, tmp_path):
    class Other(Pretrained, torch.nn.Module):
        """Of no kind that is registered."""

    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=f"expected a Other, got a {type(model).__name__}"):
        Other.from_pretrained(tmp_path)


def test_the_card_of_a_model_alone_says_what_it_is_and_that_its_training_is_not_known(tmp_path):
    model = UNet(d_model=4, n_layers=1, poolings=(2,), mixer=S4Config(d_state=4))
    hub = FolderHub(tmp_path)
    model.push_to_hub("me/unet", licence="cc-by-4.0", client=hub)
    _, head, body = (tmp_path / "me" / "unet" / "README.md").read_text().split("---\n", 2)
    facts = {line.split(": ", 1)[0]: json.loads(line.split(": ", 1)[1]) for line in head.splitlines()}
    assert (facts["library_name"], facts["license"]) == ("longwave", "cc-by-4.0")
    count = sum(parameter.numel() for parameter in model.parameters())
    for text in ("# S4 U-Net", f"UNet, {count:,} parameters", "## Training\n\nNot stated", 'load_model("me/unet")'):
        assert text in body


def test_a_name_or_a_licence_that_the_hub_does_not_take_is_refused_before_anything_is_sent(tmp_path):
    model, hub = UNet(d_model=4, n_layers=1, poolings=(2,), mixer=S4Config(d_state=4)), FolderHub(tmp_path)
    with pytest.raises(ValueError, match="name: expected USER/NAME"):
        model.push_to_hub("unet", client=hub)
    with pytest.raises(ValueError, match="licence: expected a hub identifier"):
        model.push_to_hub("me/unet", licence="do what you like", client=hub)
    assert not hub.made
