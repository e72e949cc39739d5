"""Forecasts to compare a model with: repeat-last, seasonal-naive, NLinear, DLinear, exponential smoothing and an
autoregression.

Each is an affine map of the context, forecast = weight context + bias, the same for every column. The two linear models
are those of Zeng et al., "Are Transformers Effective for Time Series Forecasting?" (2023), with weights shared by the
columns. They were published as trained by stochastic gradient descent. Here they are solved: ridge regression over all
windows of the training set, with the penalty that does best on the validation set. So they have no seed, and their
scores are close to the published ones, not equal to them. They are solved and scored on the values themselves, also
where a task subtracts the yearly cycle for its model.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longwave.core.registry import nearest
from longwave.models import Shift
from longwave.tasks.base import Baselines, Scores, score
from longwave.tasks.forecast.task import ForecastTask
from longwave.tasks.forecast.windows import ForecastWindows

Matrix = NDArray[np.float64]
Places = NDArray[np.int64]
MOST_OPERATIONS = 10**11  # for the moments of values and regressors
PENALTIES = np.logspace(-8, 2, 41)  # relative to the mean variance of a feature
TREND_ROWS = 25  # DLinear's moving average
LONGEST = 4096  # context and horizon of a linear model that is solved within some minutes


@dataclass(frozen=True, eq=False)
class Forecast:
    """forecast = weight context + bias, for each column by itself; and beside weights the columns beside the target."""

    weight: Matrix  # (horizon, context)
    bias: Matrix  # (horizon,)
    penalty: float | None = None  # what the validation set chose, if fitted
    error: float | None = None  # the mean squared error there
    beside: Matrix | None = None  # (horizon, regressors), of the features of a window at `places`
    places: Places | None = None  # (regressors,) in a window (context + horizon, features)

    def __call__(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        """x (B, context or more, columns) -> (B, horizon, columns) in float64; what follows the context is not used.

        `time` (B, context + horizon, features) is of use where columns beside the target are.
        """
        context = x[:, : self.weight.shape[1]].double()
        y = torch.einsum("hc,bcn->bhn", torch.from_numpy(self.weight), context) + torch.from_numpy(self.bias)[:, None]
        if self.beside is None or self.places is None or time is None:
            return y
        regressors = time.flatten(1)[:, torch.from_numpy(self.places)].double()
        return y + (regressors @ torch.from_numpy(self.beside).T)[..., None]


def repeat_last(task: ForecastTask) -> Forecast:
    """The last value, again and again."""
    return Forecast(_last_value(task), np.zeros(task.horizon))


def seasonal_naive(task: ForecastTask) -> Forecast:
    """The last season, again and again."""
    if task.period > task.context:
        raise ValueError(
            f"seasonal-naive: a season has {task.period} rows, and the context {task.context}; lengthen the context"
        )
    return Forecast(seasonal_map(task.context, task.horizon, task.period), np.zeros(task.horizon))


def seasonal_map(context: int, horizon: int, period: int) -> Matrix:
    """The map (horizon, context) that repeats the last season."""
    weight, ahead = np.zeros((horizon, context)), np.arange(horizon)
    weight[ahead, context - period + ahead % period] = 1
    return weight


def nlinear(task: ForecastTask) -> Forecast:
    """A linear map of the context, after the last value is subtracted from it; the value is then added again."""
    return ridge(Problem.of(task), "last", np.eye(task.context))


def dlinear(task: ForecastTask) -> Forecast:
    """One linear map of the trend (a moving average, the ends repeated) and one of what remains."""
    return ridge(Problem.of(task), "none", trend_and_rest(task.context))


def exponential_smoothing(task: ForecastTask) -> Forecast:
    """Exponential smoothing of level, damped trend and season, with one set of parameters for all windows."""
    from longwave.tasks.forecast import classical

    return classical.smoothing(Problem.of(task), task.period)


def autoregression(task: ForecastTask) -> Forecast:
    """An autoregression that forecasts one row after the other, of the order that its criterion chooses."""
    from longwave.tasks.forecast import classical

    return classical.autoregression(Problem.of(task), task.train.n_rows, task.period)


def trend_and_rest(context: int) -> Matrix:
    """DLinear's features of a context.

    For a ridge, features S x are all one to those R x with R^T R = S^T S; so S = [trend; rest], of twice the context's
    size, can be replaced by a triangle of the context's size.
    """
    around = np.arange(context)[:, None] + np.arange(TREND_ROWS) - TREND_ROWS // 2
    trend = np.zeros((context, context))
    np.add.at(trend, (np.arange(context)[:, None], around.clip(0, context - 1)), 1 / TREND_ROWS)
    rest = np.eye(context) - trend
    return np.asarray(np.linalg.cholesky(trend.T @ trend + rest.T @ rest).T, dtype=np.float64)


BASELINES: dict[str, Callable[[ForecastTask], Forecast]] = {
    "repeat-last": repeat_last,
    "seasonal-naive": seasonal_naive,
    "nlinear": nlinear,
    "dlinear": dlinear,
    "exponential smoothing": exponential_smoothing,
    "autoregression": autoregression,
}
SOLVED = ("nlinear", "dlinear", "exponential smoothing", "autoregression")  # from the moments of windows


def fit(name: str, task: ForecastTask) -> Forecast:
    """The named baseline, ready to forecast."""
    if name not in BASELINES:
        raise ValueError(f"name: unknown baseline {name!r}; {nearest(name, BASELINES)}")
    return BASELINES[name](task.plain)


def scores(name: str, task: ForecastTask) -> dict[str, Scores]:
    """{"valid": {"mse": ..., "mae": ...}, "test": {...}} of the named baseline, over every window of the split."""
    forecast, task = fit(name, task), task.plain
    return {part: evaluate(forecast, task, getattr(task, part)) for part in task.held_out}


def table(task: ForecastTask) -> Baselines:
    """The scores of every baseline that is not left out, by name."""
    absent = left_out(task)
    return {name: scores(name, task) for name in BASELINES if name not in absent}


def left_out(task: ForecastTask) -> dict[str, str]:
    """The baselines that a task leaves out, with the reason."""
    absent = {}
    if task.period == 1:
        absent["seasonal-naive"] = (
            "no season was found" if task.train.gaps is None else "rows at irregular times have none"
        )
    elif task.context < task.period:
        absent["seasonal-naive"] = "the context is shorter than a season"
    if not solvable(task):
        # Their time grows as the third power of the length of a window.
        absent |= dict.fromkeys(SOLVED, f"windows of more than {LONGEST:,} rows would take too long")
    return absent


def solvable(task: ForecastTask) -> bool:
    """Whether the windows are short enough for linear models to be solved."""
    return task.context + task.horizon <= LONGEST


def evaluate(forecast: Callable[[Tensor], Tensor], task: ForecastTask, windows: ForecastWindows) -> Scores:
    """The task's scores of a forecast, over every window."""
    size = max(1, 2**22 // (windows.values.shape[1] * (task.context + task.horizon)))  # 32 MB of float64
    return score(task, lambda x, **_: (forecast(x), None), windows, size)


def moments(windows: ForecastWindows, places: Places | None = None) -> tuple[Matrix, Matrix]:
    """Mean (L,) and covariance (L, L) of the windows w of all columns, L = context + horizon.

    With the places of regressors in a window (L, features), these follow the L values.

    Shifting a window by one row changes the sum over windows in its first and last term only:
    sum w[i+1] w[j+1] = sum w[i] w[j] - v[i] v[j] + v[n+i] v[n+j]. So the sums cost O(L^2 + n L), not O(n L^2). Those of
    the series of a panel add up.
    """
    if places is not None:
        return _joint_moments(windows, places)
    length = windows.context + windows.horizon
    total, products, ends = np.zeros(length), np.zeros((length, length)), []
    for stretch in windows.stretches():
        values = stretch.double().numpy()
        n = len(values) - length + 1
        sums = np.concatenate([[0.0], values.sum(axis=1).cumsum()])
        total += sums[n:] - sums[:length]
        products[0] += sum(np.correlate(column, column[:n], "valid") for column in values.T)
        ends.append((values[: length - 1], values[n:]))
    count = len(windows) * windows.values.shape[1]
    mean = total / count
    heads, tails = (np.concatenate(parts, axis=1) for parts in zip(*ends, strict=True))
    change = tails @ tails.T - heads @ heads.T
    products[1:, 0] = products[0, 1:]
    for row in range(1, length):
        products[row, 1:] = products[row - 1, :-1] + change[row - 1]
    return mean, products / count - np.outer(mean, mean)


def _joint_moments(windows: ForecastWindows, places: Places) -> tuple[Matrix, Matrix]:
    """Joint moments of values and regressors, over all windows or, if that takes long, every k-th."""
    size = windows.context + windows.horizon + len(places)
    stride = -(-len(windows) * size**2 // MOST_OPERATIONS)
    numbers = range(0, len(windows), stride)
    total, products, rows = np.zeros(size), np.zeros((size, size)), max(1, 2**22 // size)
    for start in range(0, len(numbers), rows):
        batch = windows.batch(numbers[start : start + rows])
        regressors = batch["time"].flatten(1)[:, torch.from_numpy(places)]
        both = torch.cat((batch["x"][:, : windows.context, 0], batch["y"][..., 0], regressors), dim=1).double().numpy()
        total += both.sum(axis=0)
        products += both.T @ both
    mean = total / len(numbers)
    return mean, products / len(numbers) - np.outer(mean, mean)


@dataclass(frozen=True, eq=False)
class Problem:
    """Sizes and moments of two splits, from which a linear map of windows is solved."""

    context: int
    horizon: int
    train: tuple[Matrix, Matrix]
    valid: tuple[Matrix, Matrix]  # on which penalties are chosen
    whole: tuple[Matrix, Matrix] | None = None  # of both, to fit to once penalties are chosen; None: train it is
    places: Places | None = None  # of the regressors that follow the values; None: there are none

    @property
    def known(self) -> tuple[Matrix, Matrix]:
        """The moments of both splits, for the final fit."""
        return self.train if self.whole is None else self.whole

    @classmethod
    def of(cls, task: ForecastTask, places: Places | None = None) -> "Problem":
        """The problem of a task: fitted to the training set, the penalty chosen on the validation set."""
        train, valid = (moments(windows, places) for windows in (task.every_train_window, task.valid))
        return cls(task.context, task.horizon, train, valid, places=places)

    @property
    def alone(self) -> "Problem":
        """The problem without regressors."""
        if self.places is None:
            return self
        size = self.context + self.horizon
        parts = [m and (m[0][:size], m[1][:size, :size]) for m in (self.train, self.valid, self.whole)]
        return Problem(self.context, self.horizon, *parts)  # type: ignore[arg-type]


def ridge(problem: Problem, shift: Shift, features: Matrix) -> Forecast:
    """The least squares fit of horizon - s to features (context - s), s the shift, over the training set.

    The validation error of every penalty follows from the moments of the validation set and one eigenbasis: with
    W = Q diag(d) G, d = 1 / (eigenvalues + penalty), it is a quadratic form in d.
    """
    level = _level(problem.context, shift)
    unshifted = features - features.sum(axis=1, keepdims=True) * level  # features (I - 1 level^T)
    shifts = np.tile(level, (problem.horizon, 1))
    if problem.places is not None:  # which are features as they are
        beside = len(problem.places)
        unshifted = np.pad(unshifted, (0, beside))
        unshifted[-beside:, -beside:] = np.eye(beside)
        shifts = np.pad(shifts, ((0, 0), (0, beside)))
    future = slice(problem.context, problem.context + problem.horizon)
    mean_x, mean_z, A, B, _ = _regression(problem.train, unshifted, shifts, future)
    valid_x, valid_z, A_valid, B_valid, variance = _regression(problem.valid, unshifted, shifts, future)
    eigenvalues, Q = np.linalg.eigh(A)
    eigenvalues = eigenvalues.clip(0)
    unit = eigenvalues.mean() or 1.0  # a constant series has no variance at all
    G = Q.T @ B
    quadratic = (Q.T @ A_valid @ Q) * (G @ G.T)
    linear = ((Q.T @ B_valid) * G).sum(axis=1)
    moved_x, moved_z = Q.T @ (valid_x - mean_x), valid_z - mean_z
    best, W, penalty = np.inf, np.zeros_like(B), 0.0
    for candidate in PENALTIES.tolist():
        d = 1 / (eigenvalues + candidate * unit)
        error = d @ quadratic @ d - 2 * d @ linear + np.square(moved_z - (d * moved_x) @ G).sum()
        if error < best:
            best, W, penalty = error, Q @ (d[:, None] * G), candidate
    if problem.whole is not None:
        mean_x, mean_z, A, B, _ = _regression(problem.whole, unshifted, shifts, future)
        unit = np.trace(A) / len(A) or 1.0
        W = np.asarray(np.linalg.solve(A + penalty * unit * np.eye(len(A)), B), np.float64)
    weight, context = W.T @ unshifted + shifts, problem.context
    return Forecast(
        weight[:, :context],
        mean_z - W.T @ mean_x,
        penalty,
        max(0.0, float(best + variance)) / problem.horizon,
        None if problem.places is None else weight[:, context:],
        problem.places,
    )


def _regression(
    windows: tuple[Matrix, Matrix], features: Matrix, shift: Matrix, future: slice
) -> tuple[Matrix, Matrix, Matrix, Matrix, float]:
    """Moments of x = features given and z = horizon - shift given: x, z, (x, x), (x, z), trace (z, z).

    What is given are the context and the regressors, all that is not the rows `future` of the windows.
    """
    mean, covariance = windows
    past = np.delete(np.arange(len(mean)), future)
    within, across = covariance[np.ix_(past, past)], covariance[past, future]
    mixed = across - within @ shift.T
    variance = np.trace(covariance[future, future]) - np.sum(shift.T * (across + mixed))
    return (
        features @ mean[past],
        mean[future] - shift @ mean[past],
        features @ within @ features.T,
        features @ mixed,
        float(variance),
    )


def _level(context: int, shift: Shift) -> Matrix:
    """The weights of the context that give the shift of a window."""
    if shift == "mean":
        return np.full(context, 1 / context)
    level = np.zeros(context)
    level[-1] = shift == "last"
    return level


def _last_value(task: ForecastTask) -> Matrix:
    return np.tile(_level(task.context, "last"), (task.horizon, 1))
