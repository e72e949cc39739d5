"""Gradient checkpointing: blocks computed again in the backward pass, with the same bits and less memory."""

import dataclasses

import pytest
import torch
from mixer_settings import sequence_config
from pairwise import in_one_case

from longwave.layers import MIXERS
from longwave.models import SequenceModel, load_model

SIZES = {"d_model": 8, "n_layers": 3, "input_size": 2, "output_size": 3}
CASES = [*({"mixer": name} for name in MIXERS), {"norm": "batch"}, {"norm": "batch", "prenorm": False}]
CASES += [{"feed_forward": 12, "mixers_per_block": 2}, {"tie_dropout": True}, {"bidirectional": True}]


def both(**settings):
    """A model, and the same with checkpointing."""
    config = sequence_config(**SIZES | settings)
    plain, checkpointed = config.build(), dataclasses.replace(config, gradient_checkpointing=True).build()
    checkpointed.load_state_dict(plain.state_dict())
    return plain, checkpointed


def trained(model, x, **settings):
    """The output, the gradients of x and all parameters, and the buffers after it, from the same random numbers."""
    torch.manual_seed(3)
    x = x.clone().requires_grad_()
    y, _ = model(x, **settings)
    y.square().sum().backward()
    after = torch.rand(1)  # the random numbers go on as they do without
    return [y, x.grad, after, *(p.grad for p in model.parameters()), *model.buffers()]


def same(first, second):
    assert len(first) == len(second)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("settings", CASES, ids=str)
@in_one_case(training=[True, False])
def test_values_gradients_and_statistics_are_the_same_to_the_bit(settings, training):
    x = torch.randn(2, 20, 2)
    plain, checkpointed = both(dropout=0.3, **settings)
    for arguments in ({}, {"lengths": torch.tensor([20, 7])}):
        for model in (plain, checkpointed):
            model.zero_grad()
            model.train(training)
        same(trained(plain, x, **arguments), trained(checkpointed, x, **arguments))


def test_a_chunk_from_a_state_is_the_same_to_the_bit():
    for settings in ({"mixer": "s4"}, {"mixer": "attention"}):
        plain, checkpointed = both(**settings)
        x = torch.randn(2, 20, 2)
        with torch.no_grad():
            _, state = plain(x, need_state=True)
        same(*(trained(model, x, state=state, need_state=True) for model in (plain, checkpointed)))


def test_momentum_is_what_it_was_after_the_backward_pass():
    _, model = both(norm="batch")
    trained(model, torch.randn(2, 20, 2))
    assert {block.norm.momentum for block in model.blocks} == {0.1}


def test_less_is_kept_for_the_backward_pass():
    """Of each block its input alone, (2, 50, 8), however many tensors it works with."""

    def kept(model):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.nbytes) or t, lambda t: t):
            y, _ = model(torch.randn(2, 50, 2))
        assert y.requires_grad
        return sum(sizes)

    few, many = (tuple(map(kept, both(n_layers=n))) for n in (1, 5))
    per_block = [(many[k] - few[k]) / 4 for k in range(2)]
    assert per_block[1] <= 2 * 50 * 8 * 4 < per_block[0] / 4


def test_without_gradients_nothing_is_computed_twice():
    _, model = both()
    calls = []
    model.blocks[0].register_forward_pre_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        model(torch.randn(2, 20, 2))
    assert calls == [1]
    model(torch.randn(2, 20, 2))[0].sum().backward()
    assert calls == [1, 1, 1]


def test_the_setting_is_saved_with_the_model(tmp_path):
    _, model = both()
    model.save_pretrained(tmp_path)
    assert load_model(tmp_path).config.gradient_checkpointing
    assert not SequenceModel(**SIZES).config.gradient_checkpointing
