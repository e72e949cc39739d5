"""Prediction intervals: a forecast plus and minus an order statistic of the errors of earlier forecasts, by step.

The half-width of step h at a level is the ceil((n + 1) level)-th smallest of n absolute errors at step h: those of the
last windows that were complete before the forecast begins and that the model was not trained on. Windows overlap, so
the coverage is measured on the test set, in the same way, and not guaranteed.

Errors are on the scale on which the model forecasts, and the ends of an interval are restored from there.

The series of a panel have few errors each, and are not equally hard to forecast. So the errors of each are divided by
its spread, the mean size of its errors relative to those of all series, and pooled; the half-widths that come out are
multiplied by the spread again. A series that has no errors yet has the spread 1.
"""

import copy
import functools
import io
import math
import shlex
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.core.terminal import with_command
from longwave.io.times import Times
from longwave.tasks.actions import predict
from longwave.tasks.base import Batch, Conclusion, TrainedRun
from longwave.tasks.forecast import baselines
from longwave.tasks.forecast.covariates import Covariates
from longwave.tasks.forecast.panel import Panel
from longwave.tasks.forecast.scales import Scales, standard_values
from longwave.tasks.forecast.series import Series
from longwave.tasks.forecast.task import ForecastTask, forecast
from longwave.tasks.forecast.windows import ForecastInput, ForecastWindows

FILE = "residuals.npz"
LEVELS = (80.0, 95.0)  # that are scored by default
TRAILING = 1200  # rows in which the windows begin whose errors count
FEWEST = 40  # windows whose errors count, however far apart they are
FEWEST_BY_SERIES = 8  # of the windows of each series of a panel whose errors are computed
MOST_WINDOWS, MOST_NUMBERS = 2**12, 2**21  # whose errors are computed; of more, every k-th window
MOST_SORTED = 2**26  # numbers that are sorted to score intervals; beyond, some windows are not scored
AT_ONCE = 64  # windows that a model is given

Floats = NDArray[np.float32]


class Interval(NamedTuple):
    """The ends of an interval at a level in per cent: low and high (horizon, columns), in the units of the series."""

    level: float
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def check_levels(level: Any) -> tuple[float, ...]:
    """Levels in per cent, the lowest first; None or an empty sequence: none."""
    given = () if level is None else tuple(level) if np.iterable(level) and not isinstance(level, str) else (level,)
    for one in given:
        is_number = isinstance(one, int | float | np.number) and not isinstance(one, bool)
        if not is_number or not 0 < one < 100:
            raise ValueError(f"level: expected per cent between 0 and 100, such as 80 95, got {one!r}")
    if len(set(given)) < len(given):
        raise ValueError(f"level: expected each level once, got {' '.join(f'{one:g}' for one in given)}")
    return tuple(sorted(map(float, given)))


