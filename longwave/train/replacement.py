"""Replacing a run: the old one stays complete and usable until the new one has a checkpoint.

The new run is written to the folder .new inside that of the old one. Once it has a checkpoint, the marker file .moving
lists its files, those of the old run are removed, and the new ones are moved into their place. Each of these operations
can be repeated, so whoever opens the folder next finishes what a kill cut short. Without the marker the old run counts,
and the next run in the folder removes .new.
"""

import os
import shutil
import time
from pathlib import Path

from longwave.core import files, lock
from longwave.core.settings import typed

# What a run writes, besides the files of its task. The file that makes a folder a run comes last.
FILES = ("metrics.jsonl", "result.json", "report.html", "best", "checkpoints", "config.json")
NEW, MARKER = ".new", ".moving"
PATIENCE, POLL = 10.0, 0.05  # seconds to wait for another process that is moving files


def announce(folder: Path) -> None:
    """State that the new run, which has a checkpoint, is the one that counts from now on; `settle` moves it in."""
    files.write_json(folder / MARKER, {"files": sorted(path.name for path in (folder / NEW).iterdir())})


def settle(folder: str | Path) -> None:
    """Finish an interrupted replacement; call it before reading a folder."""
    folder, waited = Path(folder), 0.0
    while (folder / MARKER).exists():
        try:
            with lock.hold(folder):
                if (folder / MARKER).exists():
                    _finish(folder)
        except lock.Busy:
            if waited >= PATIENCE:
                raise
            time.sleep(POLL)
            waited += POLL


def discard(folder: Path) -> None:
    """Remove remains of replaced or abandoned runs; the caller holds the folder's lock."""
    if not (folder / MARKER).exists():
        shutil.rmtree(folder / NEW, ignore_errors=True)


def _finish(folder: Path) -> None:
    """Remove what is left of the old run and move in what is left of the new one."""
    names = _new_names(folder)
    for name in FILES:
        if name not in names:
            _remove(folder / name)
    for name in names:
        if os.path.lexists(folder / NEW / name):
            _remove(folder / name)
            os.rename(folder / NEW / name, folder / name)
    files.sync_folder(folder)
    (folder / MARKER).unlink()
    shutil.rmtree(folder / NEW, ignore_errors=True)


def _new_names(folder: Path) -> list[str]:
    """The names of the files of the new run, as the marker lists them."""
    try:
        names = typed(files.read_json(folder / MARKER)["files"], tuple[str, ...], "files")
        if not all(name and Path(name).name == name for name in names):
            raise ValueError(f"got {names}")
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{folder / MARKER}: expected the names of the files in {folder / NEW} ({error}); move these files by "
            "hand, and remove both"
        ) from error
    return list(names)


def _remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
