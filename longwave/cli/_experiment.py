"""How `train` and `show` read an experiment: its name first, then `--section.setting value` to override anything."""

import dataclasses
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from longwave.experiments import Experiment


@dataclass(frozen=True)
class RunOptions:
    """Where a run goes, apart from what it is."""

    out: Path | None = None
    """Folder of the run; by default runs/NAME-seedN."""
    data_dir: Path | None = None
    """Folder with the data sets; by default LONGWAVE_DATA or the user's cache."""
    seeds: tuple[int, ...] = ()
    """Train once with each of these seeds and report mean and spread."""
    quiet: bool = False
    """No progress, only the result."""


def parse_experiment(
    command: str, description: str, arguments: list[str], options: Any = None
) -> tuple["Experiment", Any]:
    """The experiment as the command line wants it, and `options` (an instance of a dataclass) likewise."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"usage: longwave {command} NAME [--setting value ...]\n\n{description}\n")
        print(f"longwave list shows the names, longwave {command} NAME --help the settings of one.")
        sys.exit(0 if arguments else 2)
    import tyro

    from longwave.experiments import EXPERIMENTS, Experiment

    name = arguments[0]
    try:
        default = EXPERIMENTS.find(name)
    except ValueError as error:
        raise ValueError(f"{error}; longwave list shows them all") from error
    default, rest = _choose_kinds(default, arguments[1:])
    _refuse_old_names(default, rest)
    parts = {part: getattr(default, part) for part in ("task", "model", "optim", "loop")}
    fields: list[Any] = [(part, type(value), field(default=value)) for part, value in parts.items()]
    if default.takes_custom_data:  # --csv, --file ... without a prefix
        fields[0] = ("task", Annotated[type(default.task), tyro.conf.OmitArgPrefixes], field(default=default.task))
    if options is not None:
        fields.append(("options", Annotated[type(options), tyro.conf.OmitArgPrefixes], field(default=options)))
    settings_kind = dataclasses.make_dataclass("Settings", fields, frozen=True)
    settings: Any = tyro.cli(
        settings_kind, prog=f"longwave {command} {name}", description=f"{description}\n\n{_kinds(default)}", args=rest
    )
    experiment = Experiment(name, **{part: getattr(settings, part) for part in parts})
    return experiment, getattr(settings, "options", None)


def _choose_kinds(experiment: "Experiment", arguments: list[str]) -> tuple["Experiment", list[str]]:
    """The experiment with the kinds of model and mixer that the arguments name, and the other arguments.

    A kind decides which settings there are, so it is read before the parser of the settings is made.
    """
    model: Any = experiment.model
    kind, arguments = _take("--model.kind", arguments)
    if kind is not None:
        model = _switch(model, kind)
    kind, arguments = _take("--model.mixer.kind", arguments)
    if kind is not None:
        if not hasattr(model, "mixer"):
            raise ValueError(f"--model.mixer.kind: a {model.kind} has no mixer; expected no such option")
        model = dataclasses.replace(model, mixer=_switch(model.mixer, kind))
    return dataclasses.replace(experiment, model=model), arguments


def _take(option: str, arguments: list[str]) -> tuple[str | None, list[str]]:
    """The value of an option, and the arguments without it."""
    value, rest, ahead = None, [], iter(arguments)
    for argument in ahead:
        if argument == option:
            value = next(ahead, "")
        elif argument.startswith(f"{option}="):
            value = argument.partition("=")[2]
        else:
            rest.append(argument)
    return value, rest


def _switch(settings: Any, kind: str) -> Any:
    """The settings of another kind, with what both of them have."""
    other = settings.registry.find(kind)
    shared = {f.name for f in dataclasses.fields(settings)} & {f.name for f in dataclasses.fields(other)}
    return other(**{name: getattr(settings, name) for name in shared})


def _refuse_old_names(experiment: "Experiment", arguments: list[str]) -> None:
    """Name the new option where an old one is used."""
    from longwave.layers import MIXERS

    renamed = {"--model.mixer": "--model.mixer.kind", "--loop.tensorboard": "--loop.tracker tensorboard"}
    known = {f.name.replace("_", "-") for f in dataclasses.fields(experiment.model)}
    for name in {f.name.replace("_", "-") for mixer in MIXERS.values() for f in dataclasses.fields(mixer)} - known:
        renamed |= {f"--model.{no}{name}": f"--model.mixer.{no}{name}" for no in ("", "no-")}
    for argument in arguments:
        option = argument.partition("=")[0].replace("_", "-")
        if option in renamed:
            raise ValueError(f"{option}: this option is now {renamed[option]}")


def _kinds(experiment: "Experiment") -> str:
    """Which kinds can be chosen."""
    from longwave.layers import MIXERS
    from longwave.models import MODELS

    model: Any = experiment.model
    text = f"--model.kind chooses the model: {', '.join(MODELS)} (here {model.kind})."
    if hasattr(model, "mixer"):
        text += f" --model.mixer.kind chooses the mixer: {', '.join(MIXERS)} (here {model.mixer.kind})."
    return text
