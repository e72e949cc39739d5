"""Forecasting by Informer's protocol: standardised columns, every window at stride 1, MSE and MAE over all of them.

A window has `context` rows that are given and `horizon` rows to forecast. As in the paper (fig:s4-architecture), the
model sees both as one sequence, in which the rows to forecast are masked by zeros, and answers in their place.

A split (train, valid, test) owns the rows that its windows forecast; a window of valid or test takes its context from
the rows before, even if they belong to the split before.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.data import catalogue
from longwave.data.gaps import Fill
from longwave.data.series import Duplicates, Series, from_frame, read_csv, write_csv
from longwave.data.statistics import deviation_or_one, digest, mean_and_deviation, standardised
from longwave.data.times import Times, in_months, season, step_name
from longwave.models import LinearSolution, Shift, Spec
from longwave.registry import nearest
from longwave.tasks.base import TASKS, Baselines, Batch, Outcome, Task, TaskConfig, TaskInput, call

Features = Literal["S", "M"]  # univariate: the target alone; multivariate: all columns in, all columns out
CONTEXT = 384  # the authors' default
MONTH = 30 * 24  # hours, as Informer counts
SHORT_CONTEXT, LONG_CONTEXT = 336, 720  # where a context that is chosen from the data lies, if there are enough rows
ROWS_AT_ONCE = 2048  # that a model is given in one call, where each column is a row of its own


@dataclass(frozen=True)
class SeriesSet:
    """A public data set, called the same in the catalogue: what is forecast, and how it is split."""

    target: str
    rows_per_hour: int | None = (
        None  # split after 12, 16 and 20 months of 30 days; None: after 70, 80 and 100 % of rows
    )
    time: str = "date"

    def borders(self, rows: int) -> tuple[int, int, int]:
        """The rows after the last of train, valid and test."""
        if self.rows_per_hour is None:
            return share_borders(rows)
        train, valid, test = (months * MONTH * self.rows_per_hour for months in (12, 16, 20))
        return train, valid, test


SETS = {
    "etth1": SeriesSet("OT", rows_per_hour=1),
    "etth2": SeriesSet("OT", rows_per_hour=1),
    "ettm1": SeriesSet("OT", rows_per_hour=4),
    "weather": SeriesSet("WetBulbCelsius"),
    "ecl": SeriesSet("MT_320"),
}

# S4's figures on the test set. Data set, horizon; MSE and MAE of tab:informer-s; MSE and MAE of tab:informer-m.
_TABLE = (
    ("etth1", 24, 0.061, 0.191, 0.525, 0.542),
    ("etth1", 48, 0.079, 0.220, 0.641, 0.615),
    ("etth1", 168, 0.104, 0.258, 0.980, 0.779),
    ("etth1", 336, 0.080, 0.229, 1.407, 0.910),
    ("etth1", 720, 0.116, 0.271, 1.162, 0.842),
    ("etth2", 24, 0.095, 0.234, 0.871, 0.736),
    ("etth2", 48, 0.191, 0.346, 1.240, 0.867),
    ("etth2", 168, 0.167, 0.333, 2.580, 1.255),
    ("etth2", 336, 0.189, 0.361, 1.980, 1.128),
    ("etth2", 720, 0.187, 0.358, 2.650, 1.340),
    ("ettm1", 24, 0.024, 0.117, 0.426, 0.487),
    ("ettm1", 48, 0.051, 0.174, 0.580, 0.565),
    ("ettm1", 96, 0.086, 0.229, 0.699, 0.649),
    ("ettm1", 288, 0.160, 0.327, 0.824, 0.674),
    ("ettm1", 672, 0.292, 0.466, 0.846, 0.709),
    ("weather", 24, 0.125, 0.254, 0.334, 0.385),
    ("weather", 48, 0.181, 0.305, 0.406, 0.444),
    ("weather", 168, 0.198, 0.333, 0.525, 0.527),
    ("weather", 336, 0.300, 0.417, 0.531, 0.539),
    ("weather", 720, 0.245, 0.375, 0.578, 0.578),
    ("ecl", 48, 0.222, 0.350, 0.255, 0.352),
    ("ecl", 168, 0.331, 0.421, 0.283, 0.373),
    ("ecl", 336, 0.328, 0.422, 0.292, 0.382),
    ("ecl", 720, 0.428, 0.494, 0.289, 0.377),
    ("ecl", 960, 0.432, 0.497, 0.299, 0.387),
)

# The 50 settings of the two tables: data set, features and horizon, with the paper's scores of S4.
PAPER: dict[tuple[str, Features, int], dict[str, float]] = {
    **{(name, "S", horizon): {"mse": mse, "mae": mae} for name, horizon, mse, mae, _, _ in _TABLE},
    **{(name, "M", horizon): {"mse": mse, "mae": mae} for name, horizon, _, _, mse, mae in _TABLE},
}
HORIZONS = {name: [row[1] for row in _TABLE if row[0] == name] for name in SETS}


def load(
    name: str,
    features: Features = "S",
    horizon: int = 720,
    context: int | None = CONTEXT,
    data_dir: str | os.PathLike[str] | None = None,
) -> "ForecastTask":
    """A public data set as a task; its file is looked for in `data_dir`, else $LONGWAVE_DATA, else the user's cache.

    ETTh1 comes with the package, for when the folder does not have it.
    """
    if name not in SETS:
        raise ValueError(f"name: there is no forecasting set {name!r}; {nearest(name, SETS)}")
    if features not in ("S", "M"):
        raise ValueError(f"features: expected 'S' (univariate) or 'M' (multivariate), got {features!r}")
    chosen = SETS[name]
    path, origin = _find(name, data_dir)
    series = read_csv(path, chosen.target, chosen.time, multivariate=features == "M")
    data = ForecastData(name, series, chosen.borders(len(series)), origin)
    label = f"{name}-{horizon}" + ("" if features == "S" else "-m")
    return make_task(data, context, horizon, name=label, paper=PAPER.get((name, features, horizon)))


def custom(series: Series, horizon: int, context: int | None = CONTEXT, name: str = "forecast") -> "ForecastTask":
    """A custom series as a task: 70 % of the rows to train, 10 % to validate, 20 % to test."""
    data = ForecastData(name, series, share_borders(len(series)), series.source)
    if context is None:
        check_sizes(1, horizon)
        context = choose_context(data.borders[0], horizon, season(series.step))
    check_sizes(context, horizon)
    needed = needed_rows(context, horizon)
    if len(series) < needed:
        raise ValueError(
            f"{series.source}: {len(series)} rows are too few to split 70/10/20 for a context of {context} and a "
            f"horizon of {horizon}: expected at least {needed}; shorten the context or the horizon, or give more rows"
        )
    return make_task(data, context, horizon)


def choose_context(rows: int, horizon: int, period: int) -> int:
    """A context for a training set of so many rows and a season of `period` rows.

    Whole seasons: up to 336 rows or up to seven seasons, whichever is more, but at most 720 rows, and at most a third
    of what the horizon leaves of the training set, so that there are windows enough to learn from.
    """
    longest = min(max(SHORT_CONTEXT, 7 * period), LONG_CONTEXT, max(1, (rows - horizon) // 3))
    return longest - longest % period if longest >= period else longest


def share_borders(rows: int) -> tuple[int, int, int]:
    """The rows after the last of train (70 %), valid (10 %) and test (20 %), rounded as Informer does."""
    train, test = rows * 7 // 10, rows * 2 // 10
    return train, rows - test, rows


def needed_rows(context: int, horizon: int) -> int:
    """The rows from which on training, validation and test set have a window each at 70/10/20."""
    return max(-(-10 * (context + horizon) // 7), 10 * horizon)


def check_sizes(context: int, horizon: int) -> None:
    """Refuse a context or horizon that is no positive whole number."""
    for name, value in (("context", context), ("horizon", horizon)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}: expected a whole number of rows, 1 or more, got {value!r}")


def time_features(times: Times, minutes: bool | None = None) -> NDArray[np.float32]:
    """Where each time lies in its hour, day, week, month and year, each in [-0.5, 0.5]: (rows, 4 or 5).

    Hour of the day, day of the week (from Monday), day of the month, day of the year; before them the minute of the
    hour, if `minutes`, by default if the times are less than an hour apart.
    """
    times = times.astype("datetime64[s]")
    if minutes is None:
        minutes = len(times) > 1 and bool(times[1] - times[0] < np.timedelta64(1, "h"))
    days = times.astype("datetime64[D]")
    seconds = (times - days).astype(np.int64)
    columns = [
        seconds // 3600 / 23,
        (days.astype(np.int64) + 3) % 7 / 6,  # day 0, 1 January 1970, was a Thursday
        (days - days.astype("datetime64[M]")).astype(np.int64) / 30,
        (days - days.astype("datetime64[Y]")).astype(np.int64) / 365,
    ]
    if minutes:
        columns.insert(0, seconds // 60 % 60 / 59)
    return (np.stack(columns, axis=1) - 0.5).astype(np.float32)


@dataclass(frozen=True, eq=False)
class ForecastData:
    """A series and its split: the rows after the last of train, of valid and of test."""

    name: str
    series: Series
    borders: tuple[int, int, int]
    origin: str  # where the series was read from, for the report


@dataclass(frozen=True)
class ForecastInput(TaskInput):
    """What a trained forecaster must know to be used on new rows."""

    columns: tuple[str, ...]
    target: str
    mean: tuple[float, ...]  # of the training set, by column
    deviation: tuple[float, ...]  # the same; 1 for a column that does not change
    context: int
    horizon: int
    time_size: int
    step: str | None  # in words; None without times

    @classmethod
    def of(cls, data: ForecastData, context: int, horizon: int) -> Self:
        """The mean and deviation of the training set, and what else there is to know."""
        series, rows = data.series, data.borders[0]
        known = None if series.known is None else series.known[:rows]
        if known is not None and not known.any(axis=0).all():
            raise ValueError(
                f"{series.source}: column {series.columns[int(np.argmin(known.any(axis=0)))]!r}: none of its values in "
                f"the training set, the first {rows} rows, is known, so that it cannot be learnt; leave the column "
                "out, or give rows where it is known"
            )
        mean, deviation = mean_and_deviation(series.values[:rows], series.source, known)
        return cls(
            columns=series.columns,
            target=series.columns[series.target],
            mean=tuple(mean.tolist()),
            deviation=deviation_or_one(deviation),
            context=context,
            horizon=horizon,
            time_size=0 if series.step is None else 4 + _under_an_hour(series.step),
            step=step_name(series.step),
        )

    def standardise(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(..., columns) as the model sees them."""
        return standardised(values, self.mean, self.deviation)

    def restore(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """(..., columns) of a forecast, in the units of the series."""
        return values * np.array(self.deviation) + np.array(self.mean)

    def time(self, times: Times | None, rows: int) -> NDArray[np.float32]:
        """The time features that go with the rows: (rows, time_size)."""
        if times is None or self.time_size == 0:
            return np.zeros((rows, 0), np.float32)
        return time_features(times, minutes=self.time_size == 5)

    def continuation(self, series: Series) -> tuple[Batch, Times | None]:
        """A batch of one window whose horizon follows the last row of `series`, and the times of that horizon."""
        if absent := [name for name in self.columns if name not in series.columns]:
            raise ValueError(
                f"{series.source}: the column {absent[0]!r}, which the model was trained on, is not among the columns "
                f"of numbers: {', '.join(series.columns)}"
            )
        if len(series) < self.context:
            raise ValueError(f"{series.source}: expected at least {self.context} rows of context, got {len(series)}")
        if self.time_size and series.times is None:
            raise ValueError(
                f"{series.source}: the model was trained with times, and there are none: name the time column"
            )
        if self.step is not None and series.step is not None and step_name(series.step) != self.step:
            raise ValueError(
                f"{series.source}: the rows are {step_name(series.step)} apart, and the model was trained on rows "
                f"{self.step} apart; sample the series as in training"
            )
        order = [series.columns.index(name) for name in self.columns]
        x = np.zeros((self.context + self.horizon, len(order)), np.float32)
        x[: self.context] = self.standardise(series.values[-self.context :, order])
        batch = {"x": torch.from_numpy(x)[None]}
        future = series.future(self.horizon)
        if self.time_size and series.times is not None and future is not None:
            times = np.concatenate([series.times[-self.context :], future])
            batch["time"] = torch.from_numpy(self.time(times, len(times)))[None]
        return batch, future


@dataclass(frozen=True, eq=False)
class ForecastWindows:
    """The windows of one split: window i forecasts the rows from first + offset + i stride on.

    If `single`, example i is one column of window i // columns: a series of its own.
    """

    values: Tensor  # (rows, columns) of the whole series, standardised
    time: Tensor  # (rows, time_size)
    first: int  # the first row to forecast; the context of window 0 ends before it
    end: int  # the row after the last to forecast
    context: int
    horizon: int
    stride: int = 1
    offset: int = 0  # below the stride; the number of windows does not depend on it
    single: bool = False
    known: Tensor | None = None  # (rows, columns): where values are known; None: everywhere

    def __len__(self) -> int:
        windows = self.end - self.first - self.horizon + 1
        return windows // self.stride * (self.values.shape[1] if self.single else 1)

    def rows(self, indices: Sequence[int]) -> Tensor:
        """The rows of the series that the windows of examples have: (B, context + horizon)."""
        index = torch.as_tensor(indices, dtype=torch.long)
        if len(index) and not 0 <= int(index.min()) <= int(index.max()) < len(self):
            raise IndexError(f"indices: expected 0 to {len(self) - 1}, got {int(index.min())} to {int(index.max())}")
        steps = torch.arange(-self.context, self.horizon)
        columns = self.values.shape[1] if self.single else 1
        return (index // columns * self.stride + self.first + self.offset)[:, None] + steps

    def batch(self, indices: Sequence[int]) -> Batch:
        """x (B, context + horizon, columns), zero in the horizon; y (B, horizon, columns); time, if there are times.

        If the series has gaps, known (B, horizon, columns): which values of y count. A value does if it is known, and
        one of its column in the context too: without, there is nothing to forecast it from.
        """
        rows = self.rows(indices)
        column = torch.as_tensor(indices, dtype=torch.long)[:, None] % self.values.shape[1]
        x = self.values[rows, column].unsqueeze(-1) if self.single else self.values[rows]
        y = x[:, self.context :].clone()
        x[:, self.context :] = 0
        batch = {"x": x, "y": y, "time": self.time[rows]} if self.time.shape[1] else {"x": x, "y": y}
        if self.known is not None:
            known = self.known[rows, column].unsqueeze(-1) if self.single else self.known[rows]
            batch["known"] = known[:, self.context :] & known[:, : self.context].any(1, keepdim=True)
        return batch

    def has_targets(self) -> bool:
        """Whether any value of any window counts."""
        if self.known is None:
            return True
        counts = self.known[self.first - self.context : self.end].long().cumsum(0)
        counts = torch.cat((torch.zeros_like(counts[:1]), counts))  # known values before each row
        start, now, end = (
            counts[shift : len(counts) - self.context - self.horizon + shift]
            for shift in (0, self.context, self.context + self.horizon)
        )
        return bool(((now > start) & (end > now)).any())


@dataclass(frozen=True, kw_only=True)
class ForecastTask(Task):
    """Forecast `horizon` rows from `context` rows. An output may cover the horizon, or the window that ends with it."""

    train: ForecastWindows
    valid: ForecastWindows
    test: ForecastWindows
    context: int
    horizon: int
    data: ForecastData
    inputs: ForecastInput
    time_features: bool = True  # whether models see them
    independent: bool = False  # whether each column is a series of its own to the model, which sees no other
    goal: str = "mse"

    @property
    def spec(self) -> Spec:
        """All columns in and out, or one if they are independent, and the steps to forecast."""
        from longwave.tasks.baselines import solvable

        columns = 1 if self.independent else len(self.inputs.columns)
        return Spec(
            input_size=columns,
            output_size=columns,
            time_size=self.inputs.time_size if self.time_features else 0,
            horizon=self.horizon,
            length=self.context + self.horizon,
            decoders=("forecast", "sequence"),
            linear=self.linear if solvable(self) else None,
        )

    def linear(self, shift: Shift, reversion: float | None = 0.0) -> LinearSolution:
        """The linear forecast of a shift of the windows, mixed with the one without a shift.

        The reversion is the latter's share; None: what the validation set suggests.
        """
        from longwave.tasks.baselines import linear_solution

        return linear_solution(self, shift, reversion)

    @property
    def every_train_window(self) -> ForecastWindows:
        """The training set at stride 1, all columns together."""
        return replace(self.train, stride=1, offset=0, single=False)

    def train_at(self, epoch: int, seed: int) -> ForecastWindows:
        """The training set of an epoch; with a stride, each epoch begins at another row, and so sees other windows."""
        return replace(self.train, offset=epoch % self.train.stride)

    def outcome(self, model: Any, batch: Batch) -> Outcome:
        """Squared errors; MSE and MAE on the standardised values, over all horizons and columns, as far as known."""
        error = self._error(forecast(model, batch, self.independent), batch)
        squares, count = error.square().sum(), self.count(batch)
        return Outcome(squares, {"mse": (squares.detach(), count), "mae": (error.detach().abs().sum(), count)})

    def count(self, batch: Batch) -> int:
        """Known values to forecast."""
        return int(batch["known"].sum()) if "known" in batch else batch["y"].numel()

    def baselines(self) -> Baselines:
        """Repeat-last, seasonal-naive, NLinear and DLinear, as far as context and horizon allow."""
        from longwave.tasks import baselines

        return baselines.table(self)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What the model must know of its input, and a digest of the rows."""
        series, rows = self.data.series, self.data.borders[2]
        gaps = () if series.known is None else (series.known[:rows],)
        return {"inputs": self.inputs.to_dict(), "digest": digest(series.values[:rows], *gaps)}

    def describe(self) -> dict[str, Any]:
        """Facts for the run's config and report."""
        series, train = self.data.series, self.data.series.values[: self.data.borders[0]]
        return super().describe() | {
            "rows": len(series),
            "borders": list(self.data.borders),
            "time_column": series.time,
            "range": [train.min(axis=0).tolist(), train.max(axis=0).tolist()],
        }

    def _error(self, output: Tensor, batch: Batch) -> Tensor:
        y = batch["y"]
        forecast = output[:, -self.horizon :]
        if forecast.shape != y.shape:
            raise ValueError(
                f"output: expected {tuple(y.shape)}, or longer with the forecast last, got {tuple(output.shape)}"
            )
        error = forecast - y
        return torch.where(batch["known"], error, 0) if "known" in batch else error


def forecast(model: Any, batch: Batch, independent: bool) -> Tensor:
    """The output of a model for the windows of a batch; if `independent`, each column is a row of its own to it.

    Many columns are given to it some at a time, since they take as much memory as so many windows.
    """
    x = batch["x"]
    count, length, columns = x.shape
    if not independent or columns == 1:
        return call(model, batch)
    size, outputs = max(1, ROWS_AT_ONCE // max(1, count)), []
    for some in x.split(size, dim=2):
        rows = {"x": some.transpose(1, 2).reshape(-1, length, 1)}
        if "time" in batch:
            rows["time"] = batch["time"].repeat_interleave(some.shape[2], dim=0)
        y = call(model, rows)
        outputs.append(y.reshape(count, some.shape[2], -1).transpose(1, 2))
    return torch.cat(outputs, dim=2)


def make_task(
    data: ForecastData,
    context: int | None,
    horizon: int,
    name: str | None = None,
    paper: dict[str, float] | None = None,
) -> ForecastTask:
    """The task of forecasting `horizon` rows of the data from `context` rows."""
    from longwave.tasks.baselines import left_out

    series = data.series
    train, valid, test = data.borders
    if context is None:
        context = choose_context(train, horizon, season(series.step))
    check_sizes(context, horizon)
    if len(series) < test:
        raise ValueError(f"{series.source}: expected at least {test} rows, got {len(series)}; the file may be cut off")
    inputs = ForecastInput.of(data, context, horizon)
    values = torch.from_numpy(inputs.standardise(series.values[:test]).astype(np.float32))
    times = None if series.times is None else series.times[:test]
    time = torch.from_numpy(inputs.time(times, test))
    known = None if series.known is None else torch.from_numpy(series.known[:test])
    splits: dict[str, Any] = {}
    for split, first, end in (("train", context, train), ("valid", train, valid), ("test", valid, test)):
        splits[split] = ForecastWindows(values, time, first, end, context, horizon, known=known)
        if len(splits[split]) < 1:
            rows = f"{end} rows, and a context of {context}" if split == "train" else f"{end - first} rows"
            raise ValueError(
                f"{data.name}: the {split} split has {rows}: too few for a horizon of {horizon}; expected at least "
                f"{horizon} rows to forecast; shorten the context or the horizon"
            )
        if not splits[split].has_targets():
            raise ValueError(
                f"{series.source}: the {split} split, rows {first} to {end - 1}, has nothing to forecast: expected a "
                f"known value, and another of its column in the {context} rows of context; give rows with smaller gaps"
            )
    task = ForecastTask(
        name=name or f"{data.name}-{horizon}",
        paper=paper or {},
        origin=data.origin,
        notes=series.notes,
        context=context,
        horizon=horizon,
        data=data,
        inputs=inputs,
        **splits,
    )
    absent = [f"no {name} among the baselines: {reason}" for name, reason in left_out(task).items()]
    return replace(task, notes=(*task.notes, *_unscored(task), *absent))


def _unscored(task: ForecastTask) -> Iterator[str]:
    """A note for each column of which nothing is known where a model is judged."""
    for k, name in enumerate(task.inputs.columns):
        parts = {"valid": task.valid, "test": task.test}
        empty = [part for part, w in parts.items() if w.known is not None and not w.known[w.first : w.end, k].any()]
        if empty:
            yield f"column {name!r} has no known value in {' and '.join(empty)}, and is not scored there"


FRAME = "data.csv"  # in the folder of a run on a data frame: what it was trained on


@TASKS.register("forecast")
@dataclass(frozen=True)
class ForecastConfig(TaskConfig):
    """A forecasting task: a named data set, or a custom series."""

    data: str = "etth1"
    """etth1, etth2, ettm1, weather or ecl; own if `csv` is given."""
    multivariate: bool = False
    """All columns in, all columns out; else the target column alone."""
    horizon: int = 720
    """Steps to forecast."""
    context: int | None = 336
    """Known steps before the forecast; None: chosen from the number of rows and the season."""
    independent: bool = False
    """Each column is a series of its own to the model, which is one for all; else it sees all columns together."""
    epoch_windows: int | None = None
    """At most so many training windows an epoch, a column of independent ones counting as one; None: all of them."""
    time_features: bool = True
    """Add features of the time (hour, day of the week ...) to the input."""
    csv: Path | None = None
    """A custom series: a CSV file with a header, one row a step."""
    target: str | None = None
    """The column to forecast (with csv)."""
    time: str | None = None
    """The column with the time stamps (with csv): by default the one that holds rising times; none: there is none."""
    fill: Fill = None
    """Missing values of a custom series: linear interpolates them; mask keeps them as gaps; without it, refused."""
    duplicates: Duplicates = "error"
    """Of rows of a custom series with the same time, keep the first or last, or average them; else they are refused."""

    @classmethod
    def upgrade(cls, values: dict[str, Any]) -> dict[str, Any]:
        """A time column was once used only if it was named."""
        unnamed = values.get("csv") is not None and values.get("time") is None and "duplicates" not in values
        return {**values, "time": "none"} if unnamed else values

    def build(self, data_dir: Path | None = None) -> ForecastTask:
        """The task with its series."""
        if self.epoch_windows is not None and self.epoch_windows < 1:
            raise ValueError(f"epoch_windows: expected a number from 1 on, or None, got {self.epoch_windows}")
        if self.csv is not None:
            series = read_csv(
                self.csv, self.target, self.time, self.multivariate, self.fill, duplicates=self.duplicates
            )
            task = custom(series, self.horizon, self.context)
        else:
            asked = {"target": self.target, "time": self.time, "fill": self.fill}
            asked["duplicates"] = None if self.duplicates == "error" else self.duplicates
            given = [f"--{name}" for name, value in asked.items() if value is not None]
            if self.data == "own" or given:
                raise ValueError(f"forecast: expected --csv FILE{f' with {given[0]}' if given else ''}, got none")
            features: Features = "M" if self.multivariate else "S"
            task = load(self.data, features, self.horizon, self.context, data_dir)
        train = replace(task.train, single=self.independent)
        if self.epoch_windows is not None:
            windows = len(task.train)
            stride = -(-len(train) // self.epoch_windows)
            train = replace(train, stride=min(stride, windows))
        notes = task.notes
        if self.context is None:
            notes = (*notes, f"a context of {task.context} rows was chosen from the rows and the season there are")
        return replace(task, train=train, notes=notes, time_features=self.time_features, independent=self.independent)

    def on_frame(self, frame: Any, folder: Path) -> tuple["ForecastConfig", tuple[str, ...]]:
        """The settings for a data frame, or for the path of a CSV file, and notes on how it was read.

        A data frame is written into the folder of the run, so that it can be used again.
        """
        if isinstance(frame, (str, os.PathLike)):
            return replace(self, data="own", csv=Path(frame)), ()
        series = from_frame(frame, self.target, self.time, self.multivariate, self.fill, duplicates=self.duplicates)
        custom(series, self.horizon, self.context)  # which refuses what cannot be trained on before anything is written
        time = None if series.times is None else (self.time or _free_name("time", series.columns))
        folder.mkdir(parents=True, exist_ok=True)
        write_csv(folder / FRAME, series, time or "")
        target = series.columns[series.target]
        return replace(self, data="own", csv=folder / FRAME, target=target, time=time), series.notes

    def in_folder(self, folder: Path) -> "ForecastConfig":
        """With the data frame beside the run, wherever its folder is by now."""
        is_stored = self.csv is not None and self.csv.name == FRAME and (folder / FRAME).exists()
        return replace(self, csv=folder / FRAME) if is_stored else self


def _free_name(name: str, taken: Sequence[str]) -> str:
    """The name, or a longer one if there is such a column already."""
    return _free_name(f"{name}_", taken) if name in taken else name


def _find(name: str, data_dir: str | os.PathLike[str] | None) -> tuple[Path, str]:
    """The file of a data set, and what a report should call it."""
    folder = None if data_dir is None else Path(data_dir)
    try:
        path = catalogue.require(name, folder)
    except catalogue.MissingData:
        embedded = catalogue.DATASETS[name].embedded
        if embedded is None:
            raise
        return embedded, f"the copy in the package, since it is not in {catalogue.data_dir(folder)}"
    return path, str(path)


def _under_an_hour(step: np.timedelta64) -> bool:
    return not in_months(step) and bool(step < np.timedelta64(1, "h"))
