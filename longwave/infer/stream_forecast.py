"""Forecasts of a series as its rows come: after each of them, once there are as many as a forecast looks back on."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from longwave.data.lines import PIPE, lines
from longwave.data.series import parse
from longwave.infer.base import STREAMERS, Action, check_distinct
from longwave.infer.events import Row, Writing, note, written
from longwave.infer.forecast import Forecasts
from longwave.train.folder import RunFolder


@dataclass(frozen=True)
class Options(Writing):
    """Forecast a series as its rows come: after each row, once the context is full, the rows that follow it.

    Examples:
        tail -f prices.csv | longwave stream runs/forecast-my-seed0 --csv -
        longwave stream runs/forecast-my-seed0 --csv prices.csv --follow --every 24 --jsonl
    """

    csv: Path
    """The series, with its header, from a CSV file; - reads it from a pipe."""
    follow: bool = False
    """Go on as the file grows, until Ctrl-C, as tail -f does."""
    every: int = 1
    """Rows from one forecast to the next."""


def forecasts(run: RunFolder, options: Options) -> Iterator[Row]:
    """A row for each forecast: the time or the number of the last row that it knows, and what follows."""
    if options.every < 1:
        raise ValueError(f"--every: expected a number of rows, at least 1, got {options.every}")
    check_distinct(csv=None if options.csv == PIPE else options.csv, out=options.out)
    model = Forecasts(run, options.device)
    # Rows that repeat a time may be dropped, and a gap is filled from what stood before it: both want more than that.
    is_plain = model.reading.duplicates == "error" and model.reading.fill is None
    kept: deque[str] = deque(maxlen=model.inputs.context * (1 if is_plain else 2))
    source = "stdin" if options.csv == PIPE else str(options.csv)
    header, count, line, said = "", 0, 0, set[str]()
    for some in lines(options.csv, options.follow):
        for text in some:
            line += 1
            if not text.strip():
                continue
            if not header:
                header = text
                continue
            kept.append(text)
            count += 1
            if len(kept) < model.inputs.context or count % options.every:
                continue
            series = parse([f"{one}\n" for one in (header, *kept)], source, model.reading, line - len(kept) - 1)
            if len(series) < model.inputs.context:
                continue
            found = model(series)
            for text in found.notes:
                kind = re.sub(r"[\d.]+", "", text)  # the same in other numbers is not news
                if kind not in said:
                    said.add(kind)
                    note(text)
            known = found.known_times
            place: Row = {"row": count} if known is None else {"time": str(known[-1]).replace("T", " ")}
            yield place | {"forecast": dict(zip(found.columns, found.values.T.tolist(), strict=True))}


def _run(run: RunFolder, options: Options) -> Iterator[str]:
    return written(forecasts(run, options), options)


STREAMERS.register("forecast")(Action(Options, _run))
