"""The combination of simple forecasts that a model starts from, weighted by how they did on held-out windows.

Every member is an affine map of the context, shared by all columns: repeat-last, seasonal-naive, NLinear, DLinear, a
mean of ridge regressions (`linear_start`), exponential smoothing and an autoregression. So the combination is one, too,
and costs nothing to apply. All of them are fitted from the moments of windows alone.

The members are fitted to the rows before each of some origins in the training set, and forecast the stretch that
follows; then to all of the training set, and forecast the validation set. Non-negative weights that sum to one minimise
the squared error of the combination over these stretches, each in units of its own errors. The validation set, which is
nearest to what will be forecast, counts most. Where the stretches hold few horizons, the combination stays near the
simple member that has the least error on the validation set.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from longwave.tasks.base import Batch
from longwave.tasks.forecast.baselines import (
    Forecast,
    Matrix,
    Problem,
    moments,
    repeat_last,
    ridge,
    seasonal_map,
    solvable,
    trend_and_rest,
)
from longwave.tasks.forecast.linear_start import FADINGS, fading, mean, reverting
from longwave.tasks.forecast.task import ForecastTask
from longwave.tasks.forecast.windows import ForecastWindows

ORIGINS = 4  # in the training set
FIRST_ORIGIN = 0.6  # of the training rows, which the first stretch follows
RECENT = 4.0  # how much more the validation set counts than an earlier stretch
SIMPLE = ("repeat-last", "seasonal-naive", "nlinear", "dlinear")
SHRINKAGE = 1.0  # towards the best of these on the validation set, divided by the horizons that were held out
MOST_NUMBERS = 2**20  # of the errors on a stretch; of longer ones some windows are left out
MARGIN = 0.05  # by which logarithms must be better
LONGEST_SEASON = 60  # rows, of exponential smoothing: each is a state
SMOOTHINGS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 0.999)  # of the level
TRENDS = ((0.0, 0.0), (0.1, 0.9), (0.3, 0.9), (0.1, 0.98), (0.3, 0.98))  # smoothing of the trend, and its damping
SEASONAL_SMOOTHINGS = (0.05, 0.2, 0.5)


@dataclass(frozen=True, eq=False)
class Combination:
    """Forecasts of members, their weights, and what they are together."""

    members: dict[str, Forecast]
    weights: dict[str, float]
    trials: list[tuple[ForecastWindows, dict[str, Forecast], float]]  # held-out stretches, with what forecast them

    @property
    def forecast(self) -> Forecast:
        """The combination, as one map."""
        return mean(list(self.members.values()), list(self.weights.values()))


def combine(task: ForecastTask) -> Combination:
    """The combination for a task, whose members are fitted to its training set."""
    final = members(task, Problem.of(task), task.train.end)
    trials = [*_earlier(task), (task.valid, final, RECENT)]
    gram, horizons = np.zeros((len(final), len(final))), 0.0
    for stretch, found, recency in trials:
        own = _gram(stretch, [found[name] for name in final])
        gram += recency * own / (np.median(np.diag(own)) or 1.0)
        horizons += (stretch.end - stretch.first) / task.horizon
    errors = np.diag(gram)
    least = max(errors.min(), 1e-12 * errors.max()) or 1.0
    simplest = min((place for place, name in enumerate(final) if name in SIMPLE), key=np.diag(own).__getitem__)
    weights = simplex(gram / least, np.eye(len(final))[simplest], SHRINKAGE / max(1.0, horizons))
    return Combination(final, dict(zip(final, weights.tolist(), strict=True)), trials)


def log_pays(plain: ForecastTask, logs: ForecastTask) -> bool:
    """Whether the combination is better on held-out windows if logarithms are forecast: by MARGIN, and not by chance.

    The mean over stretches of the logarithm of the ratio of errors has to be below 0 by its standard error, too, which
    one stretch alone does not have.
    """
    if not solvable(plain):
        return False
    errors, others = (np.array(list(_errors(task))) for task in (plain, logs))
    if len(errors) < 2:
        return False
    ratios, shares = np.log((others[:, 0] + 1e-30) / (errors[:, 0] + 1e-30)), errors[:, 1] / errors[:, 1].sum()
    mean_ratio, squares = shares @ ratios, np.square(shares)
    deviation = np.sqrt(squares @ np.square(ratios - mean_ratio) / (1 - squares.sum()))
    return bool(mean_ratio < min(np.log(1 - MARGIN), -deviation))


def _errors(task: ForecastTask) -> Iterator[tuple[float, float]]:
    """The mean squared error of the combination on each held-out stretch, in the units of scores, and how it counts."""
    found = combine(task)
    for stretch, own, recency in found.trials:
        forecast = mean(list(own.values()), [found.weights[name] for name in own])
        batch = _some(stretch)
        error = task.in_units(batch["y"]) - task.in_units(forecast(batch["x"]))
        yield float(error.square().mean()), recency


def _earlier(task: ForecastTask) -> Iterator[tuple[ForecastWindows, dict[str, Forecast], float]]:
    """Stretches of the training set with members that were fitted to the rows before."""
    windows, context, horizon = task.every_train_window, task.context, task.horizon
    first = max(int(FIRST_ORIGIN * windows.end), context + 4 * horizon + 8)
    count = min(ORIGINS, (windows.end - first) // horizon)
    for k in range(count):
        begin, end = (first + (windows.end - first) * place // count for place in (k, k + 1))
        tail = max(horizon, (begin - context) // 4)  # the penalties of ridge regressions are chosen on it
        before = replace(windows, end=begin)
        parts = replace(windows, end=begin - tail), replace(windows, first=begin - tail, end=begin), before
        if all(len(part) for part in parts):
            fitted, chosen, whole = map(moments, parts)
            problem = Problem(context, horizon, fitted, chosen, whole)
            yield (
                replace(windows, first=begin, end=min(end + horizon - 1, windows.end)),
                members(task, problem, begin),
                1.0,
            )


def members(task: ForecastTask, problem: Problem, rows: int) -> dict[str, Forecast]:
    """The members, fitted to what is known of windows of so many rows."""
    context, period = task.context, task.period
    found = {"repeat-last": repeat_last(task)}
    for name, season in (("seasonal-naive", period), ("seasonal-naive, longer season", task.data.season.longer)):
        if 1 < season <= context:
            found[name] = Forecast(seasonal_map(context, task.horizon, season), np.zeros(task.horizon))
    found["nlinear"] = ridge(problem, "last", np.eye(context))
    found["dlinear"] = ridge(problem, "none", trend_and_rest(context))
    shifted = mean([ridge(problem, s, fading(context, power)) for s in ("last", "mean") for power in FADINGS])
    found["linear"] = reverting(task, problem, shifted) if problem.whole is None else shifted
    found["exponential smoothing"] = smoothing(problem, period if period <= LONGEST_SEASON else 1)
    found["autoregression"] = autoregression(problem, rows, period)
    return found


# Fits from moments


def smoothing(problem: Problem, period: int) -> Forecast:
    """Exponential smoothing of level, damped trend and season, whose parameters have the least error over the windows.

    The smoothed values are linear in the context, whatever the parameters, and so is the forecast.
    """
    context, horizon = problem.context, problem.horizon
    seen = min(context, max(4 * period + 4, 60))
    is_seasonal = period > 1 and seen >= 2 * period
    average, covariance = problem.known
    second = covariance + np.outer(average, average)
    past, future = slice(context - seen, context), slice(context, None)
    best, found = np.inf, np.zeros((horizon, seen))
    for level in SMOOTHINGS:
        for trend, damping in TRENDS:
            for seasonal in SEASONAL_SMOOTHINGS if is_seasonal else (0.0,):
                W = smoothing_map(seen, horizon, level, trend, damping, seasonal, period if is_seasonal else 1)
                error = np.sum((W @ second[past, past]) * W) - 2 * np.sum(W * second[future, past])
                if error < best:
                    best, found = error, W
    weight = np.zeros((horizon, context))
    weight[:, past] = found
    return Forecast(weight, np.zeros(horizon))


def smoothing_map(
    context: int, horizon: int, level: float, trend: float, damping: float, seasonal: float, period: int
) -> Matrix:
    """The forecast of exponential smoothing as a map (horizon, context): the recurrence, run on the unit vectors.

    The first season gives the first level and the season, and its difference to the second the first trend.
    """
    values = np.eye(context)
    start, is_seasonal = period, period > 1
    s = list(values[:period] - values[:period].mean(axis=0)) if is_seasonal else [np.zeros(context)]
    smoothed, slope = values[:period].mean(axis=0), np.zeros(context)
    span = period if is_seasonal else min(4, context // 2)
    if trend and context >= 2 * span > 0:
        slope = (values[span : 2 * span].mean(axis=0) - values[:span].mean(axis=0)) / span
    for t in range(start, context):
        expected = smoothed + damping * slope
        error = values[t] - expected - s[t % period]
        smoothed, slope = expected + level * error, damping * slope + level * trend * error
        s[t % period] = s[t % period] + seasonal * (1 - level) * error
    ahead = np.cumsum(damping ** np.arange(1, horizon + 1)) if trend else np.zeros(horizon)
    return np.stack([smoothed + ahead[k] * slope + s[(context + k) % period] for k in range(horizon)])


def autoregression(problem: Problem, rows: int, period: int) -> Forecast:
    """The autoregression, of the order with the least AICc, that forecasts one row after the other."""
    context, horizon = problem.context, problem.horizon
    average, covariance = problem.known
    orders = {1, 2, 3, 4, 6, period, period + 1, period + 2, 2 * period + 1}
    best, weight, offset = np.inf, np.zeros(1), 0.0
    for order in sorted(order for order in orders if order <= min(context, max(1, rows // 4))):
        past = slice(context - order, context)
        scale = np.trace(covariance[past, past]) / order or 1.0
        a = np.linalg.solve(covariance[past, past] + 1e-6 * scale * np.eye(order), covariance[past, context])
        variance = covariance[context, context] - 2 * a @ covariance[past, context]
        variance = max(variance + a @ covariance[past, past] @ a, 1e-12 * scale)
        free = max(1, rows - order - 3)
        criterion = rows * np.log(variance) + 2 * (order + 1) * (1 + (order + 2) / free)
        if criterion < best:
            best, weight, offset = criterion, np.asarray(a, np.float64), float(average[context] - a @ average[past])
    rolled = np.concatenate([np.eye(context)[-len(weight) :], np.zeros((len(weight), 1))], axis=1)  # and a constant
    steps = []
    for _ in range(horizon):
        step = weight @ rolled
        step[-1] += offset
        steps.append(step)
        rolled = np.concatenate([rolled[1:], step[None]])
    both = np.stack(steps)
    return Forecast(both[:, :context], both[:, context])


# Weights


def _gram(windows: ForecastWindows, forecasts: list[Forecast]) -> Matrix:
    """The mean products (members, members) of the errors of members on windows."""
    batch = _some(windows)
    known = batch.get("known", torch.ones(()))
    errors = torch.stack([((batch["y"] - forecast(batch["x"])) * known).flatten() for forecast in forecasts])
    return np.asarray((errors @ errors.T / max(1.0, float(known.expand_as(batch["y"]).sum()))).numpy())


def _some(windows: ForecastWindows) -> Batch:
    """All windows of a stretch, or of a long one some."""
    each = windows.horizon * windows.values.shape[1]
    return windows.batch(range(0, len(windows), -(-len(windows) * each // MOST_NUMBERS)))


def simplex(gram: Matrix, usual: Matrix, shrinkage: float) -> Matrix:
    """Non-negative w that sum to one with the least w^T gram w + shrinkage |w - usual|^2.

    Where w is positive, the gradient is the same everywhere: a linear system for each set of members, of which there
    are few.
    """
    H, best, found = gram + shrinkage * np.eye(len(usual)), np.inf, usual
    for chosen in itertools.product((False, True), repeat=len(usual)):
        some = np.flatnonzero(chosen)
        if not len(some):
            continue
        right = np.stack([np.ones(len(some)), shrinkage * usual[some]], axis=1)
        ones, free = np.linalg.solve(H[np.ix_(some, some)], right).T
        own = free + ones * (1 - free.sum()) / ones.sum()
        error = own @ H[np.ix_(some, some)] @ own - 2 * shrinkage * own @ usual[some]
        if error < best and (own >= 0).all():
            best, found = error, np.zeros(len(usual))
            found[some] = own
    return np.asarray(found / found.sum())
