"""Prediction intervals: a forecast plus and minus an order statistic of the errors of earlier forecasts, by step.

The half-width of step h at a level is the ceil((n + 1) level)-th smallest of n absolute errors at step h: those of the
last windows that were complete before the forecast begins and that the model was not trained on. Windows overlap, so
the coverage is measured on the test set, in the same way, and not guaranteed.

Errors are on the scale on which the model forecasts, and the ends of an interval are restored from there.
"""

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
from longwave.tasks.actions import predict
from longwave.tasks.base import Batch, Conclusion, TrainedRun
from longwave.tasks.forecast import baselines
from longwave.tasks.forecast.series import Series
from longwave.tasks.forecast.task import ForecastTask, forecast
from longwave.tasks.forecast.windows import ForecastInput, ForecastWindows

FILE = "residuals.npz"
LEVELS = (80.0, 95.0)  # that are scored by default
TRAILING = 1200  # rows in which the windows begin whose errors count
FEWEST = 40  # windows whose errors count, however far apart they are
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
    """Truth minus forecast of windows, in order: (windows, horizon, columns), NaN where the truth is not known."""

    values: Floats
    stride: int = 1  # rows from one window to the next
    last: np.datetime64 | None = None  # the time of the first row that the last window forecasts

    @property
    def counted(self) -> int:
        """How many of the last windows count."""
        return max(FEWEST, TRAILING // self.stride)

    def before(self, window: int) -> Floats:
        """Those that count for a window by its number: they were complete before it begins."""
        end = window + 1 - -(-self.values.shape[1] // self.stride)
        return self.values[max(0, end - self.counted) : max(0, end)]

    def to_bytes(self) -> bytes:
        """The content of a file with those of the last windows, which count for what follows them."""
        content = io.BytesIO()
        last = np.array("NaT" if self.last is None else self.last, "datetime64[s]").astype(np.int64)
        np.savez(content, residuals=self.values[-self.counted :], stride=self.stride, last=last)
        return content.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, shape: tuple[int, int], source: str) -> "Residuals":
        """The inverse of `to_bytes`, of windows of that shape; `source` is what messages call the file."""
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as found:
                values, stride, last = (
                    found["residuals"],
                    int(found["stride"]),
                    found["last"].astype("datetime64[s]")[()],
                )
            if values.ndim != 3 or values.shape[1:] != shape or values.dtype != np.float32 or stride < 1:
                raise ValueError(f"got {values.dtype} of shape {values.shape}, {stride} rows apart")
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{source}: expected errors of windows of {shape} numbers ({error})") from error
        return cls(values, stride, None if np.isnat(last) else last)


# Widths


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
    held_out = task.test.first - task.valid.first
    begin = (task.test.end - task.valid.first - task.horizon) % found.stride
    drawn = []
    for one, number in zip(y, windows, strict=True):
        halves = half_widths(found.before((held_out + number - begin) // found.stride), task.level)[0]
        drawn.append(_around(one, task.level, halves, task.inputs))
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


def residuals(call: Callable[[Batch], Tensor], windows: ForecastWindows, numbers: Sequence[int]) -> Floats:
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
    """What a trained model leaves: the errors of held-out windows, and how its intervals do; also NLinear's."""
    windows = replace(task.valid, end=max(task.valid.end, task.test.end))
    size = windows.values.shape[1] * task.horizon
    stride = max(-(-len(windows) // MOST_WINDOWS), -(-len(windows) * size // MOST_NUMBERS))
    numbers = range((len(windows) - 1) % stride, len(windows), stride)
    times = task.data.series.times
    last = None if times is None else times[windows.first + numbers[-1]]
    own = Residuals(residuals(forecasts_of(model, task.independent, task.horizon), windows, numbers), stride, last)
    first = next(k for k, n in enumerate(numbers) if n + windows.first >= task.test.first) if len(task.test) else 0
    truth = None
    if task.inputs.log:  # scores are those of the values
        truth = windows.values[windows.rows(numbers)[:, task.context :]]
    result: dict[str, Any] = {
        "split": "test" if len(task.test) else "valid",
        "this run": scores(own, task.level, first, truth, task.in_units),
    }
    if compare and "nlinear" not in baselines.left_out(task):
        nlinear, plain = baselines.fit("nlinear", task), task.plain
        errors = residuals(lambda batch: nlinear(batch["x"]), replace(plain.valid, end=windows.end), numbers)
        result["nlinear"] = scores(Residuals(errors, stride), task.level, first)
    return Conclusion(replace(task, residuals=own), {FILE: own.to_bytes()}, {"intervals": result})


def scores(
    found: Residuals,
    levels: Sequence[float],
    first: int,
    truth: Tensor | None = None,
    in_units: Callable[[Tensor], Tensor] = lambda y: y,
) -> dict[str, dict[str, float]]:
    """Coverage, mean width and pinball loss by level, of the windows from number `first` on; empty: none has any.

    Each has the interval that was known when it began. Widths and losses are on the scale of the MSE: where that is not
    the scale of the errors, `in_units` goes there from the true values (windows, horizon, columns).
    """
    size = found.counted * found.values[0].size
    most = max(FEWEST, MOST_SORTED // size)
    sums, count = np.zeros((len(levels), 3)), np.zeros(len(levels))
    for window in range(first, len(found.values), -(-(len(found.values) - first) // most)):
        halves, errors = half_widths(found.before(window), levels)[0], found.values[window]
        y = errors if truth is None else truth[window].numpy()  # a forecast of 0, or the forecast itself
        for k, (level, half) in enumerate(zip(levels, halves, strict=True)):
            is_known = np.isfinite(half) & np.isfinite(errors)
            ends = (y - errors - half, y, y - errors + half)
            low, value, high = (in_units(torch.from_numpy(one[is_known]).double()).numpy() for one in ends)
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
            self.held_out = Residuals.from_bytes(run.artifact(FILE), shape, self.source)

    def trailing(self, series: Series | None, call: Callable[[Batch], Tensor]) -> Floats:
        """The errors of the windows of new rows that are later than the held-out ones, as many as count.

        Without times, it is not known which are; without rows, there are none.
        """
        last, context = self.held_out.last, self.inputs.context
        if series is None or series.times is None or last is None:
            return self.held_out.values[:0]
        first = max(context, int(np.searchsorted(series.times, last, "right")))
        origins = range(len(series) - self.inputs.horizon, first - 1, -self.held_out.stride)
        numbers = [origin - context for origin in origins[: self.held_out.counted][::-1]]
        return residuals(call, series_windows(self.inputs, series), numbers)

    def around(self, y: NDArray[np.float64], errors: Floats) -> tuple[tuple[Interval, ...], list[str]]:
        """The intervals around a forecast (horizon, columns) of the model, from errors in new rows first, and notes."""
        both = np.concatenate((self.held_out.values, errors))[-self.held_out.counted :]
        halves, pooled = half_widths(both, self.levels)
        for level, half in zip(self.levels, halves, strict=True):
            if np.isnan(half).any():
                column = self.inputs.columns[int(np.isnan(half).any(axis=0).argmax())]
                known = int(np.isfinite(both[..., self.inputs.columns.index(column)]).sum())
                raise ValueError(
                    f"{self.source}: level: {level:g} needs the errors of at least {_needed(level)} forecasts, and "
                    f"of {column!r} there are {known}, all steps counted; expected at most "
                    f"{math.floor(100 * known / (known + 1))}, or a run with more held-out rows"
                )
        notes = [
            f"the {level:g} % interval pools the errors of neighbouring steps: there are {len(both)} earlier windows, "
            f"and a step by itself needs {_needed(level)}"
            for level, some in zip(self.levels, pooled, strict=True)
            if some.any()
        ]
        return _around(y, self.levels, halves, self.inputs), notes


def _needed(level: float) -> int:
    """The number of errors from which on a level has an order statistic."""
    return math.ceil(level / (100 - level) - 1e-9)


def series_windows(inputs: ForecastInput, series: Series) -> ForecastWindows:
    """All windows of new rows: number k forecasts what follows the first context + k of them."""
    order = [series.columns.index(name) for name in inputs.columns]
    usual = None if series.times is None else inputs.usual(series.times)
    return ForecastWindows(
        values=torch.from_numpy(inputs.standardise(series.values[:, order]).astype(np.float32)),
        time=torch.from_numpy(inputs.time(series.times, len(series))),
        first=inputs.context,
        end=len(series),
        context=inputs.context,
        horizon=inputs.horizon,
        known=None if series.known is None else torch.from_numpy(series.known[:, order]),
        usual=None if usual is None else torch.from_numpy(usual.astype(np.float32)),
    )
