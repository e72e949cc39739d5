"""Progress of a long job, reported to whoever shows it."""

import sys
import time
from typing import Protocol

PATIENCE = 5  # seconds before a job is worth a line


class Progress(Protocol):
    """Shows jobs one at a time: `start` a job with its size, if known, in bytes or examples, then `advance`."""

    def start(self, text: str, total: int | None) -> None:
        """Begin a job, which ends the one before."""

    def advance(self, size: int) -> None:
        """Add what is done."""


class Silent:
    """Progress that shows nothing."""

    def start(self, text: str, total: int | None) -> None:
        """Ignore the job."""

    def advance(self, size: int) -> None:
        """Ignore what is done."""


class Patient:
    """Progress as a line on the terminal, of jobs that together take more than some seconds; nothing elsewhere."""

    def __init__(self) -> None:
        self.began = self.said = time.monotonic()
        self.text, self.total, self.done = "", 0, 0

    def start(self, text: str, total: int | None) -> None:
        """Begin a job."""
        self.text, self.total, self.done = text, total or 0, 0

    def advance(self, size: int) -> None:
        """Add what is done, and say so twice a second."""
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
