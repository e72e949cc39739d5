"""The config.json of a run, read without torch, so that a wrong folder is refused at once."""

from pathlib import Path
from typing import Any

from longwave.data import files

FORMAT = 2  # 1 had the settings of all mixers beside those of the model


def read(folder: str | Path) -> dict[str, Any]:
    """The content of a run's config.json; a folder that has none, or one of something else, is refused."""
    path = Path(folder) / "config.json"
    try:
        content = files.read_json(path)
    except ValueError as error:
        raise ValueError(f"{folder}: expected the folder of a run, with a config.json ({error})") from error
    check(content, path)
    found: dict[str, Any] = content
    return found


def check(content: Any, path: Path) -> None:
    """Refuse what is not the config.json of a run; `path` is what the message calls it."""
    if not isinstance(content, dict) or content.get("format") not in (1, FORMAT) or "experiment" not in content:
        raise ValueError(
            f"{path}: expected the config.json of a run in format {FORMAT} or older; written by another longwave?"
        )
