"""Forecast a series as its rows arrive, once the context is full."""

import csv
import re
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longwave.io.csv import separator
from longwave.io.rows import RowReader
from longwave.io.tail import PIPE
from longwave.io.times import show
from longwave.tasks.actions import check_distinct
from longwave.tasks.base import Action, TrainedRun
from longwave.tasks.forecast.predict import Continuation, Forecasts, PanelContinuation
from longwave.tasks.forecast.series import check_columns, parse
from longwave.tasks.row_writer import Row, Writing, check_follow, note, written


@dataclass(frozen=True)
class Options(Writing):
    """Forecast a series as its rows arrive: after each row, the rows that follow it.

    Examples:
        tail -f prices.csv | longwave stream runs/forecast-my-seed0 --csv -
        longwave stream runs/forecast-my-seed0 --csv prices.csv --follow
        longwave stream runs/forecast-my-seed0 --csv prices.csv --every 24 --jsonl
    """

    csv: Path
    """The series, with its header, from a CSV file; - reads it from a pipe."""
    every: int = 1
    """Rows from one forecast to the next."""
    level: tuple[float, ...] = ()
    """Add prediction intervals at these levels, in per cent, such as 80 95; from the errors of held-out windows."""


class Context:
    """The last rows of a series, or of one of a panel, that come row by row: as many as a forecast looks back on."""

    def __init__(self, model: Forecasts, source: str) -> None:
        self.model, self.source = model, source
        # Rows that repeat a time may be dropped, and a gap is filled from what stood before it: both want more rows.
        is_plain = model.reading.duplicates == "error" and model.reading.fill is None
        self.texts: deque[str] = deque(maxlen=model.inputs.context * (1 if is_plain else 2))
        self.header, self.line, self.count = "", 0, 0  # the last line of the file, and all its rows so far

    def add(self, header: str, text: str, line: int) -> None:
        """The next row."""
        self.texts.append(text)
        self.header, self.line, self.count = header, line, self.count + 1

    def check(self) -> None:
        """Refuse a file without the columns of the run, or with cells too many or too few."""
        if self.texts:
            check_columns(self._lines(), self.source, self.model.reading, self._skipped())

    def forecast(self) -> Continuation | PanelContinuation | None:
        """The rows that follow; none while there are too few to look back on."""
        if len(self.texts) < max(2, self.model.inputs.context):
            return None
        series = parse(self._lines(), self.source, self.model.reading, self._skipped())
        return None if len(series) < self.model.inputs.context else self.model(series)

    def _lines(self) -> list[str]:
        return [f"{text}\n" for text in (self.header, *self.texts)]

    def _skipped(self) -> int:
        """Lines of the file between the header and the first row that is kept."""
        return self.line - len(self.texts) - 1


def forecasts(run: TrainedRun, options: Options) -> Iterator[Row]:
    """A row for each forecast: the time or the number of the last row that it knows, and what follows."""
    if options.every < 1:
        raise ValueError(f"--every: expected a number of rows, at least 1, got {options.every}")
    check_follow(options, options.csv)
    check_distinct(csv=None if options.csv == PIPE else options.csv, out=options.out)
    settings: Any = run.settings
    if known := settings.future:
        raise ValueError(f"stream: forecasts need {', '.join(known)} ahead, which no stream has; use longwave predict")
    model, said = Forecasts(run, options.device, options.level, trailing=False), set[str]()
    reader = RowReader(options.csv, options.follow, options.from_start, lambda first, where: True)
    contexts: defaultdict[str, Context] = defaultdict(lambda: Context(model, reader.source))  # by id
    with reader:
        for rows in reader:
            if rows.is_new_file:
                contexts.clear()
            for text, line in zip(rows.texts, rows.lines, strict=True):
                context = contexts[_id_of(rows.header, text, model.inputs.id)]
                context.add(rows.header, text, line)
                if rows.is_past or context.count % options.every:
                    continue
                found = context.forecast()
                if found is not None:
                    _note_news(found, said)
                    yield _row(found, context.count)
            if not rows.texts:  # all that was there has been read: what is wrong with it should be said now
                for context in contexts.values():
                    context.check()
                if max((context.count for context in contexts.values()), default=0) < model.inputs.context:
                    note(f"forecasts begin at row {model.inputs.context}, when there is a full context")


def _id_of(header: str, text: str, column: str | None) -> str:
    """The series of a panel that a row belongs to; a row without one is refused when it is read."""
    if column is None:
        return ""
    names, cells = (next(csv.reader([line], delimiter=separator(header)), []) for line in (header, text))
    place = [name.strip() for name in names].index(column) if column in map(str.strip, names) else len(cells)
    return cells[place].strip() if place < len(cells) else ""


def _note_news(found: Continuation | PanelContinuation, said: set[str]) -> None:
    """Print notes on a forecast that were not printed before; other numbers do not count as new."""
    for text in found.notes:
        kind = re.sub(r"[\d.]+", "", text)
        if kind not in said:
            said.add(kind)
            note(text)


def _row(found: Continuation | PanelContinuation, count: int) -> Row:
    if isinstance(found, PanelContinuation):
        ((name, one),) = found.each.items()
        return {found.id: name} | _row(one, count)
    known = found.known_times
    place: Row = {"row": count} if known is None else {"time": show(known[-1])}
    return place | {"forecast": {name: values.tolist() for name, values in found.named.items()}}


def _run(run: TrainedRun, options: Options) -> Iterator[str]:
    return written(forecasts(run, options), options)


def stream(run: TrainedRun, **options: Any) -> Iterator[Row]:
    """The rows of `longwave stream`, with its options by keyword."""
    return forecasts(run, Options(**options))


ACTION = Action(Options, _run, stream)
