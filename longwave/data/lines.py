"""Lines of text as they come: from a pipe, or from a file that may still grow."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PIPE = Path("-")  # the file that stands for stdin
TOGETHER = 1 << 20  # bytes that are read at a time
PATIENCE = 0.1  # seconds between two looks at a file that grows


def lines(path: Path, follow: bool = False, wait: Callable[[float], None] = time.sleep) -> Iterator[list[str]]:
    """The complete lines of a file, as many at a time as there are, without their ends; from a pipe one at a time.

    With `follow` it goes on as the file grows, until it is interrupted; a last line without an end is then not complete
    yet.
    """
    if path == PIPE:
        for line in sys.stdin.buffer:
            yield [_text(line, "stdin")]
        return
    with path.expanduser().open("rb") as file:
        rest = b""
        while True:
            data = file.read(TOGETHER)
            *complete, rest = (rest + data).split(b"\n")
            if complete:
                yield [_text(line, str(path)) for line in complete]
            if not data and not follow:
                break
            if not data:
                if path.expanduser().stat().st_size < file.tell():
                    raise ValueError(f"{path}: the file became shorter while it was read; start again")
                wait(PATIENCE)
        if rest:
            yield [_text(rest, str(path))]


def _text(line: bytes, source: str) -> str:
    try:
        return line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{source}: expected text in UTF-8, got other bytes ({error})") from error
