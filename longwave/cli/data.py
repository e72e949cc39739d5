"""`longwave data`: list, download, make and check data sets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

    from longwave.core.progress import Progress


def data_list(data_dir: Path | None = None) -> None:
    """List the data sets: those to download and those to make, and whether they are on disk.

    Example: longwave data list

    Args:
        data_dir: Folder of the data sets (default: LONGWAVE_DATA, or else longwave in the user's cache).
    """
    from longwave.core.text_table import TextTable
    from longwave.io.download import catalogue, making

    folder, rows = catalogue.data_dir(data_dir), []
    for name, dataset in catalogue.DATASETS.items():
        present = [part.present(folder) for part in dataset.checks]
        on_disk = "yes" if all(present) else "in part" if any(present) else "-"
        rows.append([name, dataset.title, _size(dataset.size), dataset.verified_by, dataset.licence, on_disk])
    words = ("name", "contents", "verified by", "licence", "on disk")
    notes = [f"on disk: in {folder}; `longwave data check` verifies the files"]
    TextTable("Data sets", (*words[:2], "download", *words[2:]), rows, notes, words).print()
    made = [[name, maker.title, f"{maker.count:,}", _on_disk(name, folder)] for name, maker in making.MAKERS.items()]
    columns = ("name", "contents", "examples", "on disk")
    TextTable("Data sets that `longwave data make` makes", columns, made, text=words).print()


def _on_disk(name: str, folder: Path) -> str:
    """Whether a set that can be made is there, and which."""
    from longwave.io.download import making

    if not making.is_there(name, folder):
        return "-"
    found = making.made(name, folder)
    return "as published" if found is None else f"made: {found.count:,} of seed {found.seed}{found.chosen}"


def data_get(name: Positional[Annotated[str, arg(metavar="NAME")]], data_dir: Path | None = None) -> None:
    """Download a data set, verify it and unpack it; files that exist already are kept.

    Example: longwave data get mnist

    Args:
        name: The data set, as `longwave data list` names it.
        data_dir: Folder of the data sets (default: LONGWAVE_DATA, or else longwave in the user's cache).
    """
    from longwave.io.download import catalogue, fetch, making

    if name in making.MAKERS:
        raise ValueError(f"{name} is not downloaded, but made: longwave data make {name}")
    with _progress() as progress:
        path = fetch.get(name, catalogue.data_dir(data_dir), progress)
    print(path)


def data_make(
    name: Positional[Annotated[str, arg(metavar="NAME")]],
    count: int | None = None,
    seed: int | None = None,
    options: tuple[str, ...] = (),
    data_dir: Path | None = None,
) -> None:
    """Make a data set that is generated; one that exists already is kept.

    Example: longwave data make listops

    Args:
        name: The data set, as `longwave data list` names it.
        count: Examples to make (default: as many as the published set has).
        seed: Another seed makes another set.
        options: What to make otherwise (pathfinder, pathx: equal_contrast, all_orientations; docs: Long Range Arena).
        data_dir: Folder of the data sets (default: LONGWAVE_DATA, or else longwave in the user's cache).
    """
    from longwave.io.download import catalogue, making

    if name in catalogue.DATASETS:
        raise ValueError(f"{name} is not made, but downloaded: longwave data get {name}")
    with _progress(in_bytes=False) as progress:
        path = making.make(name, data_dir, count, seed, progress, options)
    print(path)


def data_check(
    names: Positional[Annotated[tuple[str, ...], arg(metavar="[NAME ...]")]] = (), data_dir: Path | None = None
) -> int:
    """Compare the files on disk with what was published.

    Exit code 1 if files are wrong, or if a data set that was named is missing.

    Example: longwave data check mnist etth1

    Args:
        names: The data sets to check; all if none is named.
        data_dir: Folder of the data sets (default: LONGWAVE_DATA, or else longwave in the user's cache).
    """
    from longwave.core.text_table import TextTable
    from longwave.io.download import catalogue

    for name in names:
        catalogue.DATASETS.find(name)
    folder, rows = catalogue.data_dir(data_dir), []
    for name in names or catalogue.DATASETS:
        report = catalogue.check(name, folder)
        problems = f"longwave data get {name}" if report.state == "missing" else "\n".join(report.problems)
        rows.append([name, report.state, problems])
    columns, colours = ("name", "state", "problems"), {"good": "green", "missing": "yellow", "wrong": "red"}
    TextTable(f"Data sets in {folder}", columns, rows, text=columns, colours=colours).print()
    states = [state for _, state, _ in rows]
    return int("wrong" in states or (bool(names) and "missing" in states))


@contextmanager
def _progress(in_bytes: bool = True) -> Iterator[Progress | None]:
    """A bar of bytes or of examples on stderr if that is a terminal, else nothing."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as RichProgress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    amounts: list[ProgressColumn] = [DownloadColumn(), TransferSpeedColumn()] if in_bytes else [MofNCompleteColumn()]
    columns = (TextColumn("{task.description}"), BarColumn(), *amounts, TimeRemainingColumn())
    with RichProgress(*columns, console=console, transient=True) as bars:
        yield _Bar(bars)


class _Bar:
    """One bar at a time, as `longwave.core.progress.Progress` has it."""

    def __init__(self, bars: RichProgress) -> None:
        self.bars = bars

    def start(self, text: str, total: int | None) -> None:
        for task in self.bars.task_ids:
            self.bars.remove_task(task)
        self.bars.add_task(text, total=total)

    def advance(self, size: int) -> None:
        for task in self.bars.task_ids:
            self.bars.advance(task, size)


def _size(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


COMMANDS = {"list": data_list, "get": data_get, "make": data_make, "check": data_check}
