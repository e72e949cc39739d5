"""Settings of longwave 0.1.0; whole runs of it are in tests/old_runs."""

import pytest
from mixer_settings import sequence_config

from longwave.models import SequenceConfig, format_1


@pytest.mark.parametrize("mixer", ["s4", "lstm", "performer"])
def test_the_settings_of_all_mixers_stood_beside_those_of_the_model(mixer):
    config = sequence_config(mixer, d_model=8, n_layers=3, bidirectional=True)
    flat = {name: value for name, value in config.to_dict().items() if name != "kind"}
    own = {name: value for name, value in flat.pop("mixer").items() if name in format_1.MIXER_SETTINGS}
    others = {"d_state": 64, "init": "legs", "length": None, "heads": 4, "features": 256, "rotary": True}
    old = {**flat, "mixer": mixer, **others, **own}
    assert SequenceConfig.from_dict(format_1.of_model(old)) == config
    with pytest.raises(ValueError, match="there is no setting 'wings'"):
        SequenceConfig.from_dict(format_1.of_model({**old, "wings": 2}))


def test_an_unknown_mixer_is_refused():
    with pytest.raises(ValueError, match="mixer: there is no 's9'; expected one of"):
        format_1.of_model({"mixer": "s9"})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"task": {"kind": "classify", "part": "set"}}, {"task": {"kind": "classify", "split": "set"}}),
        (
            {"task": {"kind": "forecast", "csv": "a.csv", "time": None}},
            {"task": {"kind": "forecast", "csv": "a.csv", "time": "none"}},
        ),
        (
            {"task": {"kind": "forecast", "csv": "a.csv", "time": "date"}},
            {"task": {"kind": "forecast", "csv": "a.csv", "time": "date"}},
        ),
        ({"loop": {"epochs": 3, "tensorboard": True}}, {"loop": {"epochs": 3, "tracker": "tensorboard"}}),
        ({"loop": {"tensorboard": False}}, {"loop": {}}),
        ({"name": "a", "model": 3}, {"name": "a", "model": 3}),  # damage is for the reader of settings to refuse
    ],
)
def test_settings_have_today_s_names(old, new):
    assert format_1.of_experiment(old) == new
