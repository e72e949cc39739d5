"""Parse an experiment on the command line: a name or file, then `--section.setting value` to override settings."""

import dataclasses
import inspect
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

from longwave.cli import _early
from longwave.core import files
from longwave.core.settings import check_numbers
from longwave.experiments import families

if TYPE_CHECKING:
    from longwave.experiments import Experiment

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options of every training, new or resumed."""

    quiet: bool = False
    """Print only the result, no progress."""
    device: str = "auto"
    """Where to train: auto (a GPU if there is one), cpu, cuda, cuda:1, mps ..."""


@dataclass(frozen=True, kw_only=True)
class RunOptions(TrainingOptions):
    """Options of a new run, besides its settings."""

    out: Path | None = None
    """Folder of the run; by default runs/NAME-seedN, or runs/NAME-FILE-seedN for custom data."""
    overwrite: bool = False
    """Replace an existing run in that folder."""
    data_dir: Path | None = None
    """Folder with the data sets; by default LONGWAVE_DATA or the user's cache."""
    seeds: tuple[int, ...] = ()
    """Train once with each of these seeds and report mean and spread."""


@dataclass(frozen=True, kw_only=True)
class ResumeOptions(TrainingOptions):
    """Resume a run after a kill or Ctrl-C, exactly where it stopped."""

    resume: Path
    """Folder of the run."""


def parse_resume(command: str, options: type[T], arguments: list[str], example: str) -> T | None:
    """Parse `--resume FOLDER` and its options; None if --resume does not come first."""
    if not arguments or arguments[0].partition("=")[0] != "--resume":
        return None
    if arguments[0] == "--resume" and (len(arguments) == 1 or arguments[1].startswith("-")):
        raise ValueError(f"--resume: expected one folder, as in longwave {command} --resume runs/{example}")
    import tyro

    return tyro.cli(options, prog=f"longwave {command}", args=arguments)


def parse_experiment(
    command: str, description: str, arguments: list[str], options: Any = None
) -> tuple["Experiment", Any]:
    """Parse an experiment and `options` (an instance of a dataclass), with their overrides."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"usage: longwave {command} NAME [--setting value ...]")
        print(f"       longwave {command} --config FILE [--setting value ...]\n\n{description}\n")
        print(f"longwave list shows the names, longwave {command} NAME --help the settings of one.")
        sys.exit(0 if arguments else 2)
    default, called, rest = _named_or_stored(arguments)
    import tyro

    from longwave.experiments import Experiment
    from longwave.layers import MIXERS
    from longwave.models import MODELS

    default, rest = _choose_kinds(default, rest)
    parts = {part: _offered(getattr(default, part)) for part in ("task", "model", "optim", "loop")}
    fields: list[Any] = [(part, type(value), field(default=value)) for part, value in parts.items()]
    without_prefix = tyro.conf.OmitArgPrefixes
    if default.takes_custom_data:  # --csv, --file ... without a prefix
        fields[0] = ("task", Annotated[type(parts["task"]), without_prefix], field(default=parts["task"]))
    if options is not None:
        fields.append(("run", Annotated[type(options), without_prefix], field(default=options)))
    model: Any = default.model
    kinds = f"--model.kind chooses the model: {', '.join(MODELS)} (here {model.kind})."
    if hasattr(model, "mixer"):
        kinds += f" --model.mixer.kind chooses the mixer: {', '.join(MIXERS)} (here {model.mixer.kind})."
    if default.name.endswith("-original"):
        description = f"{description}\n\n{families.ORIGINAL}"
    settings_kind = dataclasses.make_dataclass("Settings", fields, frozen=True)
    settings: Any = tyro.cli(
        settings_kind, prog=f"longwave {command} {called}", description=f"{description}\n\n{kinds}", args=rest
    )
    check_numbers(settings)
    experiment = Experiment(default.name, **{part: _chosen(getattr(settings, part)) for part in parts})
    return experiment, getattr(settings, "run", None)


def _named_or_stored(arguments: list[str]) -> tuple["Experiment", str, list[str]]:
    """The experiment named first, by name or file, its name in the help, and the other arguments."""
    first, is_joined, value = arguments[0].partition("=")
    if first == "--config":
        file, rest = (value, arguments[1:]) if is_joined else ("".join(arguments[1:2]), arguments[2:])
        content = _read_json(file)
        _early.check_inputs(rest)
        from longwave.experiments import Experiment

        return Experiment.from_dict(content, file), f"--config {file}", rest
    _early.check_name(arguments[0])
    _early.check_inputs(arguments[1:])
    from longwave.experiments import EXPERIMENTS

    return EXPERIMENTS[arguments[0]], arguments[0], arguments[1:]


def read_experiment(data: str) -> "Experiment":
    """The experiment of a name, or of a JSON file of settings."""
    return _named_or_stored(["--config", data] if data.endswith(".json") else [data])[0]


def _read_json(file: str) -> Any:
    """Settings as `longwave show` prints them, or those in the config.json of a run."""
    expected = f"{file or '--config'}: expected a JSON file with settings, as longwave show NAME prints them"
    try:
        content = files.read_json(Path(file).expanduser())
    except ValueError as error:
        raise ValueError(f"{expected} ({error})") from error
    if not isinstance(content, dict):
        raise ValueError(f"{expected}, got {content!r:.80}")
    return content.get("experiment", content)


def _offered(settings: Any) -> Any:
    """Settings in a derived class that hides those that the task decides from the command line."""
    import tyro

    types, values, fields = get_type_hints(type(settings), include_extras=True), {}, []
    for one in dataclasses.fields(settings):
        value, annotation = getattr(settings, one.name), types[one.name]
        if dataclasses.is_dataclass(value):
            value = _offered(value)
            annotation = type(value)
        elif one.metadata.get("set_by_task"):
            annotation = Annotated[annotation, tyro.conf.Fixed, tyro.conf.Suppress]
        values[one.name] = value
        kept: Any = field(default_factory=lambda value=value: value, metadata=one.metadata)  # type: ignore[misc]
        fields.append((one.name, annotation, kept))
    names = {"__doc__": inspect.getdoc(settings), "original": type(settings)}
    kind = dataclasses.make_dataclass(
        type(settings).__name__, fields, bases=(type(settings),), namespace=names, frozen=True
    )
    return kind(**values)


def _chosen(settings: Any) -> Any:
    """The inverse of `_offered`."""
    values = {one.name: getattr(settings, one.name) for one in dataclasses.fields(settings)}
    parts = {name: _chosen(value) for name, value in values.items() if dataclasses.is_dataclass(value)}
    return settings.original(**values | parts)


def _choose_kinds(experiment: "Experiment", arguments: list[str]) -> tuple["Experiment", list[str]]:
    """Apply --model.kind and --model.mixer.kind, and return the other arguments.

    They are read first, because a kind decides which settings there are.
    """
    model: Any = experiment.model
    kind, arguments = _take("--model.kind", arguments)
    if kind is not None:
        model = model.as_kind(kind)
    kind, arguments = _take("--model.mixer.kind", arguments)
    if kind is not None:
        if not hasattr(model, "mixer"):
            raise ValueError(f"--model.mixer.kind: a {model.kind} has no mixer; expected no such option")
        model = dataclasses.replace(model, mixer=model.mixer.as_kind(kind))
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
