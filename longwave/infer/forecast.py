"""Forecasts of new data: the rows that follow a series."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longwave.data.series import read
from longwave.infer.base import PREDICTORS, Action, OnDevice, check_distinct, predict
from longwave.infer.table import write_csv
from longwave.pictures.forecast import draw_continuation
from longwave.pictures.style import check_path
from longwave.tasks.forecasting import SETS, ForecastInput
from longwave.train.folder import RunFolder


@dataclass(frozen=True)
class Continuation:
    """A forecast of what comes after a series: values (horizon, columns), in the units of the series."""

    columns: tuple[str, ...]
    target: str
    known: Any  # (context, columns), the rows before
    known_times: Any  # datetime64 or None
    values: Any
    times: Any
    notes: tuple[str, ...] = ()
    time: str | None = None  # the name of the time column

    def write(self, path: str | Path) -> None:
        """Write the forecast as CSV, atomically."""
        stamps = [[]] * len(self.values) if self.times is None else [[str(t).replace("T", " ")] for t in self.times]
        head = [*([] if self.times is None else [self.time or "time"]), *self.columns]
        # Twelve digits: a small change of a large number should be seen.
        rows = [[*stamp, *(f"{v:.12g}" for v in row)] for stamp, row in zip(stamps, self.values, strict=True)]
        write_csv(path, [head, *rows])


def forecast(folder: str | Path, new: Any, *, device: str = "auto") -> Continuation:
    """Forecast the rows after the last of a CSV file or data frame, with the best weights of a run."""
    return _forecast(RunFolder.open(folder), new, device)


def _forecast(folder: RunFolder, new: Any, device: str) -> Continuation:
    settings: Any = folder.config.experiment.task
    if settings.kind != "forecast":
        raise ValueError(f"{folder.path}: expected a run of a forecast, got one of the kind {settings.kind}")
    inputs = ForecastInput.from_dict(folder.config.task["inputs"])
    time = settings.time if settings.csv is not None else SETS[settings.data].time
    series = read(new, inputs.target, time, settings.multivariate, settings.fill, inputs.columns)
    batch, future = inputs.continuation(series)
    y = predict(folder.load_best(device), batch)[:, -inputs.horizon :]
    if not y.isfinite().all():
        raise ValueError(
            f"{series.source}: the model has no finite answer; the values are too far from those of training"
        )
    order = [series.columns.index(name) for name in inputs.columns]
    return Continuation(
        columns=inputs.columns,
        target=inputs.target,
        known=series.values[-inputs.context :, order],
        known_times=None if series.times is None else series.times[-inputs.context :],
        values=inputs.restore(y[0].double().numpy()),
        times=future,
        notes=tuple(series.notes),
        time=time,
    )


@dataclass(frozen=True)
class Options(OnDevice):
    """Forecast the rows that follow a series, and draw them.

    Example: longwave predict runs/forecast-my-seed0 --csv new.csv --out forecast.csv
    """

    csv: Path
    """The series so far, with the columns of the training series."""
    out: Path = Path("forecast.csv")
    """Where to write the forecast."""
    picture: Path | None = None
    """Where to draw it; by default beside `out`, as a PNG."""


def _predict(folder: RunFolder, options: Options) -> Iterator[str]:
    picture = options.picture or options.out.with_suffix(".png")
    check_distinct(csv=options.csv, out=options.out, picture=picture)
    check_path(picture)
    found = _forecast(folder, options.csv, options.device)
    found.write(options.out)
    draw_continuation(found, picture)
    for note in found.notes:
        yield f"note: {note}\n"
    rows = len(found.values)
    yield f"{rows} row{'s' * (rows > 1)}: {options.out}\npicture: {picture}\n"


PREDICTORS.register("forecast")(Action(Options, _predict))
