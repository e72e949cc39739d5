"""The config.json of a run, read without torch, so that a wrong folder is refused at once.

A published run has its settings in run.json: config.json, beside it, is that of the model.
"""

from pathlib import Path
from typing import Any, NamedTuple

from longwave.core import files
from longwave.core.registry import nearest
from longwave.train import replacement

FORMAT = 2
PUBLISHED = "run.json"


class StoredConfig(NamedTuple):
    """The settings of a run as they are on disk, checked to be those of a run."""

    folder: Path
    path: Path  # of the file
    content: dict[str, Any]


def is_published(folder: str | Path) -> bool:
    """Whether a folder is what `longwave publish` makes of a run: a model, and the settings of the run beside it."""
    return all((Path(folder) / name).exists() for name in (PUBLISHED, "model.safetensors"))


def place(folder: str | Path) -> Path:
    """The file with the settings of a run."""
    return Path(folder) / (PUBLISHED if is_published(folder) else "config.json")


def read(folder: str | Path, *, published: bool = False) -> StoredConfig:
    """Read the settings of a run; a folder without them, or with those of something else, is refused.

    So is a published run, unless `published` allows it.
    """
    if not Path(folder).exists():
        raise ValueError(f"{folder}: no such run folder{_runs_like(folder)}")
    replacement.settle(folder)
    path = place(folder)
    if path.name == PUBLISHED and not published:
        raise ValueError(
            f"{folder}: expected the folder of a run that was trained here, got a published one, without its training; "
            "use it with longwave generate, predict, stream or evaluate"
        )
    try:
        content = files.read_json(path)
    except ValueError as error:
        raise ValueError(f"{folder}: expected the folder of a run, with a {path.name} ({error})") from error
    if isinstance(content, dict) and "model" in content and "experiment" not in content:
        raise ValueError(
            f"{folder}: expected the folder of a run, got a model without its run's facts about the data; load it "
            "in Python with longwave.load_model, or publish the run with longwave publish"
        )
    if not isinstance(content, dict) or content.get("format") != FORMAT or "experiment" not in content:
        raise ValueError(
            f"{path}: expected the {path.name} of a run in format {FORMAT}; written by another version of longwave?"
        )
    return StoredConfig(Path(folder), path, content)


def _runs_like(folder: str | Path) -> str:
    """The end of a message about a missing folder: the runs beside it and in runs/, and the nearest name."""
    beside = [
        str(path.parent) for parent in (Path(folder).parent, Path("runs")) for path in parent.glob("*/config.json")
    ]
    return f"; {nearest(str(folder), sorted(set(beside)))}" if beside else ""
