"""The catalogue of public data sets: where they come from, what their files are, and whether they are on disk.

`DATASETS.register(name)(Dataset(...))` in datasets.py of a kind of task adds one. In the data folder every set has the
layout of its public archive, so files placed by hand work as well as downloads. Nothing here uses the network.
"""

import gzip
import hashlib
import os
import shlex
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from longwave.core.registry import Registry
from longwave.core.terminal import with_command

BLOCK = 1 << 18  # bytes to read at a time


class MissingData(FileNotFoundError):
    """A data set is missing or incomplete; the message says how to get it."""


@dataclass(frozen=True)
class Check(ABC):
    """A file or folder of a data set, and how to tell whether it is what was published."""

    path: str  # below the data folder

    def present(self, folder: Path) -> bool:
        """Whether any part of it is in the data folder."""
        return (folder / self.path).is_file()

    @abstractmethod
    def problem(self, folder: Path) -> str | None:
        """How it differs from the published version; None if it does not."""


@dataclass(frozen=True)
class File(Check):
    """A file identified by size and digest; of a gzip file by those of its contents, which may also be uncompressed."""

    size: int | None = None
    digest: str | None = None  # "algorithm:hexadecimal"
    gzipped: bool = False

    def found(self, folder: Path) -> Path:
        """The path of the file: as published, or uncompressed if only that is there."""
        path = folder / self.path
        plain = path.with_suffix("")
        return plain if self.gzipped and not path.is_file() and plain.is_file() else path

    def present(self, folder: Path) -> bool:
        return self.found(folder).is_file()

    def problem(self, folder: Path) -> str | None:
        path = self.found(folder)
        if not path.is_file():
            return f"{self.path} is missing"
        algorithm, _, expected = (self.digest or "sha256:").partition(":")
        digest, size = hashlib.new(algorithm), 0
        try:
            zipped = self.gzipped and path == folder / self.path
            with gzip.open(path) if zipped else open(path, "rb") as file:
                while (self.size is None or size <= self.size) and (block := file.read(BLOCK)):
                    digest.update(block)
                    size += len(block)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            return f"{self.path} is damaged: {error}"
        if self.size is not None and size != self.size:
            return f"{self.path} holds {'more' if size > self.size else f'{size:,}'} bytes, expected {self.size:,}"
        if expected and digest.hexdigest() != expected:
            return f"{self.path} has {algorithm} {digest.hexdigest()}, expected {expected}"
        return None


@dataclass(frozen=True)
class CsvFile(Check):
    """A CSV file identified by columns and number of rows, since no checksum was published."""

    columns: tuple[str, ...]
    rows: int

    def problem(self, folder: Path) -> str | None:
        path = folder / self.path
        if not path.is_file():
            return f"{self.path} is missing"
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            header = tuple(file.readline(1 << 16).strip().split(","))
            if header != self.columns:
                first, last = self.columns[0], self.columns[-1]
                return (
                    f"{self.path} does not begin with the {len(self.columns)} columns {first}, ..., {last}, "
                    f"but with {','.join(header)[:60]!r}"
                )
            rows = 0
            for line in file:
                if line.strip():
                    rows += 1
                    if line.count(",") != len(header) - 1:
                        return f"{self.path}: row {rows:,} has {line.count(',') + 1} cells, expected {len(header)}"
        return None if rows == self.rows else f"{self.path} has {rows:,} rows, expected {self.rows:,}"


@dataclass(frozen=True)
class Folder(Check):
    """A folder identified by the number of files that match a pattern."""

    pattern: str
    count: int

    def present(self, folder: Path) -> bool:
        return any((folder / self.path).glob(self.pattern))

    def problem(self, folder: Path) -> str | None:
        if not (folder / self.path).is_dir():
            return f"{self.path}{os.sep} is missing"
        found = sum(1 for path in (folder / self.path).glob(self.pattern) if path.stat().st_size > 0)
        return None if found == self.count else f"{self.path} has {found:,} of {self.count:,} files {self.pattern}"


