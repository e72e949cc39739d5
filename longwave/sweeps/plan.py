"""The runs of a sweep: a grid of settings or random draws, each with every seed."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from longwave.experiments import Experiment

DIGITS = 4  # significant digits of a drawn number: enough to tell draws apart, and short in names and tables
MOST_TRIES = 100  # draws per new combination
WORDS = {"true": True, "false": False, "none": None}
FORMS = "expected comma-separated values, or a range: uniform:LOW:HIGH, log:LOW:HIGH or int:LOW:HIGH"


@dataclass(frozen=True)
class Range:
    """Numbers to draw from: uniform, log-uniform, or integers with both ends included."""

    scale: Literal["uniform", "log", "int"]
    low: float
    high: float

    def draw(self, generator: np.random.Generator) -> float | int:
        if self.scale == "int":
            return int(generator.integers(int(self.low), int(self.high) + 1))
        low, high = (math.log(self.low), math.log(self.high)) if self.scale == "log" else (self.low, self.high)
        drawn = float(generator.uniform(low, high))
        return float(f"{math.exp(drawn) if self.scale == 'log' else drawn:.{DIGITS}g}")


Values = tuple[Any, ...] | Range


class Member(NamedTuple):
    """One run of a sweep. Runs of one row differ in nothing but the seed."""

    name: str  # of its folder
    row: str
    values: dict[str, Any]  # of the settings that vary
    experiment: Experiment


def parse_values(name: str, text: str) -> Values:
    """Parse the values of a setting: `0.001,0.01`, `true,false`, `log:0.0001:0.01`, `int:2:6`."""
    scale, *ends = text.split(":")
    if ends and scale in ("uniform", "log", "int"):
        try:
            low, high = map(float, ends)
        except ValueError:
            raise ValueError(f"--set {name}: {FORMS}, got {text!r}") from None
        whole = scale != "int" or (low == int(low) and high == int(high))
        if not (low < high < math.inf and whole and (scale != "log" or low > 0)):
            kinds = {"log": "numbers above 0", "int": "whole numbers", "uniform": "numbers"}
            raise ValueError(f"--set {name}: expected {kinds[scale]}, the lower one first, got {text!r}")
        return Range(scale, low, high)  # type: ignore[arg-type]
    values = tuple(_value(one.strip()) for one in text.split(","))
    if "" in values or len(set(map(repr, values))) < len(values):
        raise ValueError(f"--set {name}: {FORMS}, each of them once, got {text!r}")
    return values


def _value(text: str) -> Any:
    """A number, true, false, none, or the text itself."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def plan(
    experiments: Sequence[Experiment],
    settings: Mapping[str, Values],
    seeds: Sequence[int] = (),
    draws: int | None = None,
    draw_seed: int = 0,
) -> list[Member]:
    """The runs of a sweep over all combinations of the values, or over `draws` random ones.

    `settings` has the dotted name of each setting that varies (`optim.lr`, `model.mixer.kind`); for custom data, the
    prefix `task.` may be left out. Each combination is run once per seed; without seeds, with that of the experiment.
    A draw depends on `draw_seed` and its number alone.
    """
    named = {_dotted(name, experiments): values for name, values in settings.items()}
    if len(named) < len(settings):
        raise ValueError(f"--set: expected each setting once, got {', '.join(settings)}")
    if len({one.name for one in experiments}) < len(experiments):
        raise ValueError(f"experiments: expected each once, got {', '.join(one.name for one in experiments)}")
    if "loop.seed" in named or len(set(seeds)) < len(seeds):
        raise ValueError("--seeds: expected each seed once, here and not as a setting loop.seed")
    combinations = _grid(named) if draws is None else _draws(named, draws, draw_seed)
    members = []
    for experiment, values in itertools.product(experiments, combinations):
        changed = experiment
        for name, value in sorted(values.items(), key=lambda one: not one[0].endswith(".kind")):  # kinds first
            changed = changed.with_setting(name.replace("-", "_"), value)
        parts = [experiment.name] * (len(experiments) > 1 or not values)
        row = ",".join([*parts, *(f"{name.rpartition('.')[2]}={value}" for name, value in values.items())])
        shown = {"experiment": experiment.name, **values} if parts else values
        for seed in seeds or (experiment.loop.seed,):
            seeded = replace(changed, loop=replace(changed.loop, seed=seed))
            folder = re.sub(r"[^\w.,=+-]", "_", row)[:200]  # a name that any file system takes
            members.append(Member(f"{folder}-seed{seed}", row, shown, seeded))
    if len({member.name.lower() for member in members}) < len(members):  # some file systems ignore case
        members = [one._replace(name=f"{k:03d}-{one.name}") for k, one in enumerate(members)]
    return members


def _dotted(name: str, experiments: Sequence[Experiment]) -> str:
    """The full name of a setting; for custom data, those of the task may be given without their prefix."""
    name = name.removeprefix("--").replace("_", "-")
    custom = all(experiment.takes_custom_data for experiment in experiments)
    return name if "." in name or not custom else f"task.{name}"


def _grid(settings: Mapping[str, Values]) -> list[dict[str, Any]]:
    lists = []
    for name, values in settings.items():
        if isinstance(values, Range):
            raise ValueError(f"--set {name}: a range needs --draws N; expected values, or --draws")
        lists.append(values)
    return [dict(zip(settings, values, strict=True)) for values in itertools.product(*lists)]


def _draws(settings: Mapping[str, Values], count: int, seed: int) -> list[dict[str, Any]]:
    if count < 1 or not settings:
        raise ValueError(f"--draws: expected at least 1, and settings to draw (--set), got {count}")
    found: dict[str, dict[str, Any]] = {}
    for k in range(MOST_TRIES * count):
        generator = np.random.default_rng([seed, k])
        drawn = {
            name: values.draw(generator) if isinstance(values, Range) else values[generator.integers(len(values))]
            for name, values in settings.items()
        }
        found.setdefault(repr(drawn), drawn)
        if len(found) == count:
            return list(found.values())
    raise ValueError(f"--draws: there are only {len(found)} combinations; leave --draws out to run all of them")