@dataclass(frozen=True, eq=False)
class Residuals:
    """Truth minus forecast of windows, in order: (windows, horizon, columns), NaN where the truth is not known.

    Those of a panel have a column for each series; the last windows of all of them are in the last row.
    """

    values: Floats
    stride: int = 1  # rows from one window to the next
    last: Times | None = None  # (series,) the time of the first row that the last window forecasts
    ids: tuple[str, ...] = ()  # of the series of a panel; empty: there is one series
    borders: NDArray[np.int64] | None = None  # (3, series) of a panel: rows to train, up to validation, and all

    @property
    def counted(self) -> int:
        """Number of the last windows that count."""
        return max(FEWEST, TRAILING // self.stride)

    def before(self, window: int) -> Floats:
        """The errors that count for a window: those of windows complete before it begins."""
        end = window + 1 - -(-self.values.shape[1] // self.stride)
        return self.values[max(0, end - self.counted) : max(0, end)]

    def followed_by(self, errors: Floats, ids: Sequence[str] = ()) -> "Residuals":
        """Append the errors of later windows (of a panel: of the series `ids`), keeping as many as count."""
        if not self.ids:
            return replace(self, values=np.concatenate((self.values, errors))[-self.counted :])
        names = tuple(dict.fromkeys((*self.ids, *ids)))
        places = {name: k for k, name in enumerate(names)}
        rows = min(self.counted, len(self.values) + len(errors))
        values = np.full((rows, self.values.shape[1], len(names)), np.nan, np.float32)
        kept = self.values[-rows:]
        values[rows - len(kept) :, :, : len(self.ids)] = kept
        for name, new in zip(ids, errors.transpose(2, 0, 1), strict=True):
            is_known = np.isfinite(new).any(1)
            if is_known.any():
                own = values[..., places[name]]
                values[..., places[name]] = np.concatenate((own, new[is_known.argmax() :]))[-rows:]
        return replace(self, values=values, ids=names)

    def half_widths(self, errors: Floats, levels: Sequence[float]) -> tuple[Floats, NDArray[np.bool_]]:
        """Half-widths from these errors (see `half_widths`); for a panel, of all series scaled by their spread."""
        if not self.ids:
            return half_widths(errors, levels)
        spread = _spread(errors, self.stride)
        pooled = (errors / spread).transpose(0, 2, 1).reshape(-1, errors.shape[1], 1)
        halves, few = half_widths(pooled, levels)
        return halves * spread, np.broadcast_to(few, (*halves.shape[:2], len(spread)))

    def to_bytes(self) -> bytes:
        """The content of a file with those of the last windows, which count for what follows them."""
        content = io.BytesIO()
        last = np.asarray(np.datetime64("NaT", "s") if self.last is None else self.last)
        unit = np.datetime_data(last.dtype)[0]
        more: dict[str, Any] = {"ids": np.array(self.ids)} if self.ids else {}
        more |= {} if self.borders is None else {"borders": self.borders}
        more |= {} if unit == "s" else {"unit": np.array(unit)}
        np.savez(
            content, residuals=self.values[-self.counted :], stride=self.stride, last=last.astype(np.int64), **more
        )
        return content.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, shape: tuple[int, int], source: str, is_panel: bool = False) -> "Residuals":
        """The inverse of `to_bytes`, for windows of that shape, or a panel; messages call the file `source`."""
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as found:
                values, stride = found["residuals"], int(found["stride"])
                unit = str(found["unit"]) if "unit" in found else "s"
                if unit not in ("s", "us"):
                    raise ValueError(f"got times in {unit!r:.20}")
                last, ids = found["last"].astype(f"datetime64[{unit}]"), found["ids"] if is_panel else np.array([], "U")
                borders = found.get("borders")
            shape, wanted = (shape[0], len(ids)) if is_panel else shape, ids.shape if is_panel else ()
            if values.ndim != 3 or values.shape[1:] != shape or values.dtype != np.float32 or stride < 1:
                raise ValueError(f"got {values.dtype} of shape {values.shape}, {stride} rows apart")
            if ids.dtype.kind != "U" or (last.shape not in ((), wanted)):
                raise ValueError(f"got {ids.dtype} ids, and times of shape {last.shape}")
            if borders is not None and (borders.shape != (3, len(ids)) or borders.dtype != np.int64):
                raise ValueError(f"got {borders.dtype} borders of shape {borders.shape}")
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{source}: expected errors of windows of {shape} numbers ({error})") from error
        return cls(values, stride, None if np.isnat(last).any() else last, tuple(ids.tolist()), borders)


# Widths


def _spread(errors: Floats, stride: int) -> Floats:
    """The mean size of the errors (windows, horizon, series) of each series, relative to those of all: (series,).

    It is drawn towards 1 as if by one more forecast that did not overlap: few errors say little of their size.
    """
    sizes, is_known = np.abs(np.nan_to_num(errors)), np.isfinite(errors)
    counts = is_known.sum((0, 1))
    own = sizes.sum((0, 1)) / counts.clip(1)
    usual = own[counts > 0].mean() if counts.any() else 0.0
    apart = counts / errors.shape[1] * min(1.0, stride / errors.shape[1])  # forecasts that do not overlap
    relative = np.where(counts > 0, own / usual, 1.0) if usual else np.ones_like(own)
    return np.asarray(1 + apart / (apart + 1) * (relative - 1), np.float32)


def half_widths(residuals: Floats, levels: Sequence[float]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Half-widths (levels, horizon, columns), of ascending levels, and where errors of other steps were pooled.

    NaN where even the errors of all steps are too few. Errors are pooled with those of as few neighbouring steps as a
    level needs; a wider interval always holds a narrower one.
    """
    errors = np.sort(np.abs(residuals).transpose(1, 2, 0), axis=-1)  # (horizon, columns, windows), NaN last
    counts = np.isfinite(errors).sum(axis=-1)
    found = np.full((len(levels), *counts.shape), np.nan, np.float32)
    pooled = np.zeros(found.shape, np.bool_)
    for k, level in enumerate(levels):
        ranks = _rank(counts, level)
        enough = ranks <= counts
        found[k][enough] = np.take_along_axis(errors[enough], ranks[enough][:, None] - 1, axis=-1)[:, 0]
        for step in np.flatnonzero(~enough.all(axis=1)):
            found[k, step, ~enough[step]] = _pooled(errors[:, ~enough[step]], int(step), level)
        pooled[k] = ~enough
    return np.maximum.accumulate(found, axis=0), pooled


def bands(task: ForecastTask, y: NDArray[np.float64], windows: Sequence[int]) -> list[tuple[Interval, ...]]:
    """The intervals around forecasts (windows, horizon, columns) of windows of the test set, by their numbers."""
    found: Residuals | None = task.residuals
    if found is None:
        return []
    end, series = np.atleast_1d(task.test.end), task.test.series_of(windows)
    rows = task.test.rows(windows)[:, task.context].numpy()  # that are forecast first
    back = -(-(end[series] - task.horizon - rows) // found.stride)  # windows before the last
    drawn = []
    for one, k, number in zip(y, series, len(found.values) - 1 - back, strict=True):
        halves = found.half_widths(found.before(int(number)), task.level)[0]
        inputs = task.inputs_of(int(k))
        drawn.append(_around(one, task.level, halves[..., [k]] if found.ids else halves, inputs))
    return drawn


def _around(
    y: NDArray[np.float64], levels: Sequence[float], halves: Floats, inputs: ForecastInput
) -> tuple[Interval, ...]:
    """A forecast (horizon, columns) of the model plus and minus half-widths, in the units of the series."""
    ends = zip(levels, halves.astype(np.float64), strict=True)
    return tuple(Interval(level, inputs.restore(y - half), inputs.restore(y + half)) for level, half in ends)


def _rank(count: Any, level: float) -> Any:
    """Which order statistic of so many errors a level takes, the smallest being 1; above the count: they are few."""
    return np.ceil((count + 1) * (level / 100) - 1e-9).astype(np.int64)


def _pooled(errors: Floats, step: int, level: float) -> Floats:
    """The order statistics (columns,) of a step and its neighbours, of errors (horizon, columns, windows), or NaN."""
    found = np.full(errors.shape[1], np.nan, np.float32)
    for radius in range(1, len(errors)):
        near = errors[max(0, step - radius) : step + radius + 1]
        near = np.sort(near.transpose(1, 0, 2).reshape(len(found), -1), axis=-1)
        counts = np.isfinite(near).sum(axis=-1)
        ranks = _rank(counts, level)
        new = np.isnan(found) & (ranks <= counts)
        found[new] = near[new, ranks[new] - 1]
        if not np.isnan(found).any():
            break
    return found


# Errors


def residuals(call: Callable[[Batch], Tensor], windows: ForecastWindows, numbers: Any) -> Floats:
    """The errors (windows, horizon, columns) of a forecast for some windows of a split."""
    found = []
    for start in range(0, len(numbers), AT_ONCE):
        batch = windows.batch(numbers[start : start + AT_ONCE])
        error = batch["y"] - call(batch)
        error = torch.where(batch["known"], error, torch.nan) if "known" in batch else error
        found.append(error.float().numpy())
    return np.concatenate(found) if found else np.zeros((0, windows.horizon, windows.values.shape[1]), np.float32)


def forecasts_of(model: Any, independent: bool, horizon: int) -> Callable[[Batch], Tensor]:
    """A model as a forecast of batches."""
    call = functools.partial(forecast, independent=independent, horizon=horizon)
    return lambda batch: predict(model, batch, call)


def conclude(task: ForecastTask, model: Any, compare: bool) -> Conclusion:
    """Store the errors of held-out windows, and score the intervals of the model and of NLinear."""
    windows = replace(task.valid, end=np.maximum(task.valid.end, task.test.end))
    size = windows.values.shape[1] * task.horizon
    most = max(MOST_WINDOWS, FEWEST_BY_SERIES * len(windows.counts))
    stride = max(-(-len(windows) // most), -(-len(windows) * size // MOST_NUMBERS))
    numbers = windows.from_the_end(stride)
    times, series = task.data.series.times, task.data.series
    last = None if times is None else times[windows.end - task.horizon]
    ids = series.ids if isinstance(series, Panel) else ()
    borders = np.array(task.data.borders, np.int64) - task.data.starts if ids else None
    call = forecasts_of(model, task.independent, task.horizon)
    own = Residuals(_by_series(residuals(call, windows, numbers[numbers >= 0]), numbers), stride, last, ids, borders)
    first = np.zeros(len(windows.counts), np.int64)
    if len(task.test):
        first = len(numbers) - -(-task.test.counts // stride)
    truth = None
    if task.inputs.log:  # scores are those of the values
        truth = _by_series(windows.values[windows.rows(numbers[numbers >= 0])[:, task.context :]].numpy(), numbers)
    result: dict[str, Any] = {
        "split": "test" if len(task.test) else "valid",
        "this run": scores(own, task.level, first, truth, task.in_units),
    }
    if compare and "nlinear" not in baselines.left_out(task):
        nlinear, plain = baselines.fit("nlinear", task), task.plain
        plain_windows = replace(plain.valid, end=windows.end)
        errors = residuals(lambda batch: nlinear(batch["x"]), plain_windows, numbers[numbers >= 0])
        result["nlinear"] = scores(replace(own, values=_by_series(errors, numbers)), task.level, first)
    return Conclusion(replace(task, residuals=own), {FILE: own.to_bytes()}, {"intervals": result})


def _by_series(values: Floats, numbers: NDArray[np.int64]) -> Floats:
    """Values (n, horizon, 1) of the windows `numbers` (windows, series), -1: none, as (windows, horizon, series)."""
    if numbers.shape[1] == 1:
        return values
    found = np.full((*numbers.shape, values.shape[1]), np.nan, np.float32)
    found[numbers >= 0] = values[..., 0]
    return found.transpose(0, 2, 1)


def scores(
    found: Residuals,
    levels: Sequence[float],
    first: Any,
    truth: Floats | None = None,
    in_units: Callable[[Tensor, Any], Tensor] = lambda y, series: y,
) -> dict[str, dict[str, float]]:
    """Coverage, mean width and pinball loss by level, of the windows from number `first` (of each series) on.

    Empty: none has any. Each has the interval that was known when it began. Widths and losses are on the scale of the
    MSE: where that is not the scale of the errors, `in_units` goes there from the true values (windows, horizon,
    columns).
    """
    size = found.counted * found.values[0].size
    most = max(FEWEST, MOST_SORTED // size)
    sums, count = np.zeros((len(levels), 3)), np.zeros(len(levels))
    begin, series = int(np.min(first)), torch.arange(len(found.ids) or 1)
    for window in range(begin, len(found.values), -(-(len(found.values) - begin) // most)):
        halves, errors = found.half_widths(found.before(window), levels)[0], found.values[window]
        y = errors if truth is None else truth[window]  # a forecast of 0, or the forecast itself
        for k, (level, half) in enumerate(zip(levels, halves, strict=True)):
            is_known = np.isfinite(half) & np.isfinite(errors) & (window >= first)
            ends = (y - errors - half, y, y - errors + half)
            low, value, high = (in_units(torch.from_numpy(one).double(), series).numpy()[is_known] for one in ends)
            outside = np.maximum(np.maximum(low - value, value - high), 0)
            # The mean of the pinball losses of both ends: (tail (width) + distance outside) / 2.
            loss = ((0.5 - level / 200) * (high - low) + outside) / 2
            sums[k] += [np.sum(outside == 0), np.sum(high - low), loss.sum()]
            count[k] += is_known.sum()
    names = ("coverage", "width", "pinball")
    return {
        f"{level:g}": dict(zip(names, (sums[k] / count[k]).tolist(), strict=True))
        for k, level in enumerate(levels)
        if count[k]
    }


# Intervals of new forecasts


class Intervals:
    """The intervals of a run at some levels."""

    def __init__(self, run: TrainedRun, inputs: ForecastInput, level: Any) -> None:
        self.levels, self.inputs = check_levels(level), inputs
        self.is_strict = True  # whether too few errors are refused
        self.source = str(run.path / FILE)
        if self.levels:
            if FILE not in (run.result() or {}).get("files", ()):
                raise ValueError(
                    with_command(
                        f"{run.path}: level: intervals need the errors of held-out windows, and this run has none; "
                        "add them with",
                        f"longwave evaluate {shlex.quote(str(run.path))} --residuals",
                    )
                )
            shape = (inputs.horizon, len(inputs.columns))
            self.held_out = Residuals.from_bytes(run.artifact(FILE), shape, self.source, inputs.id is not None)

    def of(self, held_out: Residuals) -> "Intervals":
        """The intervals of other errors, NaN where these are too few."""
        found = copy.copy(self)
        found.held_out, found.is_strict = held_out, False
        return found

    def trailing(
        self,
        series: Series,
        call: Callable[[Batch], Tensor],
        scales: Scales | None = None,
        covariates: Covariates | None = None,
    ) -> Floats:
        """The errors of the windows of new rows that are later than the held-out ones, as many as count.

        Without times, it is not known which are. A series of a panel that was not trained on has no held-out windows,
        and all of its own count.
        """
        held_out = self.held_out
        windows = series_windows(self.inputs, series, scales, covariates)
        numbers = windows.from_the_end(held_out.stride)[-held_out.counted :]
        is_new = np.zeros(numbers.shape, np.bool_)
        if series.times is not None and held_out.last is not None:
            last = held_out.last
            if isinstance(series, Panel):
                ends = dict(zip(held_out.ids, last, strict=True))
                last = np.array([ends.get(name, last[0]) for name in series.ids])
            rows = numbers - (windows.counts.cumsum() - windows.counts) + windows.first
            is_new = series.times[rows] > last
        if isinstance(series, Panel):
            is_new |= ~np.isin(series.ids, held_out.ids)
        numbers = np.where(is_new, numbers, -1)
        return _by_series(residuals(call, windows, numbers[numbers >= 0]), numbers)

    def half_widths(self, errors: Floats, ids: Sequence[str] = ()) -> tuple[Floats, list[str]]:
        """Half-widths (levels, horizon, columns) for what follows, from errors in new rows first, and notes.

        Of a panel, the columns are the series `ids`, and so are those of the errors.
        """
        found = self.held_out.followed_by(errors, ids)
        both = found.values
        halves, pooled = found.half_widths(both, self.levels)
        if found.ids:
            place = {name: k for k, name in enumerate(found.ids)}
            halves = halves[..., [place[name] for name in ids]]
        for level, half in zip(self.levels, halves, strict=True):
            if self.is_strict and np.isnan(half).any():
                column = self.inputs.columns[0 if found.ids else int(np.isnan(half).any(axis=0).argmax())]
                own = both if found.ids else both[..., self.inputs.columns.index(column)]
                known = int(np.isfinite(own).sum())
                raise ValueError(
                    f"{self.source}: level: {level:g} needs the errors of at least {_needed(level)} forecasts, and "
                    f"of {column!r} there are {known}, all steps counted; expected at most "
                    f"{math.floor(100 * known / (known + 1))}, or a run with more held-out rows"
                )
        notes = [
            f"the {level:g} % interval pools the errors of neighbouring steps: one step alone needs {_needed(level)} "
            f"earlier windows, and there are {len(both)}"
            for level, some in zip(self.levels, pooled, strict=True)
            if some.any()
        ]
        return halves, notes

    def around(self, y: NDArray[np.float64], halves: Floats, inputs: ForecastInput) -> tuple[Interval, ...]:
        """The intervals around a forecast (horizon, columns) of the model."""
        return _around(y, self.levels, halves, inputs)


def _needed(level: float) -> int:
    """The number of errors from which on a level has an order statistic."""
    return math.ceil(level / (100 - level) - 1e-9)


def series_windows(
    inputs: ForecastInput, series: Series, scales: Scales | None = None, covariates: Covariates | None = None
) -> ForecastWindows:
    """All windows of new rows: number k forecasts what follows the first context + k of them; of a panel, of each."""
    order = [series.columns.index(name) for name in inputs.columns]
    usual = None if series.times is None else inputs.usual(series.times)
    starts, ends = (series.starts[:-1], series.starts[1:]) if isinstance(series, Panel) else (0, len(series))
    time, ahead = inputs.time(series.times, len(series)), None
    gaps = inputs.gaps(series.times)
    if covariates is not None:
        ahead = covariates.ahead(time.shape[1])
        time = np.concatenate((time, covariates.features(series.beside)), axis=1)
    return ForecastWindows(
        values=torch.from_numpy(standard_values(series, inputs, scales)),
        time=torch.from_numpy(time),
        first=starts + inputs.context,
        end=ends,
        context=inputs.context,
        horizon=inputs.horizon,
        known=None if series.known is None else torch.from_numpy(series.known[:, order]),
        usual=None if usual is None else torch.from_numpy(usual.astype(np.float32)),
        ahead=ahead,
        gaps=None if gaps is None else torch.from_numpy(gaps),
    )
