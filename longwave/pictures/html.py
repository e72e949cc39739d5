"""Building blocks of HTML pages: sections, tables, images."""

import base64
import html
import io
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

NUMBER = re.compile(r"-?\d|-$|nan$|-?inf$")  # the beginning of a number; "-" stands for none


class Section(NamedTuple):
    """A part of the page."""

    title: str
    content: str  # HTML


def table(head: Sequence[str], rows: Sequence[Sequence[str]], own: int | None = None) -> str:
    """A table of text, with columns of numbers aligned to the right; the row numbered `own` is emphasised."""
    numeric = [all(NUMBER.match(row[k]) for row in rows) and k > 0 for k in range(len(head))]
    kinds = [' class="n"' if is_number else "" for is_number in numeric]
    lines = ["<tr>" + "".join(f"<th{kind}>{html.escape(cell)}</th>" for cell, kind in zip(head, kinds, strict=True))]
    for k, row in enumerate(rows):
        cells = "".join(f"<td{kind}>{html.escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))
        lines.append(f'<tr class="own">{cells}' if k == own else f"<tr>{cells}")
    return f"<table>{''.join(f'{line}</tr>' for line in lines)}</table>"


def image(draw: Callable[[], Any], alt: str) -> str:
    """A figure as an image embedded in the page."""
    data = base64.b64encode(render(draw())).decode()
    return f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{data}">'


def duration(seconds: float) -> str:
    """A training time, in words."""
    if seconds < 120:
        return f"{seconds:.{0 if seconds >= 10 else 1}f} seconds"
    return f"{seconds / 60:.1f} minutes"


def render(figure: Any) -> bytes:
    """A figure as a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def score_text(value: float) -> str:
    """Four decimals, or four significant digits for values that these would round to 0."""
    return f"{value:.4g}" if 0 < abs(value) < 0.001 else f"{value:.4f}"
