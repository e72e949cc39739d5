"""Checks that run before torch is imported, which takes seconds: unknown names, missing files and folders."""

import sys
from importlib.metadata import entry_points
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longwave.train.config_file import StoredConfig

INPUTS = ("csv", "future-csv", "npz", "file", "folder", "txt", "wav")  # options that name a file or folder to read


def is_untouched(module: str) -> bool:
    """Whether a module's registry holds only what longwave registers, and nothing from a plug-in or caller."""
    return module not in sys.modules and not entry_points(group="longwave.plugins")


def experiment_names() -> list[str]:
    """The names of all experiments, read from the registry only if some may have been added."""
    if is_untouched("longwave.experiments.base"):
        from longwave.experiments import families

        return families.names()
    from longwave.experiments import EXPERIMENTS

    return list(EXPERIMENTS)


def check_name(name: str) -> None:
    """Refuse the name of an experiment that does not exist."""
    names = experiment_names()
    if name not in names:
        from longwave.core.registry import nearest

        raise ValueError(f"unknown experiment {name!r}; {nearest(name, names)}; longwave list shows them all")


def check_inputs(arguments: list[str]) -> None:
    """Refuse input files that do not exist."""
    given: dict[str, str] = {}  # the last counts if an option is given twice
    for argument, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        option, is_joined, value = argument.partition("=")
        if option.removeprefix("--").removeprefix("task.") in INPUTS and option.startswith("--"):
            given[option] = value if is_joined else following
    for option, value in given.items():
        if value not in ("", "None", "-") and not Path(value).expanduser().exists():
            what = "folder" if option.endswith("folder") else "file"
            raise FileNotFoundError(f"{option}: {value}: no such {what}")


def find_run(name: str) -> "StoredConfig":
    """The settings of a run, trained here or published: in the folder `name`, or "user/name[@revision]" on the hub.

    The hub is not asked for what is more likely a misspelt folder: runs/NAME, or a name whose first part is a folder.
    """
    from longwave.train import config_file

    folder, parts = Path(name), name.split("/")
    if len(parts) == 2 and not {"", ".", "..", "~"} & set(parts) and parts[0] != "runs" and not folder.exists():
        model, is_revised, revision = name.partition("@")
        if folder.parent.exists():
            raise FileNotFoundError(
                f"{name}: no such run folder in {folder.parent} (for a name on the "
                f"Hugging Face hub, give the folder that hf download {model} prints)"
            )
        if is_revised and not revision:
            raise ValueError(f"{name}: expected a branch, tag or commit after the @, got none")
        from longwave.models import hub

        folder = hub.find(model, revision=revision or None)
    return config_file.read(folder, published=True)
