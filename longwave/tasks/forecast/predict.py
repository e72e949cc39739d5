"""Forecasts of new data: the rows that follow a series."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longwave.core.settings import typed
from longwave.pictures.style import check_path
from longwave.tasks.actions import OnDevice, check_distinct, check_kind, written
from longwave.tasks.base import Action, Batch, TrainedRun
from longwave.tasks.forecast.benchmarks import SETS
from longwave.tasks.forecast.covariates import Covariates, check_static, read_ahead
from longwave.tasks.forecast.intervals import AT_ONCE, Interval, Intervals, Residuals, forecasts_of
from longwave.tasks.forecast.panel import Panel, summarised
from longwave.tasks.forecast.plots import draw_continuation
from longwave.tasks.forecast.scales import Scales
from longwave.tasks.forecast.series import Ahead, Reading, Series, read_series
from longwave.tasks.forecast.tables import write_table
from longwave.tasks.forecast.windows import ForecastInput


@dataclass(frozen=True)
class Continuation:
    """A forecast of the rows after a series: values (horizon, columns), in the units of the series."""

    columns: tuple[str, ...]
    target: str
    known: Any  # (context, columns), the rows before; NaN where a value is missing
    known_times: Any  # datetime64 or None
    values: Any
    times: Any
    notes: tuple[str, ...] = ()
    time: str | None = None  # the name of the time column
    intervals: tuple[Interval, ...] = ()  # of the levels that were asked for, the lowest first

    def __len__(self) -> int:
        return len(self.values)

    @property
    def named(self) -> dict[str, Any]:
        """The columns (horizon,) of the forecast by name, and after them the ends of intervals, as price-lo-95."""
        found = dict(zip(self.columns, self.values.T, strict=True))
        for k, name in enumerate(self.columns):
            for level, low, high in self.intervals:
                found |= {f"{name}-lo-{level:g}": low[:, k], f"{name}-hi-{level:g}": high[:, k]}
        return found

    @property
    def table(self) -> dict[str, Any]:
        """The columns of a file: the times, if there are any, and those of `named`."""
        return ({} if self.times is None else {self.time or "time": self.times}) | self.named

    @property
    def lines(self) -> list[tuple[str, "Continuation", int]]:
        """The lines to draw, target first: names, and the columns of this forecast."""
        order = sorted(range(len(self.columns)), key=lambda k: self.columns[k] != self.target)
        return [(self.columns[k], self, k) for k in order]

    def write(self, path: str | Path) -> None:
        """Write the forecast as CSV, atomically."""
        write_table(path, self.table)


@dataclass(frozen=True)
class PanelContinuation:
    """The forecasts of a panel, by id: `found["store 7"]` is one; `len` counts all rows."""

    id: str  # the column that tells them apart
    each: dict[str, Continuation]  # by id
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Continuation:
        return self.each[name]

    def __len__(self) -> int:
        return sum(map(len, self.each.values()))

    @property
    def table(self) -> dict[str, list[Any]]:
        """All rows of all series, by column: id, time, and those of `Continuation.named`."""
        tables = [one.table for one in self.each.values()]
        ids = [name for name, one in self.each.items() for _ in one.values]
        return {self.id: ids} | {name: [cell for one in tables for cell in one[name]] for name in tables[0]}

    @property
    def lines(self) -> list[tuple[str, Continuation, int]]:
        """The lines to draw: names, and the target of each series."""
        return [(f"{name}: {one.target}", one, one.columns.index(one.target)) for name, one in self.each.items()]

    def write(self, path: str | Path) -> None:
        """Write the forecasts as CSV, atomically."""
        write_table(path, self.table)


def forecast(
    run: TrainedRun, new: Any, *, future: Any = None, level: Any = None, device: str = "auto"
) -> Continuation | PanelContinuation:
    """Forecast the rows after the last of a CSV file, data frame or array, with the best weights of a run.

    `level=[80, 95]` adds the intervals of these levels, in per cent. A run on many series forecasts each, by its id.
    `future` has the columns that are known ahead, of the rows to forecast, if the run was trained with such columns. Of
    rows at irregular times it may also say when they are; else they follow in usual gaps.
    """
    forecasts = Forecasts(run, device, level)
    return forecasts(read_series(new, **vars(forecasts.reading)), future)


class Forecasts:
    """The best weights of a run, ready to forecast any number of series.

    The intervals of `level` are made of the errors in new rows, unless `trailing` is off, and of held-out windows.
    """

    def __init__(self, run: TrainedRun, device: str, level: Any = None, *, trailing: bool = True) -> None:
        settings: Any = run.settings
        check_kind(run, "predict", ACTION, "forecasts")
        self.settings = settings
        self.inputs = inputs = run.fact("inputs", ForecastInput.from_dict)
        self.range = run.fact("range", inputs.per_column)
        time = SETS[settings.data].time if settings.csv is None and settings.data in SETS else settings.time
        if time is None:
            # The one that was found in training.
            time = run.fact("time_column", lambda name: typed(name, str | None, "a name"))
        self.covariates: Covariates | None = None
        if "covariates" in run.facts:
            self.covariates = run.fact("covariates", Covariates.from_plain)
        self.reading = Reading(
            target=inputs.target,
            time=time,
            multivariate=settings.multivariate,
            fill=settings.fill,
            columns=inputs.columns,
            duplicates=settings.duplicates,
            id=inputs.id,
            beside={one.name: one.known for one in self.covariates.each} if self.covariates else {},
            categories=self.covariates.categories if self.covariates else (),
            irregular=settings.irregular,
        )
        source = str(run.path / Scales.FILE)
        self.scales = Scales.from_bytes(run.artifact(Scales.FILE), source) if inputs.by_series else None
        self.intervals, self._trailing = Intervals(run, inputs, level), trailing
        self._run, self._device = run, device

    @functools.cached_property
    def call(self) -> Callable[[Batch], Tensor]:
        """The model as a forecast of batches; its weights are loaded at the first."""
        return forecasts_of(self._run.load_best(self._device), self.settings.independent, self.inputs.horizon)

    def __call__(
        self,
        series: Series,
        future: Any = None,
        ahead: Mapping[str, Ahead] | None = None,
        held_out: Residuals | None = None,
    ) -> Continuation | PanelContinuation:
        """The forecast of the rows that follow the last of a series, or of each series of a panel.

        `future` is a file or a data frame with what is known of these rows; `ahead` has it by the id of a series, and
        only those series are forecast. Intervals are made of the errors `held_out` in place of those of the run, as far
        as they suffice.
        """
        if not isinstance(series, Panel):
            found, notes = self._all([("", series)], series, self._ahead(series, future))
            return replace(found[""], notes=(*found[""].notes, *notes))
        rows, kept = self.inputs.context, series.lengths >= self.inputs.context
        if series.known is not None:
            kept &= [bool(series.known[max(start, end - rows) : end].any()) for start, end in pairwise(series.starts)]
        if not kept.any():
            longest = series.named(series.lengths == series.lengths.max())
            raise ValueError(
                f"{series.source}: expected at least one {series.id} with {rows} known rows of context, got {longest}"
            )
        text = f"{(~kept).sum()} of {len(kept)} series not forecast, having fewer than {rows} known rows of context"
        series = series.only(kept, f"{text}: {series.named(~kept)}")
        ahead = self._ahead(series, future) if ahead is None else ahead
        each = [(name, one) for name, one in series.each() if not ahead or name in ahead]
        if not each:
            return PanelContinuation(series.id, {}, series.notes)
        found, notes = self._all(each, series, ahead, held_out)
        own = summarised((name, one.notes) for name, one in found.items())
        return PanelContinuation(series.id, found, (*series.notes, *self._unseen(series), *own, *notes))

    def _unseen(self, series: Panel) -> Iterator[str]:
        """A note on the series that were not trained on, if they are scaled by their own rows."""
        unseen = np.array([self.scales is not None and name not in self.scales.places for name in series.ids])
        if unseen.any():
            named = series.named(unseen)
            was, is_ = ("was", "is") if unseen.sum() == 1 else ("were", "are")
            yield f"{unseen.sum()} series {was} not trained on, and {is_} scaled by the rows that are given: {named}"

    def _ahead(self, series: Series, future: Any) -> dict[str, Ahead]:
        """Known covariates of the rows to forecast, by id; empty if none are needed."""
        names = self.covariates.names("future") if self.covariates else ()
        if names and future is None:
            raise ValueError(
                f"future: this run was trained with columns that are known ahead, {', '.join(names)}; expected them "
                f"for the {self.inputs.horizon} rows to forecast (--future-csv FILE; future= in Python)"
            )
        is_needed = bool(names) or (self.reading.irregular and future is not None)
        if not is_needed and future is not None:
            raise ValueError("future: this run was trained without columns that are known ahead; leave it out")
        return read_ahead(future, self.reading, names, series, self.inputs.horizon) if is_needed else {}

    def _all(
        self,
        each: Sequence[tuple[str, Series]],
        whole: Series,
        ahead: Mapping[str, Ahead],
        held_out: Residuals | None = None,
    ) -> tuple[dict[str, Continuation], Sequence[str]]:
        """Forecasts for each of some series of the whole, and notes on all of them."""
        scales = self.scales
        gaps = [tuple(_gaps_in_context(one, self.inputs)) for _, one in each]
        own = [scales.inputs_of(self.inputs, name, one) if scales else self.inputs for name, one in each]
        batches, futures = zip(
            *(
                inputs.continuation(one, ahead[name].times if ahead else None)
                for inputs, (name, one) in zip(own, each, strict=True)
            ),
            strict=True,
        )
        batch = {name: torch.cat([one[name] for one in batches]) for name in batches[0]}
        if self.covariates is not None:
            check_static(whole, self.covariates.names("static"))
            features, beside = self._beside(self.covariates, each, ahead)
            batch["time"] = torch.cat((batch["time"], features), dim=2) if "time" in batch else features
            gaps = [(*one, *more) for one, more in zip(gaps, beside, strict=True)]
        parts = [
            {name: values[k : k + AT_ONCE] for name, values in batch.items()} for k in range(0, len(each), AT_ONCE)
        ]
        found = torch.cat([self.call(part) for part in parts])
        if not found.isfinite().all():
            source = each[int(found.isfinite().flatten(1).all(1).int().argmin())][1].source
            raise ValueError(f"{source}: the model output is NaN or inf; the values are too far from those of training")
        intervals = self.intervals if held_out is None else self.intervals.of(held_out)
        halves, notes = self._half_widths(intervals, whole)
        places = {name: k for k, name in enumerate(whole.ids)} if isinstance(whole, Panel) else {}
        continuations = {}
        for k, ((name, series), inputs, y) in enumerate(zip(each, own, found.double().numpy(), strict=True)):
            order = [series.columns.index(column) for column in inputs.columns]
            own_halves = halves if halves is None or not places else halves[..., [places[name]]]
            around = () if own_halves is None else intervals.around(y, own_halves, inputs)
            continuations[name] = Continuation(
                columns=inputs.columns,
                target=inputs.target,
                known=series.given[-inputs.context :, order],
                known_times=None if series.times is None else series.times[-inputs.context :],
                values=inputs.restore(y),
                times=futures[k],
                notes=(*series.notes, *gaps[k], *_unlike_training(series, inputs, self.range)),
                time=self.reading.time,
                intervals=around,
            )
        return continuations, notes

    def _beside(
        self, covariates: Covariates, each: Sequence[tuple[str, Series]], ahead: Mapping[str, Ahead]
    ) -> tuple[Tensor, list[tuple[str, ...]]]:
        """The features of columns beside the target, for each window, and notes on them."""
        windows, notes = [], []
        for name, one in each:
            later = ahead[name].cells if ahead else {}
            windows.append(covariates.window(one, later, self.inputs.context, self.inputs.horizon))
            cells = {n: np.concatenate((c, later.get(n, c[:0]))) for n, c in one.beside.items()}
            notes.append(tuple(covariates.unseen(cells)))
        return torch.from_numpy(np.stack(windows)), notes

    def _half_widths(self, intervals: Intervals, series: Series) -> tuple[Any, Sequence[str]]:
        """Half-widths of the intervals of forecasts for a series or a panel, and notes on them."""
        if not intervals.levels:
            return None, ()
        ids = series.ids if isinstance(series, Panel) else ()
        new = np.zeros((0, self.inputs.horizon, len(ids) or len(self.inputs.columns)), np.float32)
        if self._trailing:
            new = intervals.trailing(series, self.call, self.scales, self.covariates)
        return intervals.half_widths(new, ids)


def _gaps_in_context(series: Series, inputs: ForecastInput) -> Iterator[str]:
    """Notes on what is missing from the context; a target of which nothing is known there is refused."""
    if series.known is None:
        return
    rows = inputs.context
    counts = dict(zip(series.columns, series.known[-rows:].sum(axis=0).tolist(), strict=True))
    if not counts[inputs.target]:
        raise ValueError(
            f"{series.source}: column {inputs.target!r}: no known value in its last {rows} rows, the context; expected "
            "at least one"
        )
    if missing := sum(rows - counts[name] for name in inputs.columns):
        yield f"{missing} of the {rows * len(inputs.columns)} values of the context are missing"
    for name in inputs.columns:
        if not counts[name]:
            yield f"column {name!r} has no known value in the context; its forecast is unreliable"


def _unlike_training(series: Series, inputs: ForecastInput, trained: Any) -> Iterator[str]:
    """A note for each column most of whose context lies outside the values of training."""
    low_of, high_of = inputs.restore(trained) if inputs.by_series else trained  # series of a panel are standardised
    for k, name in enumerate(inputs.columns):
        low, high = low_of[k], high_of[k]
        values = series.given[-inputs.context :, series.columns.index(name)]
        values = values[~np.isnan(values)]
        outside = int(((values < low) | (values > high)).sum())
        if 2 * outside > len(values):
            yield (
                f"column {name!r}: {outside} of the {len(values)} values of the context lie outside the range of "
                f"training: they range from {values.min():.6g} to {values.max():.6g}, and in training from "
                f"{low:.6g} to {high:.6g}; the forecast is unreliable"
            )


@dataclass(frozen=True)
class Options(OnDevice):
    """Forecast the rows that follow a series, and draw them.

    Example: longwave predict runs/forecast-my-seed0 --csv new.csv --out forecast.csv --level 80 95
    """

    csv: Path
    """The series so far, with the columns of the training series."""
    out: Path = Path("forecast.csv")
    """Where to write the forecast."""
    picture: Path | None = None
    """Picture to write; by default a PNG beside `out`."""
    level: tuple[float, ...] = ()
    """Add prediction intervals at these levels, in per cent, such as 80 95."""
    future_csv: Path | None = None
    """Values of the --future columns of training, for the rows to forecast; for a run on irregular times, also the
    times of these rows."""


def _predict(run: TrainedRun, options: Options) -> Iterator[str]:
    picture = options.picture or options.out.with_suffix(".png")
    check_distinct(csv=options.csv, out=options.out, picture=picture)
    check_distinct(future_csv=options.future_csv, out=options.out, picture=picture)
    check_path(picture)
    found = forecast(run, options.csv, future=options.future_csv, level=options.level, device=options.device)
    draw_continuation(found, picture)
    yield from written(found, options.out)
    yield f"picture: {picture}\n"


ACTION = Action(Options, _predict, forecast)
