"""Compare two results of a bench: each figure of the second over that of the first."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from longwave.bench.base import BENCHES, Bench, Progress, Result, table
from longwave.bench.measure import machine_line
from longwave.bench.numbers import three_digits
from longwave.core.text_table import TextTable

NOISE = 0.1  # up to which a change may be the machine's
FRAME = {"bench", "machine", "caption"}


@BENCHES.register("compare")
@dataclass(frozen=True)
class CompareBench(Bench):
    """Compare two results of the same bench, as longwave bench NAME --json prints them, figure by figure.

    Nothing is measured. Figures that differ by more than a tenth come first; on a busy machine even these may be noise.

    Example: longwave bench compare before.json after.json
    """

    cpu_only = "nothing is measured"

    old: Positional[Annotated[Path, arg(metavar="OLD.json")]] = Path("old.json")
    """Result file of the earlier version."""
    new: Positional[Annotated[Path, arg(metavar="NEW.json")]] = Path("new.json")
    """Result file of the current version."""

    def check(self) -> None:
        super().check()
        for path in (self.old, self.new):
            read(path)

    def run(self, progress: Progress) -> Result:
        """The figures of both; those that only one of the two has are counted."""
        return self.measure(progress)

    def measure(self, progress: Progress) -> Result:
        progress(f"nothing, as {self.old} and {self.new} are only compared")
        old, new = read(self.old), read(self.new)
        if old["bench"] != new["bench"]:
            both = f"{old['bench']}, as {self.old} is, got one of {new['bench']}"
            raise ValueError(f"{self.new}: expected a result of the bench {both}")
        before, after = dict(figures(old)), dict(figures(new))
        rows: list[dict[str, Any]] = [
            {"figure": name, "old": before[name], "new": after[name], "ratio": ratio(before[name], after[name])}
            for name in before
            if name in after
        ]
        rows.sort(key=lambda row: abs(row["ratio"] - 1) <= NOISE)  # stable: else in the order of the bench
        return {
            "bench": "compare",
            "compared": old["bench"],
            "old_machine": old["machine"],
            "machine": new["machine"],
            "rows": rows,
            "only_old": [name for name in before if name not in after],
            "only_new": [name for name in after if name not in before],
        }

    def tables(self, result: Result) -> list[TextTable]:
        rows = result["rows"]
        changed = [k for k, row in enumerate(rows) if abs(row["ratio"] - 1) > NOISE]
        columns: dict[str, Callable[[Any], str]] = {
            "figure": lambda row: row["figure"],
            "old": lambda row: number(row["old"]),
            "new": lambda row: number(row["new"]),
            "new / old": lambda row: three_digits(row["ratio"]),
        }
        title = f"{result['compared']}: {len(changed)} of {len(rows)} figures differ by more than a tenth"
        return [table(title, rows, columns, text=("figure",), bold=changed)]

    def notes(self, result: Result) -> list[str]:
        """The machines, and what was not compared."""
        notes = []
        for which in ("old", "new"):
            missing = result[f"only_{which}"]
            if missing:
                others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
                notes.append(f"only the {which} result has {missing[0]}{others}")
        old, new = result["old_machine"], result["machine"]
        if any(old.get(name) != new.get(name) for name in ("cpu", "threads", "backend")):
            notes.append("the results are from different machines, so their times are not comparable")
        if machine_line(old) != machine_line(new):
            notes.append(f"old: {machine_line(old)}; new:")
        return [*notes, machine_line(new)]


def read(path: Path) -> Result:
    """A result of a bench."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: expected the JSON of longwave bench NAME --json, got {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: expected the JSON of longwave bench NAME --json, got {error}") from error
    is_result = isinstance(result, dict) and isinstance(result.get("bench"), str)
    if not is_result or not isinstance(result.get("machine"), dict):
        raise ValueError(f"{path}: expected the JSON of longwave bench NAME --json, got other JSON")
    found: Result = result
    return found


def figures(result: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Each measured figure by its place: numbers with a fraction and bytes, in rows that words and sizes name."""
    if isinstance(result, dict):
        own = {key: value for key, value in result.items() if name or key not in FRAME}
        for key, value in own.items():
            if is_figure(key, value):
                yield join(name, key), float(value)
            elif isinstance(value, dict | list):
                yield from figures(value, join(name, key))
    elif isinstance(result, list):
        for k, value in enumerate(result):
            if isinstance(value, dict):
                yield from figures(value, join(name, label(value) or str(k)))
            elif is_figure(name, value):
                yield join(name, str(k)), float(value)
            else:
                yield from figures(value, join(name, str(k)))


def is_figure(key: str, value: Any) -> bool:
    """Whether a value was measured: counts and sizes are settings, unless they are bytes."""
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and "bytes" in key)


def label(row: Result) -> str:
    """The label of a row, from its words and whole numbers."""
    named = {key: value for key, value in row.items() if isinstance(value, str | int) and not is_figure(key, value)}
    return " ".join(value if isinstance(value, str) else f"{key}={value}" for key, value in named.items())


def join(name: str, key: str) -> str:
    """A place, and what is named there."""
    return f"{name}: {key}" if name else key


def ratio(old: float, new: float) -> float:
    """New over old; 1 for two zeros."""
    return new / old if old else 1.0 if not new else float("inf")


def number(value: float) -> str:
    """A figure with four digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
