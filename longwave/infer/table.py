"""Predictions as CSV files."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from longwave.data import files


def write_csv(path: str | Path, rows: Iterable[list[str]]) -> None:
    """Write rows, the header first, atomically; folders that are missing are made."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    files.write_text(path, text.getvalue())
