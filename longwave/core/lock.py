"""A lock on the folder of a run or of a generated data set: one process writes there at a time.

The operating system releases the lock when its process ends, however it ends. The lock file says who holds it, for the
error message, and is removed at the end.
"""

import contextlib
import errno
import json
import os
import platform
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from longwave.core.terminal import command_line

NAME = ".lock"
WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # of a file system without locks
FAR = 1 << 20  # the byte that Windows locks: locked bytes cannot be read

_held: dict[Path, tuple[int, int]] = {}  # process (a fork inherits this) and thread that hold a folder
_guard = threading.Lock()


class Busy(ValueError):
    """Another process writes to the folder."""


@contextlib.contextmanager
def hold(folder: Path, doing: str = "training there") -> Iterator[str | None]:
    """Keep other processes and threads out of a folder; yields a note if the file system has no locks.

    Their error says what this one is `doing`. A missing folder is made, and removed again if it stays empty. A thread
    may hold a folder twice; its forks do not hold it.
    """
    folder, own = Path(folder).resolve(), (os.getpid(), threading.get_ident())
    with _guard:  # threads share the lock of their process, so they are distinguished here
        owner = _held.get(folder)
        is_new = not folder.exists()
        if owner == own:
            file, note = None, None
        elif owner is not None and owner[0] == os.getpid():
            raise Busy(f"{folder}: another thread of this process is {doing}; choose another folder")
        else:
            try:
                file, note = _take(folder, doing)
            except OSError:
                _remove_if_empty(folder, is_new)
                raise
            _held[folder] = own
    try:
        yield note
    finally:
        if file is not None:
            with _guard, file:  # to close it ends the lock
                (folder / NAME).unlink(missing_ok=True)
                del _held[folder]
            _remove_if_empty(folder, is_new)


def _remove_if_empty(folder: Path, is_new: bool) -> None:
    if is_new:
        with contextlib.suppress(OSError):  # it is not empty, as usual
            folder.rmdir()


def _take(folder: Path, doing: str) -> tuple[IO[str], str | None]:
    """The lock file of a folder, open and locked, and a note if it cannot be locked."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    while True:
        file = open(path, "a+")  # noqa: SIM115  it stays open as long as the lock
        note = None
        try:
            _lock(file)
        except (BlockingIOError, PermissionError) as error:
            with file:
                raise Busy(
                    f"{folder}: {_owner(file, doing)}; wait for it, stop it, or choose another folder"
                ) from error
        except OSError as error:
            if error.errno not in WITHOUT_LOCKS:
                file.close()
                raise
            note = f"{path}: this file system has no locks: nothing keeps a second process out of the folder"
        if _is_at(path, file):
            break
        file.close()  # its owner removed it between our two steps
    file.truncate(0)
    owner = {"process": os.getpid(), "machine": platform.node(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    text = json.dumps(owner | {"command": command_line()}) + "\n"
    with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
        os.write(file.fileno(), text.encode())
    return file, note


def _is_at(path: Path, file: IO[str]) -> bool:
    """Whether a path still refers to an open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _owner(file: IO[str], doing: str) -> str:
    """Who holds the lock, in words."""
    try:
        file.seek(0)
        owner = json.loads(file.read())
        who = f"process {owner['process']} on {owner['machine']}"
        return f"{who} has been {doing} since {owner['since']} ({owner['command']})"
    except (OSError, ValueError, KeyError, TypeError):  # it is about to write it
        return f"another process is {doing}"


if os.name == "nt":
    import msvcrt

    def _lock(file: IO[str]) -> None:
        file.seek(FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]

else:
    import fcntl

    def _lock(file: IO[str]) -> None:
        # Not flock, which data-loading processes would inherit and keep for seconds after a kill.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
