"""The combination of simple forecasts that a model starts from: the one that the validation set prefers, and what
held-out rows show to be better.

Every member is an affine map of the context, shared by all columns: repeat-last, seasonal-naive, NLinear, DLinear, a
mean of ridge regressions (`linear_start`), exponential smoothing and an autoregression. So the combination is one, too,
and costs nothing to apply. All of them are fitted from the moments of windows alone.

The members are fitted to the rows before each of some origins in the training set, and forecast the stretch that
follows; then to all of the training set, and forecast the validation set, which is one more stretch. Non-negative
weights that sum to one minimise the squared error over all stretches, each in units of its least, shrunk towards the
simple forecast that has the least error on the validation set. What such weights are worth is measured on each stretch
by those that were fitted to the others. The combination departs from the simple forecast as far as that pays (see
`evidence`), and else is that one. One or two horizons cannot show what pays: if they prefer NLinear, which is rarely
far behind any other, they are believed, else the shrunk weights count.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

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
from longwave.tasks.forecast.evidence import FEWEST, paying_share, pays
from longwave.tasks.forecast.linear_start import FADINGS, fading, mean, reverting
from longwave.tasks.forecast.task import ForecastTask
from longwave.tasks.forecast.windows import ForecastWindows

ORIGINS = 4  # in the training set
FIRST_ORIGIN = 0.6  # of the training rows, which the first stretch follows
SIMPLE = ("repeat-last", "seasonal-naive", "nlinear", "dlinear")
SHRINKAGE = 1.0  # towards the best of these on the validation set, divided by the horizons that were held out
MOST_NUMBERS = 2**20  # of the errors on a stretch; of longer ones some windows are left out
SMALLEST = 1e-12  # an error, relative to others, that counts as none


@dataclass(frozen=True, eq=False)
class Combination:
    """Forecasts of members, their weights, and what they are together."""

    members: dict[str, Forecast]
    weights: dict[str, float]
    reason: str  # of these weights
    errors: Matrix  # mean squares on held-out horizons, with weights that did not see them, in the units of scores

    @property
    def forecast(self) -> Forecast:
        """The combination, as one map."""
        return mean(list(self.members.values()), list(self.weights.values()))


def combine(task: ForecastTask) -> Combination:
    """The combination for a task, whose members are fitted to its training set."""
    rest = task.anomalies
    final = members(rest, Problem.of(rest, regressors(task)), task.train.n_rows)
    stretches = [*_earlier(rest), (rest.valid, final)]
    grams = [_grams(windows, [found[name] for name in final]) for windows, found in stretches]
    errors = np.diag(grams[-1].mean(0))
    best = min((k for k, name in enumerate(final) if name in SIMPLE), key=errors.__getitem__)
    simple, chosen = np.eye(len(final))[best], list(final)[best]
    departures = [_weights([gram for gram in grams if gram is not own], simple) - simple for own in grams]
    pairs = list(zip(grams, departures, strict=True))
    products = np.concatenate([-gram[:, best] @ by for gram, by in pairs])
    squares = np.concatenate([(gram @ by) @ by for gram, by in pairs])
    share = paying_share(products, squares)
    if len(products) < FEWEST and chosen != "nlinear":
        share = 1.0
    change = share * float((share * squares - 2 * products).sum())
    change /= sum(float(gram[:, best, best].sum()) for gram in grams) or 1.0
    unseen = [
        _errors(task, windows, mean([found[name] for name in final], (simple + share * departure).tolist()))
        for (windows, found), departure in zip(stretches, departures, strict=True)
    ]
    weights = simple + share * (_weights(grams, simple) - simple)
    reason = _reason(chosen, len(products), share, change)
    return Combination(final, dict(zip(final, weights.tolist(), strict=True)), reason, np.concatenate(unseen))


def _reason(chosen: str, horizons: int, share: float, change: float) -> str:
    """Why a combination is what it is, in half a sentence."""
    best = f"{chosen} is the best simple forecast on the validation set"
    if horizons < FEWEST:
        few = f"the {horizons} held-out horizon{'s' * (horizons != 1)}"
        return f"{best}, and {few} show no more" if not share else f"{best}, which {few} leave uncertain"
    if change > -0.0005:  # which would be shown as 0.0 %
        return f"{best}, and nothing improves on it in {horizons} held-out horizons"
    return f"{best}, and the combination changes its error by {change:+.1%} in {horizons} held-out horizons"


def better(task: ForecastTask, other: ForecastTask) -> bool:
    """Whether the combination for a task is better than that for another version of it, such as in logarithms."""
    return solvable(task) and pays(task.combination.errors - other.combination.errors)


def _earlier(task: ForecastTask) -> Iterator[tuple[ForecastWindows, dict[str, Forecast]]]:
    """Parts of the training set, with members fitted to the rows before each."""
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


def _weights(grams: list[Matrix], simple: Matrix) -> Matrix:
    """The weights for stretches with these mean products of errors, each (horizons, members, members)."""
    if not grams:
        return simple
    total = sum(_in_units_of_least(gram.mean(0)) for gram in grams)
    return simplex(_in_units_of_least(np.asarray(total)), simple, SHRINKAGE / sum(map(len, grams)))


def _in_units_of_least(gram: Matrix) -> Matrix:
    """Products of errors, in units of the least mean square."""
    errors = np.diag(gram)
    return np.asarray(gram / (max(errors.min(), SMALLEST * errors.max()) or 1.0))


def _grams(windows: ForecastWindows, forecasts: list[Forecast]) -> Matrix:
    """The mean products of the errors of members on each horizon of a stretch: (horizons, members, members)."""
    some = _some(windows)
    batch = windows.batch(some)
    errors = torch.stack([batch["y"] - forecast(batch["x"], batch.get("time")) for forecast in forecasts], dim=1)
    return np.stack([each @ each.T / max(1, count) for each, count in _by_horizon(windows, some, errors, batch)])


def _errors(task: ForecastTask, windows: ForecastWindows, forecast: Forecast) -> Matrix:
    """The mean squared errors of a forecast on each horizon of a stretch, in the units of scores: (horizons,)."""
    windows = replace(windows, values=task.train.values, usual=task.train.usual)
    some = _some(windows)
    batch = windows.batch(some)
    found = forecast(batch["x"], batch.get("time")) + batch.get("usual", 0)
    y, found = (task.in_units(one, batch.get("series", 0)) for one in (batch["y"], found))
    parts = _by_horizon(windows, some, (y - found)[:, None], batch)
    return np.array([np.square(each).sum() / max(1, count) for each, count in parts])


def _some(windows: ForecastWindows) -> range:
    """The numbers of all windows of a stretch, or of a long one of some."""
    each = windows.horizon * windows.values.shape[1]
    return range(0, len(windows), -(-len(windows) * each // MOST_NUMBERS))


def _by_horizon(windows: ForecastWindows, numbers: range, errors: Tensor, batch: Batch) -> Iterator[tuple[Matrix, int]]:
    """Errors (windows, members, horizon, columns) as (members, all others) for each horizon, with how many are known.

    The windows of a series are as many blocks as its stretch has horizons.
    """
    series = windows.series_of(numbers)
    horizons = np.maximum(1, np.atleast_1d(windows.end - windows.first) // windows.horizon)
    place = np.asarray(numbers) - (windows.counts.cumsum() - windows.counts)[series]
    block = (horizons.cumsum() - horizons)[series] + place * horizons[series] // windows.counts[series]
    sizes = np.unique(block, return_counts=True)[1].tolist()
    known = batch.get("known", torch.ones((), dtype=torch.bool)).expand_as(batch["y"])
    for each, which in zip(errors.split(sizes), known.split(sizes), strict=True):
        yield (each * which[:, None]).transpose(0, 1).flatten(1).numpy(), int(which.sum())


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
