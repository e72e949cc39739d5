"""Mixers by their settings: the registry, defaults, and what is refused."""

import inspect
from dataclasses import MISSING, fields

import pytest
import torch
from mixer_settings import known

from longwave.layers import MIXERS, S4Config, make_mixer
from longwave.layers.mixer import MixerConfig

every_mixer = pytest.mark.parametrize("kind", MIXERS)


@every_mixer
def test_the_settings_of_a_mixer_have_the_defaults_of_its_layer(kind):
    arguments = inspect.signature(type(make_mixer(kind, 8)).__init__).parameters
    for setting in fields(MIXERS[kind]):
        assert setting.default is not MISSING, setting.name
        assert setting.default == arguments[setting.name].default, setting.name


@every_mixer
def test_a_layer_is_built_with_its_settings_and_they_come_back_from_json(kind):
    config = MIXERS[kind](**known(kind, d_state=6, heads=2, features=24, bidirectional=True))
    assert config.kind == kind
    assert MixerConfig.from_dict(config.to_dict()) == config
    torch.manual_seed(0)
    direct = config.build(8)
    torch.manual_seed(0)
    named = make_mixer(kind, 8, **{name: value for name, value in config.to_dict().items() if name != "kind"})
    assert all(torch.equal(a, b) for a, b in zip(direct.parameters(), named.parameters(), strict=True))
    assert direct.bidirectional


@every_mixer
def test_a_setting_that_a_mixer_does_not_have_is_refused(kind):
    with pytest.raises(ValueError, match=f"^mixer {kind}: unknown setting 'headz'; expected one of "):
        make_mixer(kind, 8, headz=2)


def test_only_s4_cares_for_the_length_of_sequences():
    assert S4Config().for_length(20) == S4Config(length=20)
    for kind in set(MIXERS) - {"s4"}:
        config = MIXERS[kind]()
        assert config.for_length(20) is config


@every_mixer
def test_a_bidirectional_mixer_is_not_causal(kind):
    assert MIXERS[kind]().is_causal
    assert not MIXERS[kind](bidirectional=True).is_causal


def test_tables_call_a_model_by_its_mixer():
    assert [MIXERS[kind]().label for kind in ("s4", "lstm", "attention")] == ["S4", "LSTM", "attention"]
