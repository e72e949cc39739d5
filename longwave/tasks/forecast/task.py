"""Forecasting by Informer's protocol: standardised columns, every window at stride 1, MSE and MAE over all of them.

A window has `context` rows that are given and `horizon` rows to forecast. As in the paper (fig:s4-architecture), the
model sees both as one sequence, in which the rows to forecast are masked by zeros, and answers in their place.

A split (train, valid, test) owns the rows that its windows forecast; a window of valid or test takes its context from
the rows before, even if they belong to the split before.
"""

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from longwave.core.registry import nearest
from longwave.io.download import catalogue
from longwave.io.times import in_microseconds, step_name
from longwave.models import ForecasterConfig, LinearSolution, ModelConfig, Spec
from longwave.models.base import StartShift
from longwave.tasks.base import TASKS, Adapted, Baselines, Batch, Conclusion, OnData, Outcome, Task, TaskConfig, call
from longwave.tasks.forecast import yearly
from longwave.tasks.forecast.benchmarks import PAPER, SETS, Features
from longwave.tasks.forecast.evidence import paying_share
from longwave.tasks.forecast.panel import Panel, rows_of
from longwave.tasks.forecast.scales import Scales, standard_values
from longwave.tasks.forecast.series import Duplicates, Fill, Series, read_series, to_csv
from longwave.tasks.forecast.splits import check_sizes, choose_context, or_horizon, split
from longwave.tasks.forecast.windows import STAMPS, ForecastData, ForecastInput, ForecastWindows
from longwave.tasks.statistics import digest

CONTEXT = 384  # the authors' default
ROWS_AT_ONCE = 2048  # that a model is given in one call, where each column is a row of its own
MOST_CALIBRATING = 2000  # validation windows that decide the share of a deep model's correction
ROWS_COUNT = "baselines and the linear part of a forecast ignore the time between rows"
MOST_UNITS = 16  # per row: above, S4D goes row by row (ssm.irregular.MOST_STEPS)
FEWEST_YEARS = 2.0  # of a training set that are believed to show what is usual in a year


def load(
    name: str,
    features: Features = "S",
    horizon: int = 720,
    context: int | None = CONTEXT,
    data_dir: str | os.PathLike[str] | None = None,
) -> "ForecastTask":
    """A public data set as a task; its file is looked for in `data_dir`, else $LONGWAVE_DATA, else the user's cache.

    ETTh1 comes with the package, for when the folder does not have it.
    """
    if name not in SETS:
        raise ValueError(f"name: unknown forecasting set {name!r}; {nearest(name, SETS)}")
    if features not in ("S", "M"):
        raise ValueError(f"features: expected 'S' (univariate) or 'M' (multivariate), got {features!r}")
    chosen = SETS[name]
    path, origin = _find(name, data_dir)
    series = read_series(path, chosen.target, chosen.time, multivariate=features == "M")
    data = ForecastData(name, series, chosen.borders(len(series)), origin)
    label = f"{name}-{horizon}" + ("" if features == "S" else "-m")
    return make_task(data, context, horizon, name=label, paper=PAPER.get((name, features, horizon)))


def custom(
    series: Series,
    horizon: int,
    context: int | None = CONTEXT,
    test: int = 20,
    log: bool = False,
    by_series: bool = True,
) -> "ForecastTask":
    """A custom series as a task: the last rows, `test` per cent, to test, 10 % to validate, and the others to train.

    Each series of a panel is split alone, and with `by_series` standardised alone.
    """
    data, context = split(series, horizon, context, test)
    return make_task(data, context, horizon, log=log, by_series=by_series)


