"""Times of the rows of a series: common formats, the step between rows, and missing rows."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.datetime64]

# Tried in this order, after ISO 8601; QUARTER stands for a form that strptime does not know.
QUARTER = "quarter"
DATE_FORMATS = ("%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d.%m.%Y", "%Y-%m", "%Y", "%Y %b", "%b %Y", "%b-%y", QUARTER)
CLOCK_FORMATS = {0: "", 1: " %H:%M", 2: " %H:%M:%S"}  # by the number of colons; fractions of seconds may follow
TIME_EXAMPLES = "2016-07-01 13:00:00, 2016-07-01, 7/1/2016 13:00, 1.7.2016, 2016-07, 2016 Jul, 2016 Q3 or 2016-W27"
BUSINESS_DAY = np.timedelta64(1, "D")  # from Monday to Friday; all other steps are in seconds, microseconds or months
LARGER_UNITS = (
    ("microsecond", 1000, "millisecond"),
    ("millisecond", 1000, "second"),
    ("second", 60, "minute"),
    ("minute", 60, "hour"),
    ("hour", 24, "day"),
    ("month", 12, "year"),
)
UNITS = {"us": "microsecond", "s": "second", "M": "month"}
DAY = 86_400
MONTH = np.timedelta64(1, "M")
LOOKED_AT = 10  # first cells of a column, one of which shows the form of its times


def step_name(step: np.timedelta64 | None) -> str | None:
    """A step in words: "1 hour", "15 minutes", "3 months", "40 milliseconds"."""
    if step is None:
        return None
    if step.dtype == BUSINESS_DAY.dtype:
        return "1 business day"
    count = int(step.astype(np.int64))
    unit = UNITS[np.datetime_data(step.dtype)[0]]
    for smaller, factor, larger in LARGER_UNITS:
        if unit == smaller and count % factor == 0:
            count, unit = count // factor, larger
    return f"{count} {unit}" + ("s" if count != 1 else "")


def in_months(step: np.timedelta64) -> bool:
    """Whether a step counts months, not seconds."""
    return np.datetime_data(step.dtype)[0] == "M"


def season(step: np.timedelta64 | None) -> int:
    """Rows per season: a day if rows are less than a day apart, a week of days, a year of weeks or months; else 1.

    Steps with fractions of a second have none.
    """
    if step is None:
        return 1
    if step.dtype == BUSINESS_DAY.dtype:
        return 5
    if in_months(step):
        count = int(step.astype(np.int64))
        return 12 // count if 12 % count == 0 else 1
    whole = step.astype("timedelta64[s]")
    if step != whole:
        return 1
    count = int(whole.astype(np.int64))
    if count == DAY:
        return 7
    if count == 7 * DAY:
        return 52
    return DAY // count if DAY % count == 0 else 1


# Reading


def read_times(cells: Any, where: Callable[[int], str], is_even: bool = True) -> Times:
    """The times in cells, text or datetime64; `where` is what messages call a row.

    Of times that should be even, fractions of a second that are jitter do not count.
    """
    found = readings(cells)
    if not found:
        row = int(misfits(cells)[0])
        if isinstance(cells, np.ndarray) or not cells[row]:
            raise ValueError(f"{where(row)}: the time is missing")
        raise ValueError(f"{where(row)}: expected a time such as {TIME_EXAMPLES}, got {cells[row][:40]!r}")
    found = [_without_jitter(times) for times in found] if is_even else found
    # 1/2/2020 may be in January or in February: take the reading that is evenly spaced.
    return next((times for times in found if _is_even(times)), found[0])


def _forms(cell: str) -> list[str | None]:
    """The formats that fit a cell; None stands for ISO 8601."""
    clock = CLOCK_FORMATS.get(cell.count(":"), "")
    clock += ".%f" if cell.count(":") == 2 and "." in cell.rpartition(":")[2] else ""
    return [form for form in (None, *(date + clock for date in DATE_FORMATS)) if _parse([cell], form) is not None]


def readings(cells: Any) -> list[Times]:
    """The ways to read all cells as times; none if one of them is not a time."""
    if isinstance(cells, np.ndarray):
        return [] if np.isnat(cells).any() else [in_seconds(cells.astype("datetime64[us]"))]
    return [times for form in _forms(cells[0]) if (times := _parse(cells, form)) is not None]


def misfits(cells: Any) -> NDArray[np.int64]:
    """The rows that keep cells from being read as times, in the form that fits most of them."""
    if isinstance(cells, np.ndarray):
        return np.flatnonzero(np.isnat(cells))
    forms = next((forms for cell in cells[:LOOKED_AT] if (forms := _forms(cell))), ())
    found = [[row for row, cell in enumerate(cells) if _parse([cell], form) is None] for form in forms]
    return np.array(min(found, key=len, default=range(len(cells))), np.int64)


def rises(times: Times) -> bool:
    """Whether times are non-decreasing."""
    return len(times) > 1 and bool((times[1:] >= times[:-1]).all()) and bool(times[-1] > times[0])


def is_time(cell: str) -> bool:
    """Whether a cell is a time and not a number, as years and 20240131 are."""
    try:
        float(cell)
    except ValueError:
        return can_be_time(cell)
    return False


def can_be_time(cell: str) -> bool:
    """Whether a cell can be read as a time, even if it is also a number."""
    return bool(_forms(cell))


def _parse(cells: Sequence[str], form: str | None) -> Times | None:
    """The times that all the cells hold, read by one format (None: ISO 8601); None if one of them does not fit."""
    try:
        if form is None:
            read = [datetime.fromisoformat(cell) for cell in cells]
            read = [time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time for time in read]
        elif form.startswith(QUARTER):
            found = [re.fullmatch(r"(\d{4})[- ]?Q([1-4])", cell.strip()) for cell in cells]
            read = [datetime(int(match[1]), 3 * int(match[2]) - 2, 1) for match in found if match]
            if len(read) < len(found):
                return None
        else:
            read = [datetime.strptime(cell, form) for cell in cells]
    except (ValueError, OverflowError):  # before year 1 in UTC
        return None
    return in_seconds(np.array(read, dtype="datetime64[us]"))


def in_seconds(times: Times) -> Times:
    """Times as datetime64[s], or as they are if one has a fraction of a second."""
    seconds: Times = times.astype("datetime64[s]")
    return seconds if (seconds == times).all() else times


def _without_jitter(times: Times) -> Times:
    """Times as they are, or in whole seconds if fractions keep them off an even grid: 13:00:00.012, 14:00:00.009."""
    seconds: Times = times.astype("datetime64[s]")
    rise = bool((np.diff(times.astype(np.int64)) > 0).all())
    if len(times) < 2 or times.dtype == seconds.dtype or not rise:
        return times
    is_on_grid = bool((times_at(times, *spacing(times)) == times).all())
    return times if is_on_grid or not (seconds[1:] > seconds[:-1]).all() else seconds


# Spacing


def usual_gap(times: Times) -> np.timedelta64:
    """The median time from one row to the next, in microseconds."""
    return np.timedelta64(round(float(np.median(np.diff(in_microseconds(times))))), "us")


def in_microseconds(times: Times) -> NDArray[np.int64]:
    """Whole numbers of microseconds."""
    return times.astype("datetime64[us]").astype(np.int64)


def spacing(times: Times) -> tuple[np.timedelta64, NDArray[np.int64]]:
    """The most frequent step of two or more increasing times, and the steps from the first to each, rounded down."""
    numbers, months = times.astype(np.int64), times.astype("datetime64[M]")
    is_fine = times.dtype == np.dtype("datetime64[us]")
    day = DAY * 1_000_000 if is_fine else DAY
    same_place = any(
        len(np.unique(place)) == 1 for place in (times - months, (months + MONTH).astype(times.dtype) - times)
    )
    monthly = np.diff(numbers).min() >= 28 * day and same_place
    if monthly:
        numbers = months.astype(np.int64)
    lengths, counts = np.unique(np.diff(numbers), return_counts=True)
    step = int(lengths[np.argmax(counts)])
    if not monthly and step == day and _skips_weekends(times):
        return BUSINESS_DAY, np.busday_count(times[0].astype("datetime64[D]"), times.astype("datetime64[D]"))
    return np.timedelta64(step, "M" if monthly else "us" if is_fine else "s"), (numbers - numbers[0]) // step


def _skips_weekends(times: Times) -> bool:
    """Whether times are those of Mondays to Fridays, and of both sides of a weekend: prices, for example."""
    weekday = (times.astype("datetime64[D]").astype(np.int64) + 3) % 7  # 0 is a Monday
    return bool((weekday < 5).all() and (np.diff(weekday) < 0).any())


def times_at(times: Times, step: np.timedelta64, positions: NDArray[np.int64]) -> Times:
    """The times `positions` steps after times[0]."""
    if step.dtype == BUSINESS_DAY.dtype:
        first = times[0].astype("datetime64[D]")
        days: Times = np.busday_offset(first, positions).astype(times.dtype)
        return days + (times[0] - first)
    if not in_months(step):
        return times[0] + positions * step
    months = times.astype("datetime64[M]")
    wanted = months[0] + positions * step
    from_start, to_end = times - months, (months + MONTH).astype(times.dtype) - times
    last_days = bool((to_end <= np.timedelta64(DAY, "s")).all())
    if last_days or len(np.unique(from_start)) > 1:
        return wanted + MONTH - to_end[0]
    # In a month without such a day, its last one.
    day = np.timedelta64(DAY, "s")
    whole_days = np.minimum(from_start[0] // day, ((wanted + MONTH).astype(times.dtype) - wanted) // day - 1)
    return wanted + whole_days * day + from_start[0] % day


def _is_even(times: Times) -> bool:
    rising = len(times) > 1 and bool((np.diff(times.astype(np.int64)) > 0).all())
    return rising and _off_step(times, *spacing(times)) is None


def _off_step(times: Times, step: np.timedelta64, positions: NDArray[np.int64]) -> int | None:
    """The first row that is not one step after the previous one."""
    off = (np.diff(positions) != 1) | (times_at(times, step, positions) != times)[1:]
    return int(np.argmax(off)) + 1 if off.any() else None


def check_rising(times: Times, where: Callable[[int], str], repeats: bool) -> None:
    """Refuse decreasing times and, unless `repeats`, equal ones."""
    falls = np.diff(times.astype(np.int64)) < (0 if repeats else 1)
    if not falls.any():
        return
    row = int(np.argmax(falls)) + 1
    if times[row] == times[row - 1]:
        raise ValueError(
            f"{where(row)}: the time {show(times[row])} is the same as in the previous row; expected one row per "
            "time (times are read to the microsecond, and clocks that are set back repeat an hour: use UTC), or "
            "duplicates='first', 'last' or 'mean'"
        )
    raise ValueError(
        f"{where(row)}: the time {show(times[row])} comes after {show(times[row - 1])}; "
        "sort the rows by time, oldest first"
    )


def check_spacing(
    times: Times,
    step: np.timedelta64,
    positions: NDArray[np.int64],
    where: Callable[[int], str],
    may_fill: bool,
) -> int:
    """The number of missing rows; refuse times off the step, and gaps unless they may be filled."""
    row = _off_step(times, step, positions)
    if row is None:
        return 0
    missing = int(positions[-1]) + 1 - len(times)
    on_grid = bool((times_at(times, step, positions) == times).all())
    can_fill = on_grid and missing <= len(times)  # a larger gap is more likely a wrong time
    if can_fill and may_fill:
        return missing
    rows = "1 row is missing: add it" if missing == 1 else f"{missing} rows are missing: add them"
    cure = (
        f"{rows}, interpolate with fill='linear', or keep the gaps with fill='mask'"
        if can_fill
        else "correct the times"
    )
    expected = times_at(times, step, positions[row - 1 : row] + 1)[0]
    raise ValueError(
        f"{where(row)}: expected {show(expected)}, {step_name(step)} after the previous row, got {show(times[row])}; "
        f"{cure}, or use no time column (time='none'): rows are then assumed to be evenly spaced"
    )


def show(time: np.datetime64) -> str:
    """A time as text: 2016-07-01 13:00:00, or 2016-07-01 13:00:00.500."""
    text = str(time).replace("T", " ")
    return text.removesuffix("000") if "." in text else text
