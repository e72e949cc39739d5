"""The picture of a sweep: what each setting does to the validation score, and how the runs came there."""

from pathlib import Path

from longwave.pictures.curves import COLOURS, FAINT, Curve, Panel, draw_panels
from longwave.sweeps.folder import Row, SweepFolder

NAMED = 5  # rows that have a colour and a name: the best ones


def draw_sweep(sweep: SweepFolder) -> Path | None:
    """Draw sweep.png; None if no run has been validated yet."""
    rows = sweep.rows()
    curves = _curves(sweep, rows)
    if not curves:
        return None
    goal = f"validation {sweep.goal.replace('_', ' ')}"
    panels = [Panel("", "epoch", goal, curves, is_whole=True)]
    for name in dict.fromkeys(name for row in rows for name in row.values):
        panels += _setting(name, [row for row in rows if row.scores and name in row.values], goal)
    path = sweep.path / "sweep.png"
    draw_panels(panels, path, columns=min(3, len(panels)))
    return path


def _curves(sweep: SweepFolder, rows: list[Row]) -> list[Curve]:
    """The course of every run; those of the best rows have colours, and names in the legend."""
    curves = []
    for rank, row in enumerate(rows):
        is_named = rank < NAMED
        for member in row.members:
            logged = sweep.curves(member)
            if logged:
                x, y = [line["epoch"] for line in logged], [line[f"valid_{sweep.goal}"] for line in logged]
                name, colour, width = (row.name, COLOURS[rank], 1.6) if is_named else ("", FAINT, 1.0)
                curves.append(Curve(name, x, y, colour, width=width))
    return curves


def _setting(name: str, rows: list[Row], goal: str) -> list[Panel]:
    """The scores over one setting, a point for each run."""
    values = [row.values[name] for row in rows]
    if len(set(map(repr, values))) < 2:
        return []
    points = [(row.values[name], score) for row in rows for score in row.scores]
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    x = [value if numeric else str(value) for value, _ in points]
    is_log = numeric and min(values) > 0 and max(values) / min(values) >= 8
    curves = [Curve("", x, [score for _, score in points], COLOURS[0], "")]
    return [Panel("", name, goal, curves, is_log)]
