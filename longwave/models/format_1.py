"""Settings as longwave 0.1.0 wrote them, config.json in format 1, in today's form."""

from dataclasses import fields
from typing import Any

from longwave.layers import MIXERS

# Those of all mixers stood beside the settings of the model, used or not.
MIXER_SETTINGS = frozenset(
    [
        "mixer",
        "d_state",
        "init",
        "bidirectional",
        "length",
        "n_ssm",
        "dt_min",
        "dt_max",
        "trainable",
        "heads",
        "d_attention",
        "rotary",
        "features",
    ]
)


def of_model(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of a model, with those of its mixer in a part of their own."""
    kind = values.get("mixer")
    if not isinstance(kind, str):
        return values
    known = {field.name for field in fields(MIXERS.find(kind))}
    kept = {name: value for name, value in values.items() if name not in MIXER_SETTINGS}
    return {**kept, "mixer": {"kind": kind, **{name: values[name] for name in values.keys() & known}}}


def of_experiment(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run."""
    changes = {"task": _of_task, "model": of_model, "loop": _of_loop}
    parts = {name: change(values[name]) for name, change in changes.items() if isinstance(values.get(name), dict)}
    return {**values, **parts}


def _of_task(values: dict[str, Any]) -> dict[str, Any]:
    """A column of splits was called `part`, and one of times was used only if it was named."""
    renamed = {"split" if name == "part" else name: value for name, value in values.items()}
    if values.get("kind") == "forecast" and values.get("csv") is not None and values.get("time") is None:
        renamed["time"] = "none"
    return renamed


def _of_loop(values: dict[str, Any]) -> dict[str, Any]:
    """TensorBoard was the only tracker."""
    kept = {name: value for name, value in values.items() if name != "tensorboard"}
    return {**kept, "tracker": "tensorboard"} if values.get("tensorboard") else kept
