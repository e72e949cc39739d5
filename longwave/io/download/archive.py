"""Unpacking zip and tar files from the internet without trusting them."""

import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, NamedTuple

from longwave.core import files
from longwave.core.progress import Progress, Silent

MAX_ENTRIES = 1_000_000  # files and folders in one archive; the largest public set has about 106,000
BLOCK = 1 << 18  # bytes to read at a time


class Refused(ValueError):
    """A file is not what was published, or is not safe to unpack."""


class _Entry(NamedTuple):
    path: PurePosixPath  # cannot lead out of the folder that it is joined to
    size: int | None  # None: a folder
    open: Callable[[], IO[bytes] | None]


def unpack(archive: Path, folder: Path, limit: int, progress: Progress | None = None) -> None:
    """Unpack a zip or tar file into a new folder.

    All names and sizes are checked before anything is written: an archive is refused if a name leads out of the folder,
    if it holds anything but files and folders (no data set needs a link), or if it unpacks to more than `limit` bytes.
    """
    progress = progress or Silent()
    try:
        with _entries(archive) as entries:
            wanted: list[_Entry] = []
            total = 0
            for entry in entries:
                total += entry.size or 0
                if total > limit or len(wanted) >= MAX_ENTRIES:
                    raise Refused(f"{archive.name} would unpack to more than {limit:,} bytes or {MAX_ENTRIES:,} files")
                wanted.append(entry)
            progress.start(f"unpacking {archive.name}", total)
            folder.mkdir(parents=True)
            for entry in wanted:
                _place(entry, folder / entry.path, progress)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise Refused(f"{archive.name} is damaged: {error}") from error
    except (tarfile.TarError, zipfile.BadZipFile, RuntimeError) as error:  # RuntimeError: encrypted, unknown method
        raise Refused(f"{archive.name} cannot be unpacked: {error}") from error


def _inner_path(name: str, archive: Path) -> PurePosixPath:
    path = PureWindowsPath(name)  # knows both separators, and drives
    if path.anchor or ".." in path.parts or "\0" in name:
        raise Refused(f"{archive.name} is not safe to unpack: {name!r} leads out of the folder")
    return PurePosixPath(name)


def _place(entry: _Entry, target: Path, progress: Progress) -> None:
    try:
        if entry.size is None:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(entry, entry.size, target, progress)
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise Refused(f"{entry.path} is both a file and a folder in the archive") from error


def _write(entry: _Entry, size: int, target: Path, progress: Progress) -> None:
    content = entry.open()
    if content is None:
        raise Refused(f"{entry.path} has no contents")
    left = size
    with content, files.naming(target), open(target, "wb") as file:
        while left >= 0 and (block := content.read(BLOCK)):
            file.write(block)
            left -= len(block)
            progress.advance(len(block))
    if left != 0:
        raise Refused(f"{entry.path} is not as long as the archive says")


@contextmanager
def _entries(archive: Path) -> Iterator[Iterator[_Entry]]:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened_zip:
            yield _zip_entries(opened_zip, archive)
    else:
        with tarfile.open(archive) as opened_tar:
            yield _tar_entries(opened_tar, archive)


def _zip_entries(opened: zipfile.ZipFile, archive: Path) -> Iterator[_Entry]:
    for info in opened.infolist():
        path = _inner_path(info.filename, archive)
        kind = stat.S_IFMT(info.external_attr >> 16)  # 0 if the archive was made where files have no such mode
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise Refused(f"{archive.name} is not safe to unpack: {info.filename!r} is neither a file nor a folder")
        yield _Entry(path, None if info.is_dir() else info.file_size, partial(opened.open, info))


def _tar_entries(opened: tarfile.TarFile, archive: Path) -> Iterator[_Entry]:
    for member in opened:
        path = _inner_path(member.name, archive)
        if not (member.isreg() or member.isdir()):
            raise Refused(f"{archive.name} is not safe to unpack: {member.name!r} is neither a file nor a folder")
        if hasattr(tarfile, "data_filter"):  # since 3.11.4: a second opinion
            tarfile.data_filter(member, str(archive.parent))
        yield _Entry(path, None if member.isdir() else member.size, partial(opened.extractfile, member))
    # The sum of a compressed stream is compared at its end, beyond where a tar file says that it ends.
    left = 1 << 26
    while left > 0 and opened.fileobj is not None and (block := opened.fileobj.read(BLOCK)):
        left -= len(block)
    if left <= 0:
        raise Refused(f"{archive.name} goes on after its end")