@dataclass(frozen=True, kw_only=True)
class ForecastTask(Task):
    """Forecast `horizon` rows from `context` rows. An output may cover the horizon, or the window that ends with it."""

    report_module: ClassVar[str | None] = "longwave.tasks.forecast.report"

    train: ForecastWindows
    valid: ForecastWindows
    test: ForecastWindows
    context: int
    horizon: int
    data: ForecastData
    inputs: ForecastInput
    time_features: bool = True  # whether models see them
    independent: bool = False  # whether each column is a series of its own to the model, which sees no other
    period: int = 1  # rows of a season
    goal: str = "mse"
    level: tuple[float, ...] = (80.0, 95.0)  # of the intervals that are scored, in per cent
    scales: Scales | None = None  # of the series of a panel, each of which has its own
    covariates: Any = None  # the columns beside the target (see `covariates.Covariates`)
    residuals: Any = None  # the errors of held-out windows (see `intervals.Residuals`), once a model is trained

    @property
    def spec(self) -> Spec:
        """All columns in and out, or one if they are independent, and the steps to forecast."""
        from longwave.tasks.forecast.baselines import solvable

        columns = 1 if self.independent else len(self.inputs.columns)
        time_size = self.train.time.shape[1] if self.time_features or self.covariates else 0
        return Spec(
            input_size=columns,
            output_size=columns,
            time_size=time_size,
            is_regressed=self.covariates is not None,
            is_irregular=self.train.gaps is not None,
            stamps=tuple(STAMPS.values())[:time_size] if self.inputs.stamps else (),
            horizon=self.horizon,
            length=self.context + self.horizon,
            decoders=("forecast", "sequence"),
            linear=functools.cache(self.linear) if solvable(self) else None,
        )

    def linear(self, shift: StartShift, reversion: float | None = 0.0) -> LinearSolution:
        """The linear forecast of a shift of the windows, mixed with the one without a shift.

        The reversion is the latter's share; None: what the validation set suggests.
        """
        from longwave.tasks.forecast.linear_start import linear_solution

        return linear_solution(self, shift, reversion)

    def for_model(self, model: ModelConfig) -> Adapted:
        """Adapt to a model that leaves the share of its correction open: choose it on the validation set."""
        adapted = super().for_model(model)
        if not isinstance(model, ForecasterConfig) or model.trust is not None or not model.n_layers:
            return adapted
        return adapted._replace(calibrate=self._choose_share)

    def _choose_share(self, model: Any, batches: Callable[[int], Iterator[Batch]]) -> None:
        """Choose the share of the correction that lowers the validation error, which may be 0."""
        products, squares = [], []
        with torch.no_grad():
            for batch in batches(MOST_CALIBRATING):
                one, all_of_it = (
                    forecast(part, batch, self.independent, self.horizon)
                    for part in (model.uncorrected, model.corrected)
                )
                change = all_of_it - one
                products.append((self._error(one, batch) * -change).double().sum((1, 2)).cpu())
                squares.append((self._error(change + batch["y"], batch) * change).double().sum((1, 2)).cpu())
        each = torch.stack((torch.cat(products), torch.cat(squares)))
        blocks = max(1, min(len(self.valid) // self.horizon, each.shape[1]))
        means = torch.stack([block.mean(1) for block in each.tensor_split(blocks, dim=1)], dim=1)
        model.share.fill_(paying_share(*means.numpy()))

    @functools.cached_property
    def combination(self) -> Any:
        """The combination of simple forecasts that fits the task best (see `combine`)."""
        from longwave.tasks.forecast.combine import combine

        return combine(self)

    @property
    def plain(self) -> "ForecastTask":
        """The task without logarithms and yearly cycle, on windows of the values themselves, for baselines."""
        if self.inputs.log:
            return make_task(self.data, self.context, self.horizon, by_series=self.inputs.by_series)
        return self._with(usual=None)

    def in_units(self, y: Tensor, series: Tensor | int = 0) -> Tensor:
        """Values as scores compare them: those of the series, standardised, also where the model sees logarithms.

        Of a panel, `series` are the numbers of the series that the values are of.
        """
        if not self.inputs.log:
            return y
        mean, deviation, centre, spread = self._units[:, 0 if self.scales is None else series]
        return ((y.double() * deviation + mean).exp() - centre) / spread

    def inputs_of(self, series: int) -> ForecastInput:
        """The model's input facts for a series of a panel, by its number."""
        if self.scales is None:
            return self.inputs
        return self.scales.inputs_of(self.inputs, self.scales.ids[series], self.data.series)

    @functools.cached_property
    def _units(self) -> Tensor:
        """Mean and deviation of the logarithms, and of the values, of each series with a scale of its own."""
        values, scale = self.data.series.values, self.inputs if self.scales is None else self.scales
        own = [values[self.data.train_rows]]
        if self.scales is not None:
            own = [values[start:end] for start, end in zip(self.data.starts, self.data.borders[0], strict=True)]
        raw = [one.mean() for one in own], [one.std() or 1.0 for one in own]
        return torch.from_numpy(np.array([scale.mean, scale.deviation, *raw]))

    @property
    def anomalies(self) -> Self:
        """The task on anomalies: values minus the yearly cycle."""
        usual = self.train.usual
        return self if usual is None else self._with(values=self.train.values - usual, usual=None)

    def _with(self, **changes: Any) -> Self:
        """Copy with other windows."""
        train, valid, test = (replace(windows, **changes) for windows in (self.train, self.valid, self.test))
        return replace(self, train=train, valid=valid, test=test)

    def with_year(self) -> Self:
        """Subtract the yearly cycle of the training set for the model."""
        series, rows, end = self.data.series, self.data.train_rows, len(self.train.values)
        assert series.times is not None
        known = None if series.known is None else series.known[rows]
        course = yearly.fit(self.train.values[rows].numpy(), series.times[rows], known)
        inputs = replace(self.inputs, yearly=tuple(course.ravel().tolist()))
        usual = torch.from_numpy(np.asarray(inputs.usual(series.times[:end]), np.float32))
        seen = self.data.train_years
        note = f"the yearly cycle, estimated from {seen:.1f} years of training data, is subtracted before forecasting"
        return replace(self._with(usual=usual), inputs=inputs, notes=(*self.notes, note))

    def with_stamps(self) -> Self:
        """Replace time features by time stamps."""
        times = self.data.series.times
        if times is None:
            raise ValueError("time_stamps: expected times, got a series without; set time_stamps to False")
        inputs = replace(self.inputs, stamps=True)
        rows = len(self.train.values)
        return replace(self._with(time=torch.from_numpy(inputs.time(times[:rows], rows))), inputs=inputs)

    def with_covariates(self, past: tuple[str, ...], future: tuple[str, ...], static: tuple[str, ...]) -> Self:
        """Add covariates as features of the steps of a window, after those of the time."""
        from longwave.tasks.forecast.covariates import Covariates, check_static

        series = self.data.series
        check_static(series, static)
        found = Covariates.of(self.data, past, future, static)
        inputs = self.inputs if self.time_features else replace(self.inputs, time_size=0)
        time, rows = self.train.time[:, : inputs.time_size], len(self.train.values)
        features = torch.from_numpy(found.features(series.beside)[:rows])
        windows = self._with(time=torch.cat((time, features), dim=1), ahead=found.ahead(time.shape[1]))
        return replace(windows, covariates=found, inputs=inputs)

    @property
    def every_train_window(self) -> ForecastWindows:
        """The training set at stride 1, all columns together."""
        return replace(self.train, stride=1, offset=0, single=False)

    def train_at(self, epoch: int, seed: int) -> ForecastWindows:
        """The training set of an epoch; with a stride, each epoch begins at another row, and so sees other windows."""
        return replace(self.train, offset=epoch % self.train.stride)

    def outcome(self, model: Any, batch: Batch) -> Outcome:
        """Squared errors; MSE and MAE on the standardised values, over all horizons and columns, as far as known."""
        output = forecast(model, batch, self.independent, self.horizon)
        error, count = self._error(output, batch), self.count(batch)
        squares = error.square().sum()
        if self.inputs.log:
            y, found = (self.in_units(one, batch.get("series", 0)) for one in (batch["y"], output.detach()))
            error = self._error(found, batch | {"y": y})
        scores = {"mse": (error.detach().square().sum(), count), "mae": (error.detach().abs().sum(), count)}
        return Outcome(squares, scores)

    def count(self, batch: Batch) -> int:
        """Known values to forecast."""
        return int(batch["known"].sum()) if "known" in batch else batch["y"].numel()

    def baselines(self) -> Baselines:
        """The scores of `baselines` that context and horizon allow."""
        from longwave.tasks.forecast import baselines

        return baselines.table(self)

    def conclude(self, model: Any, compare: bool = True) -> Conclusion:
        """The errors of held-out windows, which intervals are made of, and how good these are."""
        from longwave.tasks.forecast.intervals import conclude

        return conclude(self, model, compare)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Facts about the model's input, and a digest of the rows."""
        series, rows = self.data.series, len(self.train.values)
        gaps = () if series.known is None else (series.known[:rows],)
        gaps = gaps if self.train.gaps is None else (*gaps, self.train.gaps.numpy())
        seams = (np.array(series.ids), series.starts) if isinstance(series, Panel) else ()
        beside = (self.train.time.numpy(),) if self.covariates else ()
        return {"inputs": self.inputs.to_dict(), "digest": digest(series.values[:rows], *gaps, *seams, *beside)}

    def artifacts(self) -> dict[str, bytes]:
        """The scales of the series of a panel."""
        return {} if self.scales is None else {Scales.FILE: self.scales.to_bytes()}

    def describe(self) -> dict[str, Any]:
        """Facts for the run's config and report."""
        series, train = self.data.series, self.data.series.values[self.data.train_rows]
        if isinstance(series, Panel):
            rows = series.lengths
            split: dict[str, Any] = {"series": len(rows), "shortest": int(rows.min()), "longest": int(rows.max())}
        else:
            split = {"borders": list(self.data.borders)}
        if self.scales is not None:
            train = self.train.values[self.data.train_rows].numpy()
        return super().describe() | {
            "rows": len(series),
            **split,
            "time_column": series.time,
            **({"covariates": self.covariates.to_plain()} if self.covariates else {}),
            "range": [train.min(axis=0).tolist(), train.max(axis=0).tolist()],
        }

    def _error(self, output: Tensor, batch: Batch) -> Tensor:
        y = batch["y"]
        if output.shape != y.shape:
            raise ValueError(
                f"output: expected {tuple(y.shape)}, or longer with the forecast last, got {tuple(output.shape)}"
            )
        error = output - y
        return torch.where(batch["known"], error, 0) if "known" in batch else error


def forecast(model: Any, batch: Batch, independent: bool, horizon: int) -> Tensor:
    """The forecast (B, horizon, columns) of a model for the windows of a batch.

    If `independent`, each column is a row of its own to the model. What is usual at that time of the year is added.
    """
    x = batch["x"]
    y = _column_by_column(model, batch) if independent and x.shape[2] > 1 else call(model, batch)
    y = y[:, -horizon:]
    return y + batch["usual"] if "usual" in batch else y


def _column_by_column(model: Any, batch: Batch) -> Tensor:
    """The output of a model to which each column is a row.

    Many columns are given to it some at a time, since they take as much memory as so many windows.
    """
    x = batch["x"]
    count, length, _ = x.shape
    size, outputs = max(1, ROWS_AT_ONCE // max(1, count)), []
    for some in x.split(size, dim=2):
        rows = {"x": some.transpose(1, 2).reshape(-1, length, 1)}
        if "time" in batch:
            rows["time"] = batch["time"].repeat_interleave(some.shape[2], dim=0)
        if "gaps" in batch:
            rows["gaps"] = batch["gaps"].repeat_interleave(some.shape[2], dim=0)
        y = call(model, rows)
        outputs.append(y.reshape(count, some.shape[2], -1).transpose(1, 2))
    return torch.cat(outputs, dim=2)


def make_task(
    data: ForecastData,
    context: int | None,
    horizon: int,
    name: str | None = None,
    paper: dict[str, float] | None = None,
    log: bool = False,
    by_series: bool = True,
) -> ForecastTask:
    """The task of forecasting `horizon` rows of the data from `context` rows."""
    from longwave.tasks.forecast.baselines import left_out

    series = data.series
    train, valid, test = data.borders
    if context is None:
        context = choose_context(train, horizon, data.season.rows)
    check_sizes(context, horizon)
    rows = int(np.max(test))  # of all that are used
    if len(series) < rows:
        raise ValueError(f"{series.source}: expected at least {rows} rows, got {len(series)}; the file may be cut off")
    inputs = ForecastInput.of(data, context, horizon, log, by_series)
    scales = Scales.of(data, inputs) if inputs.by_series else None
    values = torch.from_numpy(standard_values(series, inputs, scales, rows))
    times = None if series.times is None else series.times[:rows]
    time = torch.from_numpy(inputs.time(times, rows))
    known = None if series.known is None else torch.from_numpy(series.known[:rows])
    found = inputs.gaps(times)
    gaps = None if found is None else torch.from_numpy(found)
    splits: dict[str, Any] = {}
    for part, first, end in (("train", data.starts + context, train), ("valid", train, valid), ("test", valid, test)):
        splits[part] = ForecastWindows(values, time, first, end, context, horizon, known=known, gaps=gaps)
        if part == "test" and np.all(first == end):
            continue  # no test set is wanted
        if len(splits[part]) < 1:
            got = f"{end} rows, and a context of {context}" if part == "train" else f"{end - first} rows"
            raise ValueError(
                f"{data.name}: the {part} split has {got}: too few for a horizon of {horizon}; expected a shorter "
                f"context{or_horizon(min(train - context, valid - train, test - valid or valid))}"
            )
        if not splits[part].has_targets():
            which = "" if isinstance(series, Panel) else f", rows {first} to {end - 1},"
            raise ValueError(
                f"{series.source}: the {part} split{which} has nothing to forecast: expected a "
                f"known value, and another of its column in the {context} rows of context; give rows with smaller gaps"
            )
    task = ForecastTask(
        name=name or f"{data.name}-{horizon}",
        paper=paper or {},
        origin=data.origin,
        notes=series.notes,
        context=context,
        horizon=horizon,
        data=data,
        inputs=inputs,
        scales=scales,
        period=data.season.rows,
        **splits,
    )
    absent = [f"no {name} among the baselines: {reason}" for name, reason in left_out(task).items()]
    return replace(task, notes=(*task.notes, *_unscored(task), *absent, *_on_gaps(task)))


def _on_gaps(task: ForecastTask) -> Iterator[str]:
    """Notes on rows at irregular times."""
    times = task.data.series.times
    if task.train.gaps is None or times is None:
        return
    yield ROWS_COUNT
    gaps: Any = np.diff(in_microseconds(times))
    gaps = gaps[gaps > 0]  # others are between two series of a panel
    unit = np.gcd.reduce(gaps)
    if gaps.mean() > MOST_UNITS * unit:
        yield (
            f"the mean gap is {gaps.mean() / unit:,.0f} units of {step_name(np.timedelta64(unit, 'us'))}; above "
            f"{MOST_UNITS} units training takes many times as long, so round times that are not that accurate"
        )


def _unscored(task: ForecastTask) -> Iterator[str]:
    """A note for each column without known values in the validation or test set."""
    for k, name in enumerate(task.inputs.columns):
        parts = {part: getattr(task, part) for part in task.held_out}
        empty = [
            part for part, w in parts.items() if w.known is not None and not w.known[rows_of(w.first, w.end), k].any()
        ]
        if empty:
            yield f"column {name!r} has no known value in {' and '.join(empty)}, and is not scored there"


FRAME = "data.csv"  # in the folder of a run on a data frame: what it was trained on


@TASKS.register("forecast")
@dataclass(frozen=True)
class ForecastConfig(TaskConfig):
    """A forecasting task: a named data set, or a custom series."""

    pipeline: ClassVar[str | None] = "time-series-forecasting"
    actions: ClassVar[Mapping[str, str]] = {
        "predict": "longwave.tasks.forecast.predict",
        "stream": "longwave.tasks.forecast.stream",
    }

    data: str = "etth1"
    """etth1, etth2, ettm1, weather or ecl; own if `csv` is given."""
    multivariate: bool = False
    """Forecast all columns from all columns, instead of the target from itself."""
    horizon: int = 720
    """Steps to forecast."""
    context: int | None = 336
    """Input length, in steps before the forecast; None: chosen from the number of rows and the season."""
    independent: bool = False
    """Forecast each column from itself alone, with one model for all columns (channel independence)."""
    epoch_windows: int | None = None
    """Maximum number of training windows per epoch, counted per column if independent; None: all."""
    time_features: bool = True
    """Add time features (hour, day of the week ...) to the input."""
    time_stamps: bool = False
    """Learned embeddings of month, day, weekday and hour, for the context only, instead of `time_features`."""
    yearly: Literal["auto", "on", "off"] = "off"
    """Subtract the yearly cycle before forecasting; auto: if the training set has two years or more."""
    csv: Path | None = None
    """A custom series: a CSV file with a header, one row per step."""
    target: str | None = None
    """The column to forecast (with csv)."""
    time: str | None = None
    """The column of timestamps (with csv); default: the one with increasing times; none: the rows have no times."""
    fill: Fill = None
    """Missing values of a custom series: linear interpolates, mask keeps the gaps; None: they are refused."""
    duplicates: Duplicates = "error"
    """Of rows of a custom series with the same time, keep the first or last, or average them; else they are refused."""

    irregular: bool = False
    """Rows of a custom series are at irregular times, and are taken as they come: a model of S4D sees the gaps."""
    id: str | None = None
    """The id column of a file with many series, to train one model on all of them (with csv)."""
    scale: Literal["series", "all"] = "series"
    """Many series: standardise each by its own mean and deviation, or all by the same."""

    past: tuple[str, ...] = ()
    """Past covariates: columns whose values are known only up to the forecast, numbers or categories (with csv)."""
    future: tuple[str, ...] = ()
    """Future covariates: columns that are known ahead, such as holidays or promotions (with csv)."""
    static: tuple[str, ...] = ()
    """Static covariates: columns that are constant in each of many series (with csv)."""

    log: Literal["auto", "on", "off"] = "off"
    """Forecast logarithms, for series with proportional growth; auto: for one positive column, if the error on
    held-out windows is lower."""
    test: int = 20
    """Test set, in per cent of a custom series (its last rows, up to 50); 0: no test set."""

    level: tuple[float, ...] | None = None
    """Levels of the prediction intervals to score, in per cent; None: 80 and 95."""

    def __post_init__(self) -> None:
        from longwave.tasks.forecast.intervals import check_levels

        check_levels(self.level)
        if self.epoch_windows is not None and self.epoch_windows < 1:
            raise ValueError(f"epoch_windows: expected at least 1, or None, got {self.epoch_windows}")
        if self.log == "on" and self.multivariate:
            raise ValueError("log: expected one column, got multivariate; leave log off")
        beside = [*self.past, *self.future, *self.static]
        if twice := {name for name in beside if beside.count(name) > 1}:
            raise ValueError(
                f"past, future, static: column {twice.pop()!r} is named twice; expected it under one of them"
            )
        if beside and self.time_stamps:
            raise ValueError("time_stamps: expected time features as numbers beside other columns; leave it off")
        if not 0 <= self.test <= 50:
            raise ValueError(f"test: expected a percentage from 0 to 50, got {self.test}")

    def build(self, data_dir: Path | None = None) -> ForecastTask:
        """The task with its series."""
        if self.csv is not None:
            return self.on(self._read(self.csv))
        asked: dict[str, Any] = {"target": self.target, "time": self.time, "fill": self.fill, "id": self.id}
        asked["duplicates"] = None if self.duplicates == "error" else self.duplicates
        asked["irregular"] = self.irregular or None
        asked |= {"past": self.past or None, "future": self.future or None, "static": self.static or None}
        given = [f"--{name}" for name, value in asked.items() if value is not None]
        if self.data == "own" or given:
            raise ValueError(f"forecast: expected --csv FILE{f' with {given[0]}' if given else ''}, got none")
        features: Features = "M" if self.multivariate else "S"
        return self._adapted(load(self.data, features, self.horizon, self.context, data_dir))

    def on_random_data(self, rows: int, seed: int = 0) -> ForecastTask:
        """The task on noise of the shape of a public set, with so many training windows."""
        if self.data not in SETS:
            return super().on_random_data(rows, seed)  # type: ignore[return-value]  # it refuses
        if self.context is None:
            raise ValueError("context: expected a number of rows, as noise has no season to choose it by")
        chosen, last = SETS[self.data], self.context + self.horizon + rows - 1
        borders = (last, last + self.horizon, last + 2 * self.horizon)
        values = np.random.default_rng(seed).normal(size=(borders[2], chosen.columns if self.multivariate else 1))
        step = np.timedelta64(3600 // (chosen.rows_per_hour or 1), "s")
        times = np.datetime64("2016-07-01T00:00:00") + np.arange(borders[2]) * step
        names = tuple(f"column {k}" for k in range(values.shape[1]))
        series = Series(values, names, len(names) - 1, times, step, source="noise")
        return self._adapted(make_task(ForecastData(self.data, series, borders, "noise"), self.context, self.horizon))

    def _read(self, source: Any) -> Series:
        """A custom series, or a panel."""
        named = {"past": self.past, "future": self.future, "static": self.static}
        return read_series(
            source,
            self.target,
            self.time,
            self.multivariate,
            self.fill,
            duplicates=self.duplicates,
            id=self.id,
            beside={name: known for known, names in named.items() for name in names},
            irregular=self.irregular,
        )

    def on(self, series: Series) -> ForecastTask:
        """The task on a custom series."""
        by_series = self.scale == "series"
        task = custom(series, self.horizon, self.context, test=self.test, log=self.log == "on", by_series=by_series)
        if self.log == "auto" and len(series.columns) == 1 and (series.values > 0).all():
            from longwave.tasks.forecast.combine import better

            logs = custom(series, self.horizon, self.context, test=self.test, log=True, by_series=by_series)
            if better(logs, task):
                note = "forecasting logarithms, as their error on held-out windows is lower"
                task = replace(logs, notes=(*logs.notes, note))
        season = () if series.is_irregular else (task.data.season.text,)
        return self._adapted(replace(task, notes=(*task.notes, *season)))

    def _adapted(self, task: ForecastTask) -> ForecastTask:
        """A task with the windows and features of these settings."""
        train = replace(task.train, single=self.independent)
        if self.epoch_windows is not None:
            windows = len(task.train)
            stride = -(-len(train) // self.epoch_windows)
            train = replace(train, stride=min(stride, windows))
        notes = task.notes
        if self.context is None:
            notes = (*notes, f"using a context of {task.context} rows (from series length and seasonality)")
        times = self.time_features or self.time_stamps
        task = replace(task, train=train, notes=notes, time_features=times, independent=self.independent)
        task = replace(task, level=tuple(sorted(self.level))) if self.level else task
        task = task.with_stamps() if self.time_stamps else task
        if self.past or self.future or self.static:
            task = task.with_covariates(self.past, self.future, self.static)
        if not self._has_year(task):
            return task
        from longwave.tasks.forecast.baselines import solvable
        from longwave.tasks.forecast.combine import better

        year = task.with_year()
        return year if self.yearly == "on" or not solvable(task) or better(year, task) else task

    def _has_year(self, task: ForecastTask) -> bool:
        """Whether to subtract the yearly cycle; refuses a series too short for one."""
        times = task.data.series.times
        seen = task.data.train_years
        if self.yearly == "on" and seen < 1:
            what = "no times" if times is None else f"{seen:.1f} years of them in the training set"
            raise ValueError(f"yearly: expected times, with at least a year to train on, got {what}; leave yearly off")
        in_context = times is not None and yearly.years(times[: task.context]) >= 1  # the model sees a year by itself
        return self.yearly == "on" or (self.yearly == "auto" and seen >= FEWEST_YEARS and not in_context)

    def on_frame(self, folder: Path | None, frame: Any) -> OnData:
        """The task on a data frame, an array or a CSV file, by its path; what is no file is kept beside the run."""
        if isinstance(frame, (str, os.PathLike)):
            settings = replace(self, data="own", csv=Path(frame)).with_absolute_paths()
            return OnData(settings, settings.build())
        series = self._read(frame)
        is_index = self.time is not None and series.times is not None and series.time is None
        if is_index and frame.index.name != self.time:
            names = map(str, getattr(frame, "columns", ()))
            raise ValueError(
                f"time: no column {self.time!r}; {nearest(str(self.time), names)}; leave time out to use the "
                "index of dates"
            )
        taken = (*series.columns, *series.beside, self.id or "")
        time = None if series.times is None else (self.time or series.time or _free_name("time", taken))
        stored = None if folder is None else folder / FRAME
        settings = replace(self, data="own", csv=stored, target=series.columns[series.target], time=time)
        files = {} if folder is None else {FRAME: to_csv(series, time or "")}
        return OnData(settings, settings.on(replace(series, time=time)), files)

    def in_folder(self, folder: Path) -> "ForecastConfig":
        """Read the data frame stored beside the run, wherever its folder is now."""
        is_stored = self.csv is not None and self.csv.name == FRAME and (folder / FRAME).exists()
        return replace(self, csv=folder / FRAME) if is_stored else self


def _free_name(name: str, taken: Sequence[str]) -> str:
    """The name, or a longer one if there is such a column already."""
    return _free_name(f"{name}_", taken) if name in taken else name


def _find(name: str, data_dir: str | os.PathLike[str] | None) -> tuple[Path, str]:
    """The file of a data set, and what a report should call it."""
    folder = None if data_dir is None else Path(data_dir)
    try:
        path = catalogue.require(name, folder)
    except catalogue.MissingData:
        embedded = catalogue.DATASETS[name].embedded
        if embedded is None:
            raise
        return embedded, f"the copy in the package, since it is not in {catalogue.data_dir(folder)}"
    return path, str(path)
