"""The linear forecast that a `Forecaster` starts from: a mean of ridge regressions.

Two things make a single one uncertain. Which shift of a window to subtract, its last value or its mean, depends on how
noisy the last value is. And how far back a window says something depends on how many windows there were to learn it
from. Both solutions, each with four beliefs about older rows, are averaged: the mean of maps that err in different ways
errs less than most of them, and no choice by a short validation set can go wrong. In the share `reversion`, the
solution of windows as they are is mixed in, whose forecasts return to the level of the training set.
"""

import numpy as np
import torch
from torch import Tensor

from longwave.models import LinearSolution
from longwave.models.base import StartShift
from longwave.tasks.forecast.baselines import Forecast, Matrix, Problem, ridge, trend_and_rest
from longwave.tasks.forecast.task import ForecastTask

FADINGS = (0.0, 0.5, 1.0, 2.0)  # powers: a row k back is believed to matter as (1 + 14 k / context)^-power
USUAL_REVERSION = 0.0  # what is believed of a series before it is seen: that it goes on from where it is,
USUAL_YEARLY_REVERSION = 0.5  # but half that it returns to the yearly cycle, if known
DOUBT = 0.2  # the standard deviation of these beliefs
FEWEST_BLOCKS = 12  # of a validation set that is asked: fewer show one season, and the next may be the opposite
MOST_WINDOWS = 2000  # of it, that are looked at


def linear_solution(task: ForecastTask, shift: StartShift, reversion: float | None = 0.0) -> LinearSolution:
    """The start for a shift of the windows, and in the share `reversion` the solution of windows as they are.

    auto: the mean over the two shifts and all beliefs. None: the share that the validation set suggests. Where the task
    subtracts the yearly cycle, all of this is about what is left.
    """
    if shift == "combined":
        found = task.combination
        one = found.forecast
        weight, bias = torch.from_numpy(one.weight), torch.from_numpy(one.bias)
        beside = _of_every_feature(task, one)
        return LinearSolution(weight, bias, members=found.weights, reason=found.reason, beside=beside)
    from longwave.tasks.forecast.combine import regressors

    task = task.anomalies
    problem = Problem.of(task, regressors(task))
    if shift == "auto":
        one = mean([ridge(problem, s, fading(task.context, power)) for s in ("last", "mean") for power in FADINGS])
    else:
        one = unshifted(problem) if shift == "none" else ridge(problem, shift, np.eye(task.context))
    if reversion != 0 and shift != "none":
        free = unshifted(problem)
        reversion = _usual_reversion(task, one, free) if reversion is None else reversion
        one = mean([one, free], [1 - reversion, reversion])
    weight, bias = torch.from_numpy(one.weight), torch.from_numpy(one.bias)
    return LinearSolution(weight, bias, reversion or 0.0, beside=_of_every_feature(task, one))


def reverting(task: ForecastTask, problem: Problem, one: Forecast) -> Forecast:
    """A forecast mixed with the one of windows as they are, in the share that the validation set suggests."""
    free = unshifted(problem)
    share = _usual_reversion(task, one, free)
    return mean([one, free], [1 - share, share])


def _usual_reversion(task: ForecastTask, one: Forecast, free: Forecast) -> float:
    usual = USUAL_YEARLY_REVERSION if task.inputs.yearly else USUAL_REVERSION
    return suggested_reversion(task, one, free, usual)


def fading(context: int, power: float) -> Matrix:
    """The rows of a context, scaled down with age, so that ridge regression gives older ones less weight."""
    back = np.arange(context)[::-1]
    return np.diag((1 + 14 * back / context) ** -power)


def mean(forecasts: list[Forecast], shares: list[float] | None = None) -> Forecast:
    """The weighted mean of linear forecasts, again a linear forecast."""
    given = shares or [1 / len(forecasts)] * len(forecasts)
    pairs = list(zip(given, forecasts, strict=True))
    weight, bias = (np.asarray(sum(s * getattr(f, name) for s, f in pairs)) for name in ("weight", "bias"))
    beside = [s * f.beside for s, f in pairs if f.beside is not None]
    places = next((f.places for f in forecasts if f.places is not None), None)
    return Forecast(weight, bias, beside=np.asarray(sum(beside)) if beside else None, places=places)


def _of_every_feature(task: ForecastTask, one: Forecast) -> Tensor | None:
    """The weights of columns beside the target (horizon, context + horizon, features), 0 for what is no regressor."""
    if one.beside is None:
        return None
    shape = (task.horizon, task.context + task.horizon, task.train.time.shape[1])
    found = torch.zeros(shape, dtype=torch.float64)
    found.flatten(1)[:, torch.from_numpy(one.places)] = torch.from_numpy(one.beside)
    return found


def unshifted(problem: Problem) -> Forecast:
    """The better on the validation set of the solution of the values and of DLinear's."""
    found = (
        ridge(problem, "none", features) for features in (np.eye(problem.context), trend_and_rest(problem.context))
    )
    return min(found, key=lambda forecast: forecast.error or 0.0)


def suggested_reversion(task: ForecastTask, shifted: Forecast, free: Forecast, usual: float) -> float:
    """The share of the second forecast in a mean of the two: what the validation set has best, as far as it can tell.

    A forecast from shifted windows follows the level of a series, one from windows as they are returns to the level of
    the training set. Which is better can turn with the season, and the mean of both is safer than either. The best
    share on the validation set is a slope, that of the first one's error on the difference of the two; its standard
    error is over blocks as long as the horizon, since neighbouring windows share nearly all of their rows. It is
    averaged with the usual share, each weighted by its certainty; if there are few blocks, the usual one is taken.
    """
    windows = len(task.valid)
    blocks = windows // task.horizon
    if blocks < FEWEST_BLOCKS:
        return usual
    stride = -(-windows // MOST_WINDOWS)
    products, squares = [], []
    for some in torch.arange(0, windows, stride).split(64):
        batch = task.valid.batch(some.tolist())
        first = shifted(batch["x"], batch.get("time"))
        change = (free(batch["x"], batch.get("time")) - first) * batch.get(
            "known", torch.ones(())
        )  # nothing where nothing is known
        products.append(((batch["y"] - first) * change).sum((1, 2)))
        squares.append(change.square().sum((1, 2)))
    return certain_share(torch.cat(products).numpy(), torch.cat(squares).numpy(), blocks, DOUBT, usual)


def certain_share(products: Matrix, squares: Matrix, blocks: int, doubt: float, usual: float = 0.0) -> float:
    """The share of a change that has the least squared error, as far as some windows can tell.

    `products` of error and change and `squares` of the change are those of each window. The best share is a slope; its
    standard error is over blocks as long as the horizon. It is averaged with the usual share, of which `doubt` is the
    standard deviation, each weighted by its certainty.
    """
    if blocks < 2 or not squares.sum() > 0:  # or the two are the same
        return usual
    parts = min(blocks, len(products))
    xy, xx = (np.array([block.sum() for block in np.array_split(values, parts)]) for values in (products, squares))
    best = xy.sum() / xx.sum()
    variance = np.square(xy - best * xx).sum() * parts / (parts - 1) / xx.sum() ** 2
    trust = doubt**2 / (doubt**2 + variance)
    return float(np.clip(usual + trust * (best - usual), 0, 1))
