"""Progress of long jobs."""

import sys
import time

PATIENCE = 5  # seconds before a job is worth a line


class Progress:
    """The interface of progress displays, one job at a time; this one shows nothing."""

    def start(self, text: str, total: int | None) -> None:
        """Begin a job of `total` bytes or examples, if known; the one before has ended."""

    def advance(self, size: int) -> None:
        """Add bytes or examples that are done."""


SILENT = Progress()


class Patient(Progress):
    """Progress as a line on the terminal, once jobs have taken more than PATIENCE; nothing elsewhere."""

    def __init__(self) -> None:
        self.began = self.said = time.monotonic()
        self.text, self.total, self.done = "", 0, 0

    def start(self, text: str, total: int | None) -> None:
        self.text, self.total, self.done = text, total or 0, 0

    def advance(self, size: int) -> None:
        """Add what is done, and show it, at most twice per second."""
        self.done += size
        now = time.monotonic()
        if now - self.began > PATIENCE and now - self.said > 0.5 and sys.stderr.isatty():
            self.said = now
            share = f" {self.done / self.total:.0%}" if self.total else ""
            print(f"\r\x1b[K{self.text}{share}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line, if there is one."""
        if self.said > self.began:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