@dataclass(frozen=True)
class Source:
    """A file to download, and how to unpack it."""

    urls: tuple[str, ...]  # tried in this order
    target: str  # below the data folder: the file, or the folder that the archive unpacks to
    size: int  # approximate bytes to download
    sha256: str | None  # of the download; None: none was published, so the contents are checked instead
    archive: str | None = None  # the name of the archive; None: the file itself is the target
    inside: str = "."  # for an archive: its folder that becomes the target
    limit: int = 0  # for an archive: the most bytes it may unpack to

    @property
    def saved(self) -> str:
        """The name under which the download is kept."""
        return self.archive or self.target.rsplit("/", 1)[-1]

    def provides(self, check: Check) -> bool:
        """Whether this download holds what a check looks at."""
        return check.path == self.target or check.path.startswith(f"{self.target}/")


@dataclass(frozen=True)
class Dataset:
    """A public data set."""

    title: str
    licence: str
    path: str  # that a loader gets, below the data folder
    sources: tuple[Source, ...]
    checks: tuple[Check, ...]
    embedded: Path | None = None  # a copy that comes with the package

    @property
    def size(self) -> int:
        """Approximate bytes to download."""
        return sum(source.size for source in self.sources)

    def problems(self, folder: Path, source: Source | None = None) -> list[str]:
        """How the files in a folder, or those of one source, differ from the published ones."""
        found = (check.problem(folder) for check in self.checks if source is None or source.provides(check))
        return [problem for problem in found if problem is not None]


DATASETS: Registry[Dataset] = Registry("data set", "longwave.tasks", "datasets")


def data_dir(explicit: str | Path | None = None) -> Path:
    """The data folder: the argument, else LONGWAVE_DATA, else `longwave` in the user's cache."""
    if explicit is not None:
        return Path(explicit).expanduser()
    if named := os.environ.get("LONGWAVE_DATA"):
        return Path(named).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))  # by its specification, to be ignored unless absolute
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "longwave"


class Report(NamedTuple):
    """The result of `check`."""

    state: Literal["good", "missing", "wrong"]
    problems: tuple[str, ...]


def check(name: str, folder: str | Path) -> Report:
    """Compare the files in the data folder with the published ones."""
    dataset, folder = DATASETS.find(name), Path(folder)
    problems = tuple(dataset.problems(folder))
    if not problems:
        return Report("good", ())
    return Report("wrong" if any(check.present(folder) for check in dataset.checks) else "missing", problems)


def require(name: str, folder: str | Path | None = None) -> Path:
    """The path to a data set's files, for loaders; MissingData if one is absent. Contents are not checked."""
    dataset, where = DATASETS.find(name), data_dir(folder)
    missing = [check for check in dataset.checks if not check.present(where)]
    if not missing:
        return where / dataset.path
    names = ", ".join(check.path for check in missing)
    what = "missing" if len(missing) == len(dataset.checks) else "incomplete"
    wanted = [source for source in dataset.sources if any(map(source.provides, missing))]
    raise MissingData(
        f"data set {name!r} is {what}: {where} has no {names}\n"
        f"{with_command('Run', command('get', name, where))}\nor place it by hand:\n{by_hand(name, wanted, where)}\n"
        "Use another data folder with --data-dir or LONGWAVE_DATA."
    )


def by_hand(name: str, sources: list[Source], folder: Path) -> str:
    """Instructions for placing the files of some sources without `longwave data get`."""
    lines = []
    for source in sources:
        lines.append(f"  download {source.urls[0]}")
        lines += [f"        or {url}" for url in source.urls[1:]]
        if source.archive is None:
            lines.append(f"        to {folder / source.target}")
            continue
        example = next((check.path for check in DATASETS.find(name).checks if source.provides(check)), source.target)
        lines.append(f"        to {folder / 'downloads' / source.saved}")
        lines.append(f"  and run `{command('get', name, folder)}`, which unpacks it, or unpack it yourself so that")
        lines.append(f"           {folder / example} is there")
    return "\n".join(lines)


def command(verb: str, name: str, folder: Path) -> str:
    """The command of `longwave data` that puts a data set into a folder."""
    elsewhere = "" if folder.absolute() == data_dir().absolute() else f" --data-dir {shlex.quote(str(folder))}"
    return f"longwave data {verb} {name}{elsewhere}"
