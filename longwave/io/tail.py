"""Lines of text as they arrive: from a pipe, or from a file that may grow or be replaced."""

import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

PIPE = Path("-")  # the file that stands for stdin
TOGETHER = 1 << 20  # bytes to read at a time
PATIENCE = 0.1  # seconds between polls of a file


class Lines(NamedTuple):
    """Complete lines of a file, without line endings."""

    texts: list[str]
    is_new_file: bool  # whether these are the first lines of a file, or of one that replaced it
    is_past: bool = False  # whether they were there before the file was followed


def lines(path: Path, follow: bool = False, say: Callable[[str], None] = print) -> Iterator[Lines]:
    """The complete lines of a file, all that are available at a time; from a pipe one at a time.

    With `follow` it continues as the file grows, until it is interrupted; a last line without an end is then
    incomplete. The first end of the file is signalled by an item without lines. A file that is rotated or truncated is
    read from its beginning, and one that is deleted is waited for.
    """
    if path == PIPE:
        for count, line in enumerate(sys.stdin.buffer):
            yield Lines([_text(line, "stdin")], is_new_file=not count)
        return
    is_first = True
    while is_first or follow:
        with _opened(path, is_first) as file:
            past = os.fstat(file.fileno()).st_size if follow and is_first else 0
            happened = yield from _lines_of(file, path, past, follow, say)
        if follow:
            say(f"{path} {happened}: reading from the beginning")
        is_first = False


def _lines_of(
    file: BinaryIO, path: Path, past: int, follow: bool, say: Callable[[str], None]
) -> Generator[Lines, None, str]:
    """The lines of an open file, whose first `past` bytes are past; returns what happened to it in the end."""
    rest, is_new, is_read, is_gone, happened = b"", True, False, False, "" if follow else "was read"
    while True:
        left = past - file.tell()
        data = file.read(min(left, TOGETHER) if left > 0 else TOGETHER)
        *complete, rest = (rest + data).split(b"\n")
        if complete:
            yield Lines([_text(line, str(path)) for line in complete], is_new, is_past=left > 0)
            is_new = False
        if data:
            continue
        if happened:
            break
        if not is_read:
            yield Lines([], is_new_file=False)
            is_read = True
        try:
            happened = _change(file, path)
        except FileNotFoundError:
            if not is_gone:
                say(f"{path} was deleted: waiting for it to reappear")
            is_gone = True
        if not happened:  # else read once more what was written meanwhile
            _wait()
    if rest and not follow:
        yield Lines([_text(rest, str(path))], is_new)
    return f"{happened}; its incomplete last line is skipped" if rest else happened


def _change(file: BinaryIO, path: Path) -> str:
    """Describe how a file changed since it was opened; empty if it can still grow."""
    now, then = path.expanduser().stat(), os.fstat(file.fileno())
    if not os.path.samestat(now, then):
        return "was replaced by another file"
    return "was truncated" if now.st_size < file.tell() else ""


def _opened(path: Path, is_first: bool) -> BinaryIO:
    """The open file; one that was replaced may be missing for a moment."""
    while True:
        try:
            return path.expanduser().open("rb")
        except FileNotFoundError:
            if is_first:
                raise
            _wait()


def _wait() -> None:
    time.sleep(PATIENCE)


def _text(line: bytes, source: str) -> str:
    try:
        return line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{source}: expected text in UTF-8, got other bytes ({error})") from error
