"""Unpacking zip and tar files from the internet without trusting them."""

import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, NamedTuple

from longwave.core import files
from longwave.core.progress import SILENT, Progress

MAX_ENTRIES = 1_000_000  # files and folders in one archive; the largest public set has about 106,000
BLOCK = 1 << 18  # bytes to read at a time


class Refused(ValueError):
    """A file that is not what was published, or is not safe to unpack."""


class _Entry(NamedTuple):
    path: PurePosixPath  # cannot lead out of the folder that it is joined to
    size: int | None  # None: a folder
    open: Callable[[], IO[bytes] | None]


def unpack(archive: Path, folder: Path, limit: int, progress: Progress = SILENT) -> None:
    """Unpack a zip or tar file into a new folder.

    All names and sizes are checked before anything is written: an archive is refused if a name is outside the folder,
    if it holds anything but files and folders (no data set needs a link), or if it unpacks to more than `limit` bytes.
    """
    try:
        is_zip = archive.suffix == ".zip"
        opened: Any
        with zipfile.ZipFile(archive) if is_zip else tarfile.open(archive) as opened:
            wanted: list[_Entry] = []
            total = 0
            for entry in (_zip_entries if is_zip else _tar_entries)(opened, archive):
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


def _place(entry: _Entry, target: Path, progress: Progress) -> None:
    try:
        if entry.size is None:
            return target.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        if (content := entry.open()) is None:
            raise Refused(f"{entry.path} has no contents")
        left = entry.size
        with content, files.naming(target), open(target, "wb") as file:
            while left >= 0 and (block := content.read(BLOCK)):
                file.write(block)
                left -= len(block)
                progress.advance(len(block))
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise Refused(f"{entry.path} is both a file and a folder in the archive") from error
    if left != 0:
        raise Refused(f"{entry.path} does not have the size that the archive states")


def _entry(archive: Path, name: str, is_plain: bool, size: int | None, open: Callable[[], IO[bytes] | None]) -> _Entry:
    """A file or folder of an archive, unless it is unsafe."""
    path = PureWindowsPath(name)  # knows both separators, and drives
    if path.anchor or ".." in path.parts or "\0" in name:
        raise Refused(f"{archive.name} is not safe to unpack: {name!r} is outside the folder")
    if not is_plain:
        raise Refused(f"{archive.name} is not safe to unpack: {name!r} is neither a file nor a folder")
    return _Entry(PurePosixPath(name), size, open)


def _zip_entries(opened: zipfile.ZipFile, archive: Path) -> Iterator[_Entry]:
    for info in opened.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)  # 0 if the archive was made where files have no such mode
        is_plain, size = kind in (0, stat.S_IFREG, stat.S_IFDIR), None if info.is_dir() else info.file_size
        yield _entry(archive, info.filename, is_plain, size, partial(opened.open, info))


def _tar_entries(opened: tarfile.TarFile, archive: Path) -> Iterator[_Entry]:
    for member in opened:
        is_plain, size = member.isreg() or member.isdir(), None if member.isdir() else member.size
        entry = _entry(archive, member.name, is_plain, size, partial(opened.extractfile, member))
        if hasattr(tarfile, "data_filter"):  # since 3.11.4: a second opinion
            tarfile.data_filter(member, str(archive.parent))
        yield entry
    # The checksum of a compressed stream is verified at its end, after the end of the tar file.
    left = 1 << 26
    while left > 0 and opened.fileobj is not None and (block := opened.fileobj.read(BLOCK)):
        left -= len(block)
    if left <= 0:
        raise Refused(f"{archive.name} has data after its end")
