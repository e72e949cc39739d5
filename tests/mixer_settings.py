"""Settings of models and mixers side by side, for tests that run over every mixer."""

from dataclasses import fields

from longwave.layers import MIXERS
from longwave.models import SequenceConfig

SMALL = {"d_state": 4, "heads": 2, "features": 8}


def known(kind, **settings):
    """Those of some settings that a mixer has."""
    names = {f.name for f in fields(MIXERS[kind])}
    return {name: value for name, value in settings.items() if name in names}


def sequence_config(mixer="s4", small=SMALL, **settings):
    """A model of a mixer that is small in those sizes that it has; other settings are the model's or the mixer's."""
    of_model = {f.name for f in fields(SequenceConfig)}
    of_mixer = {name: value for name, value in settings.items() if name not in of_model}
    kept = {name: value for name, value in settings.items() if name in of_model}
    return SequenceConfig(**kept, mixer=MIXERS[mixer](**known(mixer, **small) | of_mixer))
