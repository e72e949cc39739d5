"""Compare runs: the settings in which they differ, their scores and learning curves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from longwave.core.settings import flat
from longwave.pictures.curves import COLOURS, Curve, Panel, draw_panels
from longwave.train.folder import RunFolder, RunPlace

STYLES = ("-", "--", ":")


class Compared(NamedTuple):
    """One of the compared runs."""

    name: str
    folder: Path
    settings: dict[str, Any]  # those in which the runs differ, by their dotted names; a run may lack some
    result: dict[str, Any] | None  # None: it is not finished
    metrics: list[dict[str, Any]]
    is_swept: bool  # a run of a sweep, in which the validation set alone may choose


def compare(runs: Sequence[RunPlace]) -> list[Compared]:
    """Read runs, finished or not."""
    opened = [RunFolder.open(run, published=False) for run in runs]
    if len({one.path.resolve() for one in opened}) < len(opened):
        raise ValueError(f"runs: expected each once, got {', '.join(str(one.path) for one in opened)}")
    settings = [flat(one.config.experiment.to_dict()) for one in opened]
    names = dict.fromkeys(name for one in settings for name in one)
    missing = object()
    differing = [name for name in names if len({repr(one.get(name, missing)) for one in settings}) > 1]
    found = []
    for name, one, own in zip(_short_names([one.path for one in opened]), opened, settings, strict=True):
        kept = {key: own[key] for key in differing if key in own}
        is_swept = (one.path.resolve().parent / "sweep.json").exists()
        found.append(Compared(name, one.path, kept, one.result(), one.metrics(), is_swept))
    return found


def _short_names(paths: Sequence[Path]) -> list[str]:
    """The names of folders, with as many of their parents as it takes to tell them apart."""
    parts = [path.resolve().parts for path in paths]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(one[-count:]) for one in parts]
        if len(set(names)) == len(names):
            return names
    raise AssertionError("folders that differ have names that differ")


def draw_comparison(runs: Sequence[Compared], path: str | Path) -> bool:
    """Draw loss and validation scores over epochs and minutes; False, without a picture, if no run was validated."""
    curves = [(run, COLOURS[k % len(COLOURS)], STYLES[k // len(COLOURS) % 3]) for k, run in enumerate(runs)]
    curves = [curve for curve in curves if curve[0].metrics]
    if not curves:
        return False
    logged = [dict.fromkeys(name for line in run.metrics for name in line) for run, *_ in curves]
    shared = [name for name in logged[0] if all(name in names for names in logged)]
    scores = [name for name in shared if name.startswith("valid_")]

    def panel(y: str, x: str, title: str, xlabel: str, scale: float = 1.0) -> Panel:
        lines = []
        for run, colour, style in curves:
            points = [(one[x] / scale, one[y]) for one in run.metrics if x in one and y in one]
            lines.append(Curve(run.name, [at for at, _ in points], [value for _, value in points], colour, style))
        return Panel(title, xlabel, y.removeprefix("valid_").replace("_", " "), lines, is_whole=x == "epoch")

    panels = [panel("loss", "epoch", "training, the batch before each validation", "epoch")]
    for score in scores[:2]:
        panels.append(panel(score, "epoch", "validation", "epoch"))
    for score in scores[:1]:
        panels.append(panel(score, "seconds", "validation", "minutes of training", 60.0))
    draw_panels(panels, path, columns=2)
    return True
