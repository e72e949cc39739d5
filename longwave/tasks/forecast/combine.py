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
from longwave.tasks.forecast import classical
from longwave.tasks.forecast.baselines import (
    Forecast,
    Matrix,
    Places,
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
    places = regressors(task)
    final = members(task, Problem.of(task, places), task.train.n_rows)
    trials = [*_earlier(task), (task.valid, final, RECENT)]
    gram, horizons = np.zeros((len(final), len(final))), 0.0
    for stretch, found, recency in trials:
        own = _gram(stretch, [found[name] for name in final])
        gram += recency * own / (np.median(np.diag(own)) or 1.0)
        horizons += float(np.sum(stretch.end - stretch.first)) / task.horizon
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
    combined = combine(task)
    for stretch, own, recency in combined.trials:
        forecast = mean(list(own.values()), [combined.weights[name] for name in own])
        batch = _some(stretch)
        truth, found = (
            task.in_units(y, batch.get("series", 0)) for y in (batch["y"], forecast(batch["x"], batch.get("time")))
        )
        error = truth - found
        yield float(error.square().mean()), recency


def _earlier(task: ForecastTask) -> Iterator[tuple[ForecastWindows, dict[str, Forecast], float]]:
    """Stretches of the training set with members that were fitted to the rows before."""
    windows, context, horizon = task.every_train_window, task.context, task.horizon
    start = windows.first - context
    rows = windows.end - start
    first = start + np.minimum(np.maximum(np.int64(FIRST_ORIGIN * rows), context + 4 * horizon + 8), rows)
    count = min(ORIGINS, int(np.max((windows.end - first) // horizon)))
    for k in range(count):
        begin, end = (first + (windows.end - first) * place // count for place in (k, k + 1))
        tail = np.maximum(horizon, (begin - start - context) // 4)  # penalties of ridge regressions are chosen on it
        cut = np.maximum(begin - tail, windows.first)
        before = replace(windows, end=begin)
        parts = replace(windows, end=cut), replace(windows, first=cut, end=begin), before
        if all(len(part) for part in parts):
            places = regressors(task)
            fitted, chosen, whole = (moments(part, places) for part in parts)
            problem = Problem(context, horizon, fitted, chosen, whole, places)
            yield (
                replace(windows, first=begin, end=np.minimum(end + horizon - 1, windows.end)),
                members(task, problem, before.n_rows),
                1.0,
            )


def regressors(task: ForecastTask) -> Places | None:
    """The places of the features of columns beside the target that linear members regress on, in a window."""
    if task.covariates is None:
        return None
    times = task.train.time.shape[1] - len(task.covariates.roles)  # features of the time come first, and are none
    rows, features = np.divmod(task.covariates.regressors(task.context, task.horizon), len(task.covariates.roles))
    return np.asarray(rows * task.train.time.shape[1] + times + features)


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
    if problem.places is not None:
        found["nlinear, the target alone"] = ridge(problem.alone, "last", np.eye(context))
    found["exponential smoothing"] = classical.smoothing(problem.alone, period)
    found["autoregression"] = classical.autoregression(problem.alone, rows, period)
    return found


# Weights


def _gram(windows: ForecastWindows, forecasts: list[Forecast]) -> Matrix:
    """The mean products (members, members) of the errors of members on windows."""
    batch = _some(windows)
    known = batch.get("known", torch.ones(()))
    errors = torch.stack(
        [((batch["y"] - forecast(batch["x"], batch.get("time"))) * known).flatten() for forecast in forecasts]
    )
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
