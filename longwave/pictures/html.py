"""Parts of a page in HTML: sections, tables, images."""

import base64
import html
import io
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Section(NamedTuple):
    """A part of the page."""

    title: str
    content: str  # HTML


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of text; columns of numbers stand to the right."""
    numeric = [all(row[k][:1].isdigit() for row in rows) and k > 0 for k in range(len(head))]
    kinds = [' class="n"' if is_number else "" for is_number in numeric]
    lines = ["".join(f"<th{kind}>{html.escape(cell)}</th>" for cell, kind in zip(head, kinds, strict=True))]
    for row in rows:
        lines.append("".join(f"<td{kind}>{html.escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)))
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def image(draw: Callable[[], Any], alt: str) -> str:
    """A figure as an image inside the page."""
    data = base64.b64encode(render(draw())).decode()
    return f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{data}">'


def duration(seconds: float) -> str:
    """A time that training took, in words."""
    if seconds < 120:
        return f"{seconds:.{0 if seconds >= 10 else 1}f} seconds"
    return f"{seconds / 60:.1f} minutes"


def render(figure: Any) -> bytes:
    """A figure as a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def score_text(value: float) -> str:
    """Four digits behind the point, or four that count where these would all be 0: errors in small units."""
    return f"{value:.4g}" if 0 < abs(value) < 0.001 else f"{value:.4f}"
