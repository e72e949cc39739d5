"""How `train` and `show` read an experiment: its name first, then `--part.setting value` to override anything."""

import dataclasses
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from longwave.train.config import Experiment


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

    from longwave.train import experiments
    from longwave.train.config import Experiment

    name, rest = arguments[0], arguments[1:]
    default = experiments.find(name)
    parts = {part: getattr(default, part) for part in ("task", "model", "optim", "loop")}
    fields: list[Any] = [(part, type(value), field(default=value)) for part, value in parts.items()]
    if name in ("forecast", "classify", "text"):  # one's own data: --csv, --file ... without a prefix
        fields[0] = ("task", Annotated[type(default.task), tyro.conf.OmitArgPrefixes], field(default=default.task))
    for f in () if options is None else dataclasses.fields(options):
        fields.append((f.name, f.type, field(default=getattr(options, f.name))))
    settings_kind = dataclasses.make_dataclass("Settings", fields, frozen=True)
    settings: Any = tyro.cli(settings_kind, prog=f"longwave {command} {name}", description=description, args=rest)
    experiment = Experiment(name, **{part: getattr(settings, part) for part in parts})
    if options is None:
        return experiment, None
    return experiment, type(options)(**{f.name: getattr(settings, f.name) for f in dataclasses.fields(options)})
