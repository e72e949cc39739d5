"""Windows of a series: what is standardised and how, features of time, and the examples of a split."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.core.settings import typed
from longwave.io.times import Times, in_microseconds, in_months, in_seconds, step_name, usual_gap
from longwave.tasks.base import Batch, TaskInput
from longwave.tasks.forecast import yearly
from longwave.tasks.forecast.panel import Panel, Rows, rows_of
from longwave.tasks.forecast.seasons import Season, find_season
from longwave.tasks.forecast.series import Series
from longwave.tasks.statistics import deviation_or_one, mean_and_deviation, standardised

MOST_ASKED = 100  # series of a panel that are asked for their season


def time_features(times: Times, minutes: bool | None = None) -> NDArray[np.float32]:
    """The position of each time in its hour, day, week, month and year, in [-0.5, 0.5]: (rows, 4 or 5).

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


# Values of each stamp: months and days count from 1, and 0 stands for a step to forecast.
STAMPS = {"month": 13, "day": 32, "weekday": 7, "hour": 24, "quarter": 4}


def time_stamps(times: Times, minutes: bool) -> NDArray[np.float32]:
    """Month, day of the month, day of the week (from Monday) and hour of each time: (rows, 4), whole numbers.

    With `minutes`, the quarter of the hour, too: (rows, 5).
    """
    times = times.astype("datetime64[s]")
    days, months = times.astype("datetime64[D]"), times.astype("datetime64[M]")
    seconds = (times - days).astype(np.int64)
    columns = [
        months.astype(np.int64) % 12 + 1,
        (days - months.astype("datetime64[D]")).astype(np.int64) + 1,
        (days.astype(np.int64) + 3) % 7,
        seconds // 3600,
    ]
    if minutes:
        columns.append(seconds // 900 % 4)
    return np.stack(columns, axis=1).astype(np.float32)


def season_of(series: Series, rows: slice) -> Season:
    """The season of some rows of a series; rows at irregular times have none."""
    return Season(1, "") if series.is_irregular else find_season(series.values[rows], series.step)


@dataclass(frozen=True, eq=False)
class ForecastData:
    """A series and its split: the rows after the last of train, of valid and of test; of a panel, those of each."""

    name: str
    series: Series
    borders: tuple[Rows, Rows, Rows]
    origin: str  # where the series was read from, for the report

    @property
    def starts(self) -> Rows:
        """The first row, of a panel that of each series."""
        return self.series.starts[:-1] if isinstance(self.series, Panel) else 0

    @cached_property
    def train_rows(self) -> Any:
        """An index of the training rows."""
        return rows_of(self.starts, self.borders[0])

    @cached_property
    def train_years(self) -> float:
        """The years of the training set, of a panel those of its longest series; 0 without times."""
        if self.series.times is None:
            return 0.0
        starts, ends = np.atleast_1d(self.starts, self.borders[0])
        k = int(np.argmax(ends - starts))
        return yearly.years(self.series.times[starts[k] : ends[k]])

    @cached_property
    def usual_gap(self) -> np.timedelta64:
        """The median time between rows of the training set, of a panel that of the medians of its series."""
        times: Any = self.series.times
        starts, ends = np.atleast_1d(self.starts, self.borders[0])
        found = [usual_gap(times[start:end]).astype(np.int64) for start, end in zip(starts, ends, strict=True)]
        return np.timedelta64(round(float(np.median(found))), "us")

    @cached_property
    def season(self) -> Season:
        """The season of the training set; of a panel, that of most of its longest series."""
        starts, ends = np.atleast_1d(self.starts, self.borders[0])
        longest = np.argsort(starts - ends, kind="stable")[:MOST_ASKED]
        found = [season_of(self.series, slice(starts[k], ends[k])) for k in longest]
        return max(found, key=found.count)


@dataclass(frozen=True)
class ForecastInput(TaskInput):
    """Facts that a trained forecaster needs on new rows."""

    columns: tuple[str, ...]
    target: str
    mean: tuple[float, ...]  # of the training set, by column
    deviation: tuple[float, ...]  # the same; 1 for a column that does not change
    context: int
    horizon: int
    time_size: int
    step: str | None  # in words; None without times
    yearly: tuple[float, ...] = ()  # the yearly cycle, as `yearly.fit` has it, row by row; none if empty
    log: bool = False  # whether mean and deviation, and what a model sees, are of logarithms
    id: str | None = None  # the column that tells the series of a panel apart; None: there is one series
    by_series: bool = False  # whether each series of a panel has a mean and deviation of its own (see `Scales`)
    stamps: bool = False  # whether the features of time are stamps
    usual_gap: int = 0  # microseconds, the unit of the gaps between rows at irregular times; 0: rows are evenly spaced

    def __post_init__(self) -> None:
        if self.usual_gap < 0:
            raise ValueError(f"expected a usual gap of microseconds, or 0, got {self.usual_gap}")
        if self.target not in self.columns or min(self.context, self.horizon) < 1 or self.time_size < 0:
            raise ValueError(
                f"expected a target among the columns, and steps of context and horizon, got {self.target!r:.40}, "
                f"{self.context} and {self.horizon}"
            )
        self.per_column((self.mean, self.deviation))

    def per_column(self, values: Any) -> NDArray[np.float64]:
        """(rows, columns) of numbers that have one for each column; others are refused."""
        rows = np.array(typed(values, tuple[tuple[float, ...], ...], "numbers"), np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.columns):
            raise ValueError(f"expected numbers for each of {len(self.columns)} columns, got {values!r:.80}")
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON, without unused ones."""
        optional = ("yearly", "log", "id", "by_series", "stamps", "usual_gap")
        return {name: value for name, value in super().to_dict().items() if value or name not in optional}

    @classmethod
    def of(cls, data: ForecastData, context: int, horizon: int, log: bool = False, by_series: bool = False) -> Self:
        """The facts of a training set: mean and deviation, and the others."""
        series, rows = data.series, data.train_rows
        known = None if series.known is None else series.known[rows]
        if known is not None and not known.any(axis=0).all():
            raise ValueError(
                f"{series.source}: column {series.columns[int(np.argmin(known.any(axis=0)))]!r}: no known value in the "
                f"training set, the first {len(known)} rows; leave the column out, or add rows where it is known"
            )
        none = (0.0,) * len(series.columns)
        step = data.usual_gap if series.is_irregular else series.step
        inputs = cls(
            columns=series.columns,
            target=series.columns[series.target],
            mean=none,
            deviation=none,
            context=context,
            horizon=horizon,
            time_size=0 if step is None else 4 + under_an_hour(step),
            step=step_name(series.step),
            log=log,
            id=series.id if isinstance(series, Panel) else None,
            by_series=by_series and isinstance(series, Panel),
            usual_gap=int(data.usual_gap.astype(np.int64)) if series.is_irregular else 0,
        )
        return inputs.scaled(series.values[rows], known, series.source)

    def scaled(self, values: NDArray[np.float64], known: NDArray[np.bool_] | None, source: str) -> Self:
        """Copy with the mean and deviation of these rows (rows, columns), where known."""
        mean, deviation = mean_and_deviation(np.log(values) if self.log else values, source, known)
        return replace(self, mean=tuple(mean.tolist()), deviation=deviation_or_one(deviation))

    def standardise(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(..., columns) as the model sees them."""
        return standardised(np.log(values) if self.log else values, self.mean, self.deviation)

    def restore(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """(..., columns) of a forecast, in the units of the series."""
        restored = np.asarray(values * np.array(self.deviation) + np.array(self.mean), np.float64)
        return np.exp(restored) if self.log else restored

    def time(self, times: Times | None, rows: int) -> NDArray[np.float32]:
        """The time features that go with the rows: (rows, time_size)."""
        if times is None or self.time_size == 0:
            return np.zeros((rows, 0), np.float32)
        features = time_stamps if self.stamps else time_features
        return features(times, minutes=self.time_size == 5)

    def gaps(self, times: Times | None) -> NDArray[np.float32] | None:
        """The time of each row since the row before, in usual gaps; the first has one. None: rows are evenly spaced.

        Where another series of a panel begins, there is no row before, and no window looks at what stands there.
        """
        if not self.usual_gap or times is None:
            return None
        gaps = np.diff(in_microseconds(times)) / self.usual_gap
        return np.concatenate(([1.0], gaps)).astype(np.float32)

    def following(self, series: Series) -> Times | None:
        """The times of the rows to forecast, if nothing else is known of them: a step, or a usual gap, apart."""
        if not self.usual_gap or series.times is None:
            return series.future(self.horizon)
        return in_seconds(series.times[-1] + np.arange(1, self.horizon + 1) * np.timedelta64(self.usual_gap, "us"))

    def usual(self, times: Times) -> NDArray[np.float64] | None:
        """The yearly cycle at these times, standardised: (rows, columns); None: there is none."""
        if not self.yearly:
            return None
        return np.asarray(yearly.harmonics(times) @ np.array(self.yearly).reshape(-1, len(self.columns)))

    def continuation(self, series: Series, future: Times | None = None) -> tuple[Batch, Times | None]:
        """A batch of one window whose horizon follows the last row of `series`, and the times of that horizon.

        These are `future` where rows are at irregular times, and it is given.
        """
        if absent := [name for name in self.columns if name not in series.columns]:
            raise ValueError(
                f"{series.source}: no column {absent[0]!r}, which the model was trained on, among the columns of "
                f"numbers: {', '.join(series.columns)}"
            )
        if len(series) < self.context:
            raise ValueError(f"{series.source}: expected at least {self.context} rows of context, got {len(series)}")
        if (self.time_size or self.yearly) and series.times is None:
            raise ValueError(
                f"{series.source}: the model was trained with times, and these rows have none: name the time column"
            )
        if self.step is not None and series.step is not None and step_name(series.step) != self.step:
            raise ValueError(
                f"{series.source}: the rows are {step_name(series.step)} apart, and the model was trained on rows "
                f"{self.step} apart; sample the series as in training"
            )
        order = [series.columns.index(name) for name in self.columns]
        if self.log and not (series.values[-self.context :, order] > 0).all():
            raise ValueError(
                f"{series.source}: expected values above 0 in the last {self.context} rows, since the model forecasts "
                f"their logarithms, got {series.values[-self.context :, order].min():.6g}; train with --log off"
            )
        x = np.zeros((self.context + self.horizon, len(order)), np.float32)
        x[: self.context] = self.standardise(series.values[-self.context :, order])
        batch = {"x": torch.from_numpy(x)[None]}
        future = self.following(series) if future is None else future
        if series.times is not None and future is not None:
            times = np.concatenate([series.times[-self.context :], future])
            if self.time_size:
                batch["time"] = torch.from_numpy(self.time(times, len(times)))[None]
            if (gaps := self.gaps(times)) is not None:
                batch["gaps"] = torch.from_numpy(gaps)[None]
            usual = self.usual(times)
            if usual is not None:
                course = torch.from_numpy(usual.astype(np.float32))
                batch["x"][:, : self.context] -= course[: self.context]
                batch["usual"] = course[None, self.context :]
        return batch, future


@dataclass(frozen=True, eq=False)
class ForecastWindows:
    """The windows of one split: window i forecasts the rows from first + offset + i stride on.

    If `single`, example i is one column of window i // columns: a series of its own. The windows of a panel are those
    of its first series, then those of the second and so on; none has rows of two.
    """

    values: Tensor  # (rows, columns) of the whole series, standardised
    time: Tensor  # (rows, time_size)
    first: Rows  # the first row to forecast; the context of window 0 ends before it; (series,) of a panel
    end: Rows  # the row after the last to forecast; (series,) of a panel
    context: int
    horizon: int
    stride: int = 1
    offset: int = 0  # below the stride; the number of windows does not depend on it
    single: bool = False
    known: Tensor | None = None  # (rows, columns): where values are known; None: everywhere
    usual: Tensor | None = (
        None  # (rows, columns): what the time of the year has, which models do not see; None: nothing
    )
    ahead: Tensor | None = None  # (time_size,): which features are known of the rows to forecast; None: all
    gaps: Tensor | None = None  # (rows,): the time since the row before, in usual gaps; None: rows are evenly spaced

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The windows of each series at stride 1: (series,)."""
        return np.atleast_1d(np.maximum(0, np.asarray(self.end) - self.first - self.horizon + 1))

    def __len__(self) -> int:
        return int(self.counts.sum()) // self.stride * (self.values.shape[1] if self.single else 1)

    @property
    def n_rows(self) -> int:
        """The rows of which the windows are made, those of their contexts included."""
        return int(np.sum(self.end - self.first + self.context))

    def series_of(self, indices: Any) -> NDArray[np.int64]:
        """Which series of a panel examples are of, (B,); 0 without a panel."""
        columns = self.values.shape[1] if self.single else 1
        windows = np.asarray(indices, np.int64) // columns * self.stride + self.offset
        return np.searchsorted(self.counts.cumsum(), windows, "right")

    def from_the_end(self, stride: int) -> NDArray[np.int64]:
        """Every `stride`-th window of each series up to its last, by numbers (windows, series); -1: it has no more."""
        back = np.arange(-(-self.counts.max() // stride))[::-1, None] * stride
        return np.where(back < self.counts, self.counts.cumsum() - 1 - back, -1)

    def stretches(self) -> Iterator[Tensor]:
        """The rows (rows, columns) of all windows of each series that has any."""
        firsts, ends = np.atleast_1d(self.first, self.end)
        for k in np.flatnonzero(self.counts):
            yield self.values[firsts[k] - self.context : ends[k]]

    def rows(self, indices: Any) -> Tensor:
        """The rows of the series that the windows of examples have: (B, context + horizon)."""
        index = torch.as_tensor(indices, dtype=torch.long)
        if len(index) and not 0 <= int(index.min()) <= int(index.max()) < len(self):
            raise IndexError(f"indices: expected 0 to {len(self) - 1}, got {int(index.min())} to {int(index.max())}")
        steps = torch.arange(-self.context, self.horizon)
        columns = self.values.shape[1] if self.single else 1
        row = index // columns * self.stride + self.offset
        series = self.series_of(indices)
        before = self.counts.cumsum() - self.counts  # windows of the series before each
        row += torch.from_numpy((np.atleast_1d(self.first) - before)[series])
        return row[:, None] + steps

    def batch(self, indices: Sequence[int]) -> Batch:
        """x (B, context + horizon, columns), zero in the horizon; y (B, horizon, columns); time, if there are times.

        If the yearly cycle is known, it is subtracted from x, and usual (B, horizon, columns) is what has
        to be added to a forecast; y is the value itself.
        Of a panel, series (B, 1, 1) has the numbers of the series.
        Of rows at irregular times, gaps (B, context + horizon) has the time since the row before; the first has 1.
        If the series has gaps, known (B, horizon, columns): which values of y count. A value does if it is known, and
        one of its column in the context too: without, there is nothing to forecast it from.
        """
        rows = self.rows(indices)
        column = torch.as_tensor(indices, dtype=torch.long)[:, None] % self.values.shape[1]

        def of(values: Tensor) -> Tensor:
            return values[rows, column].unsqueeze(-1) if self.single else values[rows]

        x = of(self.values)
        y = x[:, self.context :].clone()
        x[:, self.context :] = 0
        batch = {"x": x, "y": y}
        if self.time.shape[1]:
            batch["time"] = self.time[rows]
            if self.ahead is not None:
                batch["time"][:, self.context :] *= self.ahead
        if self.gaps is not None:
            batch["gaps"] = self.gaps[rows]
            batch["gaps"][:, 0] = 1
        if self.usual is not None:
            usual = of(self.usual)
            x[:, : self.context] -= usual[:, : self.context]
            batch["usual"] = usual[:, self.context :]
        if self.known is not None:
            known = of(self.known)
            batch["known"] = known[:, self.context :] & known[:, : self.context].any(1, keepdim=True)
        if np.ndim(self.first):
            batch["series"] = torch.from_numpy(self.series_of(indices))[:, None, None]
        return batch

    def has_targets(self) -> bool:
        """Whether any value of any window counts."""
        if self.known is None:
            return True
        return any(map(self._has_targets, replace(self, values=self.known).stretches()))

    def _has_targets(self, known: Tensor) -> bool:
        """Whether windows of rows with these known values have targets."""
        counts = known.long().cumsum(0)
        counts = torch.cat((torch.zeros_like(counts[:1]), counts))  # known values before each row
        start, now, end = (
            counts[shift : len(counts) - self.context - self.horizon + shift]
            for shift in (0, self.context, self.context + self.horizon)
        )
        return bool(((now > start) & (end > now)).any())


def under_an_hour(step: np.timedelta64) -> bool:
    """Whether rows are so close that the minute of an hour is a feature."""
    return not in_months(step) and bool(step < np.timedelta64(1, "h"))
