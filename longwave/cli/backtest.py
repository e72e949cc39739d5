"""`longwave backtest`: forecast at many past cutoffs of a series, and compare with the actual values."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from longwave.cli import _early
from longwave.cli._tyro import run_command
from longwave.core.terminal import say

if TYPE_CHECKING:
    from longwave.tasks.forecast.backtest import Backtest

MOST_STEPS = 8  # of the horizon, that the table shows


@dataclass(frozen=True)
class Options:
    """Forecast at many cutoffs of a series, each time from the rows before it, and compare with the actual values.

    Examples:
        longwave backtest runs/forecast-my-seed0 --csv my.csv --stride 24 --out b.csv
        longwave backtest runs/forecast-my-seed0 --csv my.csv --start 2024-06-01 --refit 8 --level 80 95
    """

    run: tyro.conf.Positional[str]
    """Folder of a forecaster, trained here or published, or USER/NAME on the Hugging Face hub."""
    csv: Path
    """The series, with the columns of the training series."""
    out: Path = Path("backtest.csv")
    """Where to write the forecasts; the scores by step and by window, and the picture, are written beside it."""
    stride: int | None = None
    """Stride: rows from one cutoff to the next; by default the horizon, so that windows do not overlap."""
    start: str | None = None
    """Time of the first row to forecast, or its number without times; by default the first row not used in training."""
    refit: int | None = None
    """Retrain before every so many windows, on all rows before them; by default the run is used as it is."""
    level: tuple[float, ...] = (90.0,)
    """Levels of intervals, in per cent."""
    picture: Path | None = None
    """Picture to write; by default a PNG beside `out`."""
    device: str = "auto"
    """Where to compute: auto (a GPU if there is one), cpu, cuda, cuda:1, mps ..."""


def main(arguments: list[str]) -> None:
    """Run `longwave backtest`."""
    _early.check_inputs(arguments)
    options: Options = run_command("backtest", Options, arguments)
    stored = _early.find_run(options.run)
    from longwave.backtests import backtest
    from longwave.pictures.style import check_path, save
    from longwave.tasks.actions import check_distinct
    from longwave.train.folder import RunFolder

    out, picture = options.out, options.picture or options.out.with_suffix(".png")
    steps, windows = (out.with_name(f"{out.stem}-{name}.csv") for name in ("steps", "windows"))
    check_distinct(csv=options.csv, out=out, picture=picture)
    check_distinct(csv=options.csv, steps=steps)
    check_distinct(csv=options.csv, windows=windows)
    check_path(picture)
    how = {name: getattr(options, name) for name in ("stride", "start", "refit", "level", "device")}
    found = backtest(RunFolder.open(stored), options.csv, **how)
    found.write(out)
    found.write_scores(steps, windows)
    save(found.plot(), picture, dpi=120)
    _print_scores(found)
    for note in found.notes:
        say(f"note: {note}", sys.stdout)
    for what, path in ((f"{len(found)} rows", out), ("by step", steps), ("by window", windows), ("picture", picture)):
        print(f"{what}: {path}")


def _print_scores(found: "Backtest") -> None:
    """Print the scores by step; of a long horizon, of some steps."""
    from longwave.core.text_table import TextTable
    from longwave.pictures.html import score_text

    by_step = found.by_step
    horizon, names = len(by_step.pop("step")), list(by_step)
    shown = sorted({round(k * (horizon - 1) / max(1, min(MOST_STEPS, horizon) - 1)) for k in range(MOST_STEPS)})
    rows = [(f"{step + 1}", {name: by_step[name][step] for name in names}) for step in shown if step < horizon]

    def text(name: str, value: float) -> str:
        return f"{value:.1%}" if "-" in name else score_text(value)

    cells = [
        [step, *("-" if values[name] != values[name] else text(name, values[name]) for name in names)]
        for step, values in [*rows, ("all", found.metrics)]
    ]
    count = len(found.cutoffs)
    season = f"a season of {found.season} rows" if found.season > 1 else "no season"
    title = f"{count} window{'s' * (count != 1)} of {horizon} steps, MASE by {season}"
    columns = ["step", *(f"{name.removeprefix('coverage-')} % covers" if "-" in name else name for name in names)]
    TextTable(title, columns, cells, bold=[len(cells) - 1]).print()
