"""Exponential smoothing and autoregressions: affine maps of the context, fitted from the moments of windows."""

import numpy as np

from longwave.tasks.forecast.baselines import Forecast, Matrix, Problem

LONGEST_SEASON = 60  # rows, of exponential smoothing: each is a state
SMOOTHINGS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 0.999)  # of the level
TRENDS = ((0.0, 0.0), (0.1, 0.9), (0.3, 0.9), (0.1, 0.98), (0.3, 0.98))  # smoothing of the trend, and its damping
SEASONAL_SMOOTHINGS = (0.05, 0.2, 0.5)


def smoothing(problem: Problem, period: int) -> Forecast:
    """Exponential smoothing of level, damped trend and season, whose parameters have the least error over the windows.

    The smoothed values are linear in the context, whatever the parameters, and so is the forecast.
    """
    context, horizon = problem.context, problem.horizon
    period = period if period <= LONGEST_SEASON else 1
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
