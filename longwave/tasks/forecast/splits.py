"""Split a custom series, or each series of a panel, by time, and choose the context."""

import numpy as np
from numpy.typing import NDArray

from longwave.tasks.forecast.benchmarks import share_borders
from longwave.tasks.forecast.panel import Panel
from longwave.tasks.forecast.series import Series
from longwave.tasks.forecast.windows import ForecastData

SHORT_CONTEXT, LONG_CONTEXT = 336, 720  # where a context that is chosen from the data lies, if there are enough rows
Counts = NDArray[np.int64]
NAME = "forecast"  # of the data, in messages and results
SHORTER = 0.1  # the share of the rows of a panel that may be in series too short for the context that is chosen


def split(series: Series, horizon: int, context: int | None, test: int = 20) -> tuple[ForecastData, int]:
    """A series with its borders, and its context: the one that is given, or one that is chosen."""
    check_sizes(1 if context is None else context, horizon)
    if isinstance(series, Panel):
        return _split_panel(series, horizon, context, test)
    data = ForecastData(NAME, series, share_borders(len(series), test), series.source)
    is_chosen = context is None
    if context is None:
        context = choose_context(data.borders[0], horizon, data.season.rows)
    rows, needed = len(series), needed_rows(context, horizon, test)
    if rows < needed:
        sizes = f"a horizon of {horizon}" if is_chosen else f"a context of {context} and a horizon of {horizon}"
        longest = min(rows // 10, data.borders[0] - (1 if is_chosen else context))
        raise ValueError(
            f"{series.source}: {rows} rows are too few to split {90 - test}/10/{test} for {sizes}: expected at least "
            f"{needed} rows"
            f"{or_horizon(longest)}"
        )
    return data, context


def choose_context(rows: int, horizon: int, period: int) -> int:
    """A context for a training set of so many rows and a season of `period` rows.

    Whole seasons: up to 336 rows or up to seven seasons, whichever is more, but at most 720 rows, and at most a third
    of what the horizon leaves of the training set, so that there are windows enough to learn from.
    """
    longest = min(max(SHORT_CONTEXT, 7 * period), LONG_CONTEXT, max(1, (rows - horizon) // 3))
    return longest - longest % period if longest >= period else longest


def needed_rows(context: int, horizon: int, test: int = 20) -> int:
    """The rows from which on training, validation and test set have a window each."""
    return max(-(-100 * (context + horizon) // (90 - test)), 10 * horizon)


def or_horizon(longest: int) -> str:
    """The end of a message: the longest horizon that would do, if one would."""
    return f", or a horizon of at most {longest}" if longest > 0 else ""


def check_sizes(context: int, horizon: int) -> None:
    """Refuse a context or horizon that is no positive whole number."""
    for name, value in (("context", context), ("horizon", horizon)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}: expected a whole number of rows, 1 or more, got {value!r}")


# Panels


def _split_panel(panel: Panel, horizon: int, context: int | None, test: int) -> tuple[ForecastData, int]:
    """The series that are long enough, with the borders of each, and the context."""
    given, train = context, _parts(panel.lengths, horizon, test)[0]
    if panel.known is not None:  # what has no known value to learn from has no scale either
        pairs = zip(panel.starts, panel.starts[:-1] + train, strict=False)
        train = np.where([panel.known[start : max(start, end)].any() for start, end in pairs], train, 0)
    kept = train >= horizon + (context or 1)
    if context is None and kept.any():
        data = _data(panel.only(kept), horizon, test)
        context = choose_context(_typical(train[kept]), horizon, data.season.rows)
        kept = train >= horizon + context
    sizes = f"a horizon of {horizon}{'' if given is None else f' and a context of {given}'}"
    context = context or 1
    lengths = np.arange(3 * (context + 3 * horizon))  # of which the last are long enough
    needed = int((_parts(lengths, horizon, test)[0] >= horizon + context).argmax())
    if not kept.any():
        longest = np.arange(len(train)) == train.argmax()
        raise ValueError(
            f"{panel.source}: no {panel.id} has enough rows for {sizes}: expected at least {needed} rows of one, and "
            f"the longest is {panel.named(longest)}; expected a shorter horizon or context, or longer series"
        )
    are = "is" if (~kept).sum() == 1 else "are"
    text = f"{(~kept).sum()} of {len(kept)} series {are} left out, with too few rows to train on ({needed})"
    return _data(panel.only(kept, f"{text}: {panel.named(~kept)}"), horizon, test), context


def _typical(rows: Counts) -> int:
    """The length of a series for which a context suits a panel: most of its rows, and half of its series, are kept."""
    rows = np.sort(rows)
    return int(min(rows[(len(rows) - 1) // 2], rows[np.searchsorted(rows.cumsum(), SHORTER * rows.sum())]))


def _parts(rows: Counts, horizon: int, test: int) -> tuple[Counts, Counts, Counts]:
    """The rows for training, validation and test: shares, but at least one horizon for the last two."""
    train, valid, end = share_borders(rows, test)
    tests = np.maximum(end - valid, horizon if test else 0)
    valids = np.maximum(valid - train, horizon)
    return rows - valids - tests, valids, tests


def _data(panel: Panel, horizon: int, test: int) -> ForecastData:
    """A panel, each of whose series is split by itself."""
    train, valid, test_rows = _parts(panel.lengths, horizon, test)
    first = panel.starts[:-1]
    borders = first + train, first + train + valid, first + train + valid + test_rows
    return ForecastData(NAME, panel, borders, panel.source)
