"""`longwave data`: list, download, make and check data sets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from longwave.core.progress import SILENT, Progress

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress


Name = Positional[Annotated[str, arg(metavar="NAME", help="The data set, as `longwave data list` names it.")]]
Names = Positional[Annotated[tuple[str, ...], arg(metavar="[NAME ...]", help="The data sets; by default all.")]]
DataDir = Annotated[
    Path | None, arg(help="Folder of the data sets; by default LONGWAVE_DATA, or longwave in the user's cache.")
]


def data_list(data_dir: DataDir = None) -> None:
    """List the data sets: those to download and those to make, and whether they are on disk.

    Example: longwave data list
    """
    from rich.filesize import decimal

    from longwave.core.text_table import TextTable
    from longwave.io.download import catalogue, making

    folder, rows = catalogue.data_dir(data_dir), []
    for name, dataset in catalogue.DATASETS.items():
        present = [part.present(folder) for part in dataset.checks]
        on_disk = "yes" if all(present) else "in part" if any(present) else "-"
        verified_by = "sha256" if all(source.sha256 for source in dataset.sources) else "contents (no checksum)"
        rows.append([name, dataset.title, decimal(dataset.size), verified_by, dataset.licence, on_disk])
    words = ("name", "contents", "verified by", "licence", "on disk")
    notes = [f"on disk: in {folder}; `longwave data check` verifies the files"]
    TextTable("Data sets", (*words[:2], "download", *words[2:]), rows, notes, words).print()
    made = [[name, maker.title, f"{maker.count:,}", _on_disk(name, folder)] for name, maker in making.MAKERS.items()]
    columns = ("name", "contents", "examples", "on disk")
    TextTable("Data sets that `longwave data make` makes", columns, made, text=words).print()


def _on_disk(name: str, folder: Path) -> str:
    """Describe which version of a generated set is on disk."""
    from longwave.io.download import making

    if not making.is_there(name, folder):
        return "-"
    found = making.made(name, folder)
    return "as published" if found is None else f"made: {found.count:,} with seed {found.seed}{found.chosen}"


def data_get(name: Name, data_dir: DataDir = None) -> None:
    """Download, verify and unpack a data set; existing files are kept.

    Example: longwave data get mnist
    """
    from longwave.io.download import catalogue, fetch, making

    if name in making.MAKERS:
        raise ValueError(f"{name} cannot be downloaded, only made: longwave data make {name}")
    with _progress() as progress:
        path = fetch.get(name, catalogue.data_dir(data_dir), progress)
    print(path)


def data_make(
    name: Name,
    count: int | None = None,
    seed: int | None = None,
    options: tuple[str, ...] = (),
    data_dir: DataDir = None,
) -> None:
    """Generate a synthetic data set; an existing one is kept.

    Example: longwave data make listops

    Args:
        count: Number of examples; by default that of the published set.
        seed: Seed of the generator.
        options: Variants of the data (pathfinder, pathx: equal_contrast, all_orientations; docs: Long Range Arena).
    """
    from longwave.io.download import catalogue, making

    if name in catalogue.DATASETS:
        raise ValueError(f"{name} cannot be made, only downloaded: longwave data get {name}")
    with _progress(in_bytes=False) as progress:
        path = making.make(name, data_dir, count, seed, progress, options)
    print(path)


def data_check(names: Names = (), data_dir: DataDir = None) -> int:
    """Compare the files on disk with what was published.

    Exit code 1 if files are wrong, or if a data set that was named is missing.

    Example: longwave data check mnist etth1
    """
    from longwave.core.text_table import TextTable
    from longwave.io.download import catalogue

    for name in names:
        catalogue.DATASETS.find(name)
    folder, rows = catalogue.data_dir(data_dir), []
    for name in names or catalogue.DATASETS:
        state, problems = catalogue.check(name, folder)
        rows.append([name, state, f"longwave data get {name}" if state == "missing" else "\n".join(problems)])
    columns, colours = ("name", "state", "problems"), {"good": "green", "missing": "yellow", "wrong": "red"}
    TextTable(f"Data sets in {folder}", columns, rows, text=columns, colours=colours).print()
    states = [state for _, state, _ in rows]
    return int("wrong" in states or (bool(names) and "missing" in states))


@contextmanager
def _progress(in_bytes: bool = True) -> Iterator[Progress]:
    """A progress bar of bytes or examples on stderr, if that is a terminal."""
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield SILENT
        return
    of_bytes = (progress.DownloadColumn(), progress.TransferSpeedColumn())
    amounts = of_bytes if in_bytes else (progress.MofNCompleteColumn(),)
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), *amounts)
    with progress.Progress(*columns, progress.TimeRemainingColumn(), console=console, transient=True) as bars:
        yield _Bar(bars)


class _Bar(Progress):
    """One bar at a time."""

    def __init__(self, bars: RichProgress) -> None:
        self.bars = bars

    def start(self, text: str, total: int | None) -> None:
        for task in self.bars.task_ids:
            self.bars.remove_task(task)
        self.bars.add_task(text, total=total)

    def advance(self, size: int) -> None:
        for task in self.bars.task_ids:
            self.bars.advance(task, size)


COMMANDS = {"list": data_list, "get": data_get, "make": data_make, "check": data_check}
