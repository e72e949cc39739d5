"""Data sets that are generated locally.

`MAKERS.register(name)(Maker(...))` in datasets.py of a kind of task adds one. A set is made under a temporary name and
renamed when complete. A file beside it records the number of examples and the seed, so that a small set is not mistaken
for the full one. Published files placed by hand work as well.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from longwave.core import files, lock
from longwave.core.progress import SILENT, Progress
from longwave.core.registry import Registry
from longwave.core.settings import Settings, at_least
from longwave.core.terminal import with_command
from longwave.io.download.catalogue import MissingData, command, data_dir

MADE = "made.json"  # beside the files of a set that was made


@dataclass(frozen=True)
class Maker:
    """A generator of a data set.

    `make(folder, count, seed, progress)` writes the files into an existing folder, which has nothing but what an
    interrupted call with the same count and seed left. The files must depend on count and seed alone. Options are
    passed as keywords with the value True.
    """

    title: str
    path: str  # the folder of the set, below the data folder
    files: tuple[str, ...]  # in that folder: what a reader needs
    count: int  # examples of the full set
    seed: int
    make: Callable[..., None]
    options: tuple[str, ...] = ()  # variants of the set


MAKERS: Registry[Maker] = Registry("data set to make", "longwave.tasks", "datasets")


@dataclass(frozen=True)
class Made(Settings):
    """The parameters that a set was made with."""

    name: str
    count: int = at_least(1)
    seed: int = at_least(0)
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        MAKERS.find(self.name)
        super().__post_init__()

    def note(self) -> str | None:
        """A caveat to show beside scores; None for the full set."""
        whole = MAKERS.find(self.name)
        if (self.count, self.seed, self.options) == (whole.count, whole.seed, ()):
            return None
        return (
            f"{self.name} was made with {self.count:,} examples and seed {self.seed}{self.chosen}; the full set has "
            f"{whole.count:,} and seed {whole.seed}"
        )

    @property
    def chosen(self) -> str:
        return "".join(f", {option}" for option in self.options)


def make(
    name: str,
    folder: str | Path | None = None,
    count: int | None = None,
    seed: int | None = None,
    progress: Progress = SILENT,
    options: Sequence[str] = (),
) -> Path:
    """Make a data set in the data folder, unless it exists; returns the path to its files.

    A set with another count, seed or option, or a published one, is never overwritten. An interrupted call is resumed
    if the maker can, and else restarted. A process that is already making the set is left alone.
    """
    maker, where = MAKERS.find(name), data_dir(folder).absolute()
    if unknown := sorted(set(options) - set(maker.options)):
        known = ", ".join(maker.options) or "none"
        raise ValueError(f"options: {name} has no option {unknown[0]!r}; expected some of: {known}")
    wanted = Made(
        name,
        maker.count if count is None else count,
        maker.seed if seed is None else seed,
        tuple(sorted(set(options))),
    )
    target = where / maker.path
    if not _is_made(target, wanted):
        # Two processes would write into each other's files; what they write differs with the count and the seed.
        with lock.hold(target.with_name(f".{target.name}.making"), "making this data set"):
            if not _is_made(target, wanted):  # by another process, meanwhile
                _make(maker, wanted, target, progress)
    return target


def _is_made(target: Path, wanted: Made) -> bool:
    """Whether the wanted set exists; a folder with another one is refused."""
    if not target.exists():
        return False
    found = _read(target)
    if found == wanted:
        return True
    has = "files that longwave did not make"
    if found is not None:
        has = f"{found.count:,} examples with seed {found.seed}{found.chosen}"
    raise ValueError(
        f"{target} has {has}; expected {wanted.count:,} with seed {wanted.seed}{wanted.chosen}: move it away, or use "
        "another data folder with --data-dir"
    )


def _make(maker: Maker, wanted: Made, target: Path, progress: Progress) -> None:
    part = target.with_name(f".{target.name}.part")
    if part.exists() and _read(part) != wanted:
        shutil.rmtree(part)
    part.mkdir(parents=True, exist_ok=True)
    files.write_json(part / MADE, {key: value for key, value in wanted.to_dict().items() if value != []})
    maker.make(part, wanted.count, wanted.seed, progress, **dict.fromkeys(wanted.options, True))
    part.rename(target)
    files.sync_folder(target.parent)


def _missing(name: str, folder: str | Path | None) -> list[str]:
    maker = MAKERS.find(name)
    return [file for file in maker.files if not (data_dir(folder) / maker.path / file).exists()]


def is_there(name: str, folder: str | Path | None = None) -> bool:
    """Whether a set is in the data folder, made or published."""
    return not _missing(name, folder)


def made(name: str, folder: str | Path | None = None) -> Made | None:
    """The parameters of the set in the data folder; None if it is absent or was not made here."""
    return _read(data_dir(folder) / MAKERS.find(name).path)


def notes(name: str, folder: str | Path | None = None) -> tuple[str, ...]:
    """Notes on how the set in the data folder was made."""
    found = made(name, folder)
    note = found and found.note()
    return (note,) if note else ()


def require(name: str, folder: str | Path | None = None) -> Path:
    """The path to the files of a set, for readers; MissingData if it is absent."""
    maker, where = MAKERS.find(name), data_dir(folder)
    missing = _missing(name, where)
    if not missing:
        return where / maker.path
    raise MissingData(
        f"data set {name!r} is missing: {where / maker.path} has no {', '.join(missing)}\n"
        f"{with_command('Run', command('make', name, where))}\nor put the published files there.\n"
        "Use another data folder with --data-dir or LONGWAVE_DATA."
    )


def _read(folder: Path) -> Made | None:
    path = folder / MADE
    if not path.exists():
        return None
    try:
        return Made.from_dict(files.read_json(path))
    except ValueError as error:
        raise ValueError(
            f"{path}: expected how the set was made, as longwave wrote it ({error}); move {folder} away, and make the "
            "set again"
        ) from error
