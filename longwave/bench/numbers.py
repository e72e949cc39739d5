"""Format times, sizes and ratios for tables and pictures."""

from collections.abc import Callable
from typing import NamedTuple


def milliseconds(seconds: float | None) -> str:
    """A time, with three digits; "-" if it was not measured."""
    if seconds is None:
        return "-"
    if seconds < 1e-2:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds * 1e3:,.0f} ms"


def megabytes(size: float | None) -> str:
    """A number of bytes; "-" if it was not measured."""
    if size is None:
        return "-"
    return f"{size / 1e6:.1f} MB" if size < 1e8 else f"{size / 1e6:,.0f} MB"


def three_digits(ratio: float | None) -> str:
    """A ratio; "-" if there is none."""
    if ratio is None:
        return "-"
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.3g}"


def over(ours: float | None, paper: float | None) -> str:
    """Our figure over the paper's; "-" if one is missing."""
    return "-" if ours is None or paper is None else f"{ours / paper:.2f}"


class Quantity(NamedTuple):
    """A measured quantity of a training pass: its field in a row, text in a table, unit in a picture."""

    name: str
    field: str
    text: Callable[[float | None], str]
    symbol: str
    unit: float


TIME = Quantity("time", "seconds", milliseconds, "ms", 1e-3)
MEMORY = Quantity("memory", "memory_bytes", megabytes, "MB", 1e6)
