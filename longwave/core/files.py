"""Write files atomically: a reader sees the old content or the new one, also after a kill or a power cut."""

import contextlib
import errno
import glob
import json
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors of a full disk


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` at the end of the block; if the block fails, nothing changes.

    The processes of a run may all write the same file, so each writes to its own temporary name first.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path}: expected the name of a file to write, got a folder")
    part = path.with_name(f".{path.name}.{platform.node()}-{os.getpid()}.part")
    remove_abandoned_parts(path.parent, path.name)
    try:
        with naming(path):
            with open(part, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in system errors that do not, such as a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Make a temporary folder that becomes `path` at the end of the block; if the block fails, nothing is left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{platform.node()}-{os.getpid()}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        yield part
        os.rename(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    sync_folder(path.parent)


def append(path: Path, text: str) -> None:
    """Add text to the end of a file, all of it or nothing."""
    size = path.stat().st_size if path.exists() else None
    try:
        with naming(path), open(path, "a", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink() if size is None else os.truncate(path, size)
        raise


def remove_abandoned_parts(folder: Path, name: str | None = None) -> None:
    """Remove temporary files of killed processes of this machine from a folder: of one file, or of all."""
    name = "*" if name is None else glob.escape(name)
    for part in folder.glob(f".{name}.{glob.escape(platform.node())}-*.part"):
        pid = part.name.removesuffix(".part").rpartition("-")[2]
        if pid.isdecimal() and int(pid) != os.getpid() and not _is_running(int(pid)):
            part.unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    if os.name == "nt":  # where signal 0 would end the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        pass
    return True


def sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to disk: otherwise a power cut may undo a rename."""
    if os.name == "nt":  # where a folder cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with atomic(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, in UTF-8; surrogates, as in file names, become question marks."""
    write_bytes(path, text.encode("utf-8", "replace"))


def read_json(path: Path) -> Any:
    """The content of a JSON file; any problem with it is a ValueError."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(content, indent=2) + "\n")
