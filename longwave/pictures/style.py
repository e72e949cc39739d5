"""Shared style of pictures: colours, text, axes and files."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from longwave.core import files

BLUE, ORANGE, GREY = "#2b6cb0", "#dd6b20", "#4a5568"


def panels(
    width: float, height: float, rows: int = 1, columns: int = 1, used: int | None = None, **options: Any
) -> tuple[Any, Any]:
    """A figure and its axes row by row, (rows * columns,), or only the `used` ones.

    `options` are those of `subplots`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options).ravel()
    for unused in axes[used:] if used is not None else ():
        unused.axis("off")
    return figure, axes[:used]


def check_path(path: str | Path, option: str = "picture") -> None:
    """Refuse a file that cannot be written as a picture, before minutes of work."""
    from matplotlib.backend_bases import FigureCanvasBase

    path = Path(path)
    endings = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in endings:
        raise ValueError(
            f"{option}: expected a picture ending in one of {', '.join(sorted(endings))}, got {str(path)!r}"
        )
    if path.is_dir():
        raise ValueError(f"{option}: {str(path)!r} is a folder; give the name of a file")
    path.parent.mkdir(parents=True, exist_ok=True)


def save(figure: Any, path: str | Path, dpi: int) -> None:
    """Draw a figure into a file, atomically."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()  # on a full disk, the encoders of pictures do not say what went wrong
    figure.savefig(drawn, format=path.suffix.lstrip(".").lower(), dpi=dpi)
    files.write_bytes(path, drawn.getvalue())


def lone_points(values: Any) -> dict[str, Any]:
    """Options of a line that show points without neighbours: a single one, or one between gaps (NaN)."""
    is_there = np.isfinite(np.asarray(values, dtype=np.float64))
    has_neighbour = np.append(False, is_there[:-1]) | np.append(is_there[1:], False)
    alone = np.flatnonzero(is_there & ~has_neighbour).tolist()
    return {"marker": "o", "markersize": 4, "markevery": alone} if alone else {}


def end_at_one(axes: Any, score: str, room: float = 0.04) -> None:
    """End the y-axis of an accuracy or F1 a little above 1, without a tick there; leave others alone."""
    if not score.endswith(("accuracy", "f1")):
        return
    low, high = axes.get_ylim()
    if high > 1:
        axes.set_yticks([tick for tick in axes.get_yticks() if low <= tick < 1 + 1e-9])
        axes.set_ylim(low, min(high, 1 + room * (1 - low)))


def short(name: str, most: int = 14) -> str:
    """A name on one line, cut in the middle, since names often differ at their end."""
    name = " ".join(name.split())
    return name if len(name) <= most else f"{name[: most // 2]}…{name[most // 2 + 1 - most :]}"


def as_drawn(text: str) -> str:
    """Escape a user's text: matplotlib reads text between dollar signs as a formula."""
    return text.replace("$", r"\$")
