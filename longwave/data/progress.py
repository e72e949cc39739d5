"""Progress of a long job, reported to whoever shows it."""

from typing import Protocol


class Progress(Protocol):
    """Shows jobs one at a time: `start` a job with its size in bytes, if known, then `advance` by bytes."""

    def start(self, text: str, total: int | None) -> None:
        """Begin a job, which ends the one before."""

    def advance(self, size: int) -> None:
        """Add bytes that are done."""


class Silent:
    """Progress that shows nothing."""

    def start(self, text: str, total: int | None) -> None:
        """Ignore the job."""

    def advance(self, size: int) -> None:
        """Ignore the bytes."""
