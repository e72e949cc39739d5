"""What transformers' Trainer expects of a model; tests/interop trains with it."""

import copy
import dataclasses
import json
import pickle

import pytest
import torch
from mixer_settings import sequence_config
from torch.nn import functional as F

from longwave.models import PairConfig, PairModel, SequenceConfig, SequenceModel

SIZES = {"d_model": 8, "n_layers": 1, "input_size": 2, "output_size": 3}


def make(**settings):
    return SequenceModel(sequence_config(**SIZES | settings))


# Labels


def test_classes_give_the_mean_cross_entropy_and_the_logits():
    model, x, labels = make(), torch.randn(4, 10, 2), torch.tensor([0, 2, -100, 1])
    logits, _ = model(x)
    loss, found = model(x, labels=labels)
    assert torch.equal(found, logits)
    chances = logits.log_softmax(-1)
    torch.testing.assert_close(loss, -(chances[0, 0] + chances[1, 2] + chances[3, 1]) / 3)


def test_tokens_give_the_mean_over_all_that_are_labelled_and_are_not_shifted():
    model = make(vocabulary=3, decoder="sequence")
    x = torch.randint(3, (2, 6))
    labels = torch.tensor([[1, 2, 0, -100, -100, -100], [0, 0, 1, 2, 1, -100]])
    logits, _ = model(x)
    loss, found = model(x, labels=labels, need_state=True)
    assert torch.equal(found, logits)
    nll, _ = model.nll(x, labels)
    torch.testing.assert_close(loss, nll.sum() / 8)


@pytest.mark.parametrize("decoder", ["mean", "sequence"])
def test_numbers_give_the_mean_squared_error(decoder):
    model, x = make(decoder=decoder), torch.randn(4, 10, 2)
    y, _ = model(x)
    labels = torch.randn(y.shape, dtype=torch.float64)
    loss, _ = model(x, labels=labels)
    torch.testing.assert_close(loss, F.mse_loss(y, labels.float()))


def test_one_number_per_row_may_come_without_its_last_axis():
    model, x, labels = make(output_size=1), torch.randn(4, 10, 2), torch.randn(4)
    assert torch.equal(model(x, labels=labels)[0], model(x, labels=labels.unsqueeze(-1))[0])
    torch.testing.assert_close(model(x, labels=labels)[0], F.mse_loss(model(x)[0][:, 0], labels))


def test_a_loss_in_half_precision_is_a_float32():
    model = make().bfloat16()
    loss, logits = model(torch.randn(4, 10, 2).bfloat16(), labels=torch.tensor([0, 1, 2, 0]))
    assert (loss.dtype, logits.dtype) == (torch.float32, torch.bfloat16)


def test_pairs_have_labels_too():
    model = PairModel(PairConfig(**SIZES))
    loss, logits = model(torch.randn(4, 2, 10, 2), labels=torch.tensor([0, 1, 2, 0]))
    torch.testing.assert_close(loss, F.cross_entropy(logits, torch.tensor([0, 1, 2, 0])))
    with pytest.raises(ValueError, match="cu_seqlens: "):
        model(torch.randn(1, 2, 10, 2), cu_seqlens=torch.tensor([0, 10]))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            torch.tensor([1, 2]),
            r"labels: expected \(4,\) for the output \(4, 3\), got torch.int64 .*2",
        ),
        (torch.randn(4), r"labels: expected \(4, 3\) for the output \(4, 3\), got torch.float32 .*4"),
    ],
    ids=["classes", "numbers"],
)
def test_labels_of_another_shape_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        make()(torch.randn(4, 10, 2), labels=labels)


# The config


@pytest.mark.parametrize("make_config", [SequenceConfig, PairConfig])
def test_use_cache_can_be_set_and_nothing_else(make_config):
    config = make_config(d_model=8)
    config.use_cache = False
    assert config.use_cache is False
    for name in ("d_model", "dmodel", "use_caches"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config, name, 4)
    assert config == make_config(d_model=8)
    assert hash(config) == hash(make_config(d_model=8))
    assert "use_cache" not in config.to_dict()
    assert dataclasses.replace(config, d_model=16) == make_config(d_model=16)
    assert copy.deepcopy(config) == pickle.loads(pickle.dumps(config)) == config


def test_the_config_writes_itself_as_the_model_does(tmp_path):
    model = make()
    model.save_pretrained(tmp_path / "model")
    model.config.save_pretrained(tmp_path / "alone")
    assert (tmp_path / "alone/config.json").read_text() == (tmp_path / "model/config.json").read_text()
    assert json.loads(model.config.to_json_string()) == model.config.to_dict()
