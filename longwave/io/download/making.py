"""Data sets that are generated on this machine: what can be made, whether it is here, and making it.

One call registers a set, `MAKERS.register(name)(Maker(...))`; the file datasets.py of a kind of task does so. A set is
made in a folder of another name, which is renamed at the end: what has its name is complete. A file beside its files
says how many examples it has and by which seed, so that a small set is not mistaken for the whole one. Files that were
published, and were put there by hand, serve as well.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from longwave.core import files, lock
from longwave.core.progress import Progress, Silent
from longwave.core.registry import Registry
from longwave.core.terminal import with_command
from longwave.io.download.catalogue import MissingData, command, data_dir

MADE = "made.json"  # beside the files of a set that was made


@dataclass(frozen=True)
class Maker:
    """How to make a data set.

    `make(folder, count, seed, progress)` writes the files into a folder that exists. The folder has what an interrupted
    call with the same count and seed left, and nothing else; the files must follow from count and seed alone. Options
    that were chosen come as keywords, which are True.
    """

    title: str
    path: str  # the folder of the set, below the data folder
    files: tuple[str, ...]  # in that folder: what a reader needs
    count: int  # examples of the whole set
    seed: int
    make: Callable[..., None]
    options: tuple[str, ...] = ()  # that make another set


MAKERS: Registry[Maker] = Registry("data set to make", "longwave.tasks", "datasets")


@dataclass(frozen=True)
class Made:
    """How a set was made."""

    name: str
    count: int
    seed: int
    options: tuple[str, ...] = ()

    def note(self) -> str | None:
        """What is to be known of the set where scores are shown; nothing, if it is the whole one."""
        whole = MAKERS.find(self.name)
        if (self.count, self.seed, self.options) == (whole.count, whole.seed, ()):
            return None
        return (
            f"{self.name} was made with {self.count:,} examples and seed {self.seed}{self.chosen}; the whole set has "
            f"{whole.count:,} and seed {whole.seed}"
        )

    @property
    def chosen(self) -> str:
        """The options, to be put behind the seed."""
        return "".join(f", {option}" for option in self.options)


def make(
    name: str,
    folder: str | Path | None = None,
    count: int | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    options: Sequence[str] = (),
) -> Path:
    """Make a data set below a data folder, unless it is there; the path to its files.

    A set with another count, seed or option, or one that was published, is never overwritten. A call that was
    interrupted goes on if the maker can, and else starts again. Another process that makes the set is not disturbed.
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
    for setting, value, least in (("count", wanted.count, 1), ("seed", wanted.seed, 0)):
        if value < least:
            raise ValueError(f"{setting}: expected a number from {least} on, got {value}")
    target = where / maker.path
    if not _is_made(target, wanted):
        # Two processes would write into each other's files; what they write differs with the count and the seed.
        with lock.hold(target.with_name(f".{target.name}.making"), "making this data set"):
            if not _is_made(target, wanted):  # by another process, meanwhile
                _make(maker, wanted, target, progress or Silent())
    return target


def _is_made(target: Path, wanted: Made) -> bool:
    """Whether a folder has the set that is wanted; one that has another is refused."""
    if not target.exists():
        return False
    found = _read(target)
    if found == wanted:
        return True
    has = "files that longwave did not make"
    if found is not None:
        has = f"{found.count:,} examples of seed {found.seed}{found.chosen}"
    raise ValueError(
        f"{target} has {has}, and was to have {wanted.count:,} of seed {wanted.seed}{wanted.chosen}; move it away, "
        "or name another data folder with --data-dir"
    )


def _make(maker: Maker, wanted: Made, target: Path, progress: Progress) -> None:
    part = target.with_name(f".{target.name}.part")
    if part.exists() and _read(part) != wanted:
        shutil.rmtree(part)
    part.mkdir(parents=True, exist_ok=True)
    files.write_json(part / MADE, {key: value for key, value in asdict(wanted).items() if value != ()})
    maker.make(part, wanted.count, wanted.seed, progress, **dict.fromkeys(wanted.options, True))
    part.rename(target)
    files.sync_folder(target.parent)


def is_there(name: str, folder: str | Path | None = None) -> bool:
    """Whether a set is in the data folder, made or published."""
    maker = MAKERS.find(name)
    return all((data_dir(folder) / maker.path / file).exists() for file in maker.files)


def made(name: str, folder: str | Path | None = None) -> Made | None:
    """How the set in the data folder was made; None if it was not, or is not there."""
    return _read(data_dir(folder) / MAKERS.find(name).path)


def notes(name: str, folder: str | Path | None = None) -> tuple[str, ...]:
    """What a user should know of how the set in the data folder was made."""
    found = made(name, folder)
    note = None if found is None else found.note()
    return () if note is None else (note,)


def require(name: str, folder: str | Path | None = None) -> Path:
    """The path to the files of a set, for readers; MissingData if it is absent."""
    maker, where = MAKERS.find(name), data_dir(folder)
    if is_there(name, where):
        return where / maker.path
    missing = [file for file in maker.files if not (where / maker.path / file).exists()]
    raise MissingData(
        f"data set {name!r} is not there: {where / maker.path} has no {', '.join(missing)}\n"
        f"{with_command('Run', command('make', name, where))}\nor put the published files there.\n"
        "Another data folder can be named with --data-dir or LONGWAVE_DATA."
    )


def _read(folder: Path) -> Made | None:
    path = folder / MADE
    if not path.exists():
        return None
    try:
        content = files.read_json(path)
    except ValueError as error:
        raise ValueError(f"{path}: expected how the set was made, as longwave wrote it, got {error}") from error
    if not _says_how(content):
        raise ValueError(
            f"{path}: expected how the set was made, as longwave wrote it: a name, a count and a seed, got "
            f"{content!r:.80}; move {folder} away and make it again"
        )
    return Made(content["name"], content["count"], content["seed"], tuple(content.get("options", ())))


def _says_how(content: Any) -> bool:
    """Whether the content of a JSON file says how a set was made."""
    fields = {"name": str, "count": int, "seed": int}
    return (
        isinstance(content, dict)
        and content.keys() - {"options"} == fields.keys()
        and all(type(content[name]) is kind for name, kind in fields.items())
        and content["name"] in MAKERS
        and isinstance(content.get("options", []), list)
        and all(isinstance(option, str) for option in content.get("options", []))
    )
