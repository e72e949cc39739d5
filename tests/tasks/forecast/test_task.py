"""Forecasting tasks: windows, splits, standardisation, scores, and the public sets."""

import json
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from constant_model import mean_loss, scores

from longwave.io.download.catalogue import DATASETS
from longwave.models import ForecasterConfig, SequenceConfig
from longwave.tasks.forecast.benchmarks import HORIZONS, PAPER, SETS, share_borders
from longwave.tasks.forecast.series import Series, read_series
from longwave.tasks.forecast.splits import choose_context, needed_rows
from longwave.tasks.forecast.task import ForecastConfig, custom, load, make_task
from longwave.tasks.forecast.windows import STAMPS, ForecastData, ForecastInput, time_features, time_stamps

CONTEXT, HORIZON = 7, 5
BORDERS = (60, 80, 97)  # three rows of the series belong to no part
ROWS = 100


def make_series(rows=ROWS, columns=3, minutes=60, seed=0):
    values = np.random.default_rng(seed).normal(size=(rows, columns)).cumsum(axis=0) * [10, 1, 0.1][:columns] + 5
    times = np.datetime64("2019-12-30T22:00:00") + np.arange(rows) * np.timedelta64(60 * minutes, "s")
    names = tuple("abc"[:columns])
    return Series(values, names, columns - 1, times, np.timedelta64(60 * minutes, "s"))


def make(series, borders=BORDERS, context=CONTEXT, horizon=HORIZON):
    return make_task(ForecastData("made", series, borders, "made"), context, horizon)


@pytest.fixture
def task():
    return make(make_series())


def parts(task):
    return {"train": task.train, "valid": task.valid, "test": task.test}


def slow_windows(series, part):
    """Every window of a part, cut one by one from the definition: (context, horizon, first row)."""
    train = series.values[: BORDERS[0]]
    values = (series.values - train.mean(axis=0)) / train.std(axis=0)
    first, end = {"train": (0, BORDERS[0]), "valid": BORDERS[:2], "test": BORDERS[1:]}[part]
    for start in range(len(values)):
        rows = range(start + CONTEXT, start + CONTEXT + HORIZON)
        if first <= rows[0] and rows[-1] < end and (part != "train" or start >= first):
            yield values[start : start + CONTEXT], values[rows[0] : rows[-1] + 1], start


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_windows_are_those_cut_one_by_one(task, part):
    expected = list(slow_windows(task.data.series, part))
    windows = parts(task)[part]
    assert len(windows) == len(expected)
    batch = windows.batch(range(len(windows)))
    features = time_features(task.data.series.times)
    for i, (context, horizon, start) in enumerate(expected):
        np.testing.assert_allclose(batch["x"][i, :CONTEXT].numpy(), context, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(batch["y"][i].numpy(), horizon, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(batch["time"][i].numpy(), features[start : start + CONTEXT + HORIZON])
    assert batch["x"].dtype == batch["y"].dtype == batch["time"].dtype == torch.float32


def test_the_horizon_is_masked_by_zeros(task):
    for windows in parts(task).values():
        x = windows.batch(range(len(windows)))["x"]
        assert x.shape[1:] == (CONTEXT + HORIZON, 3)
        assert (x[:, CONTEXT:] == 0).all()
        assert (x[:, :CONTEXT] != 0).all()


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_no_future_row_changes_the_input(part):
    """All rows from the first that a window forecasts change. The scaling alone may know the whole training set."""
    series = make_series()
    before = make(series)
    index = len(parts(before)[part]) // 2
    values = series.values.copy()
    values[parts(before)[part].first + index :] += 100
    after = make(Series(values, series.columns, series.target, series.times, series.step))
    old, new = (parts(task)[part].batch([index]) for task in (before, after))
    if part == "train":
        old, new = (
            {"x": torch.from_numpy(task.inputs.restore(batch["x"][:, :CONTEXT].numpy())), "y": batch["y"]}
            for task, batch in ((before, old), (after, new))
        )
    torch.testing.assert_close(new["x"], old["x"], rtol=0, atol=1e-4 if part == "train" else 0)
    assert (new["y"] != old["y"]).all()


def test_columns_are_standardised_by_the_train_part_alone(task):
    inputs, train = task.inputs, task.data.series.values[: BORDERS[0]]
    np.testing.assert_allclose(inputs.mean, train.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(inputs.deviation, train.std(axis=0), rtol=1e-12)
    seen = task.train.values[: BORDERS[0]].double()
    torch.testing.assert_close(seen.mean(dim=0), torch.zeros(3, dtype=torch.double), rtol=0, atol=1e-6)
    torch.testing.assert_close(seen.std(dim=0, correction=0), torch.ones(3, dtype=torch.double), rtol=0, atol=1e-6)
    series = task.data.series
    np.testing.assert_allclose(inputs.restore(inputs.standardise(series.values)), series.values, rtol=1e-12)


def test_values_that_cannot_be_standardised_are_refused():
    series = make_series()
    series.values[:, 1] *= 1e200
    with pytest.raises(ValueError, match="are too large to be standardised"):
        make_task(ForecastData("a", series, BORDERS, "a"), 4, 2)
    series = make_series()
    series.values[BORDERS[2] - 1, 1] = 1e60
    with pytest.raises(ValueError, match=r"column 1: values up to .* are too far from the training set"):
        make_task(ForecastData("a", series, BORDERS, "a"), 4, 2)


def test_a_constant_column_is_divided_by_one():
    series = make_series()
    series.values[:, 1] = 0.1  # its computed deviation is 1e-17, not 0
    series.values[BORDERS[0] :, 1] = 0.6
    task = make(series)
    assert task.inputs.deviation[1] == 1
    torch.testing.assert_close(task.test.batch([0])["y"][0, :, 1], torch.full((HORIZON,), 0.5))
    torch.testing.assert_close(task.train.batch([0])["y"][0, :, 1], torch.zeros(HORIZON), rtol=0, atol=1e-15)


def test_parts_do_not_share_rows_to_forecast_and_the_last_window_ends_at_the_last_row(task):
    for (part, windows), end in zip(parts(task).items(), BORDERS, strict=True):
        last = windows.batch([len(windows) - 1])["y"][0]
        torch.testing.assert_close(last, task.train.values[end - HORIZON : end], rtol=0, atol=0)
        assert windows.end == end
        assert windows.first == {"train": CONTEXT, "valid": BORDERS[0], "test": BORDERS[1]}[part]


def test_a_batch_depends_on_its_indices_alone(task):
    together = task.train.batch([3, 0, 3, 11])
    for row, index in enumerate([3, 0, 3, 11]):
        alone = task.train.batch([index])
        for name, values in together.items():
            torch.testing.assert_close(values[row], alone[name][0], rtol=0, atol=0)
    together["x"].zero_()
    assert (task.train.batch([3])["x"][:, :CONTEXT] != 0).all()
    copy = pickle.loads(pickle.dumps(task.train))
    torch.testing.assert_close(copy.batch([5]), task.train.batch([5]), rtol=0, atol=0)


@pytest.mark.parametrize("indices", [[-1], [0, 10**6]])
def test_an_index_out_of_range_is_refused(task, indices):
    with pytest.raises(IndexError, match="indices: expected 0 to 48"):
        task.train.batch(indices)


def test_scores_of_all_batches_equal_a_direct_computation_over_the_whole_part(task):
    torch.manual_seed(1)
    whole = task.test.batch(range(len(task.test)))
    output = torch.randn(len(task.test), CONTEXT + HORIZON, 3, dtype=torch.double)
    sums = {"mse": [0.0, 0], "mae": [0.0, 0]}
    for start in range(0, len(task.test), 4):
        rows = range(start, min(start + 4, len(task.test)))
        for name, (total, count) in scores(task, output[list(rows)], task.test.batch(rows)).items():
            sums[name][0] += float(total)
            sums[name][1] += count
    error = output[:, CONTEXT:].numpy() - whole["y"].double().numpy()
    assert sums["mse"][1] == sums["mae"][1] == error.size
    assert sums["mse"][0] / sums["mse"][1] == pytest.approx(np.mean(error**2), rel=1e-12)
    assert sums["mae"][0] / sums["mae"][1] == pytest.approx(np.mean(np.abs(error)), rel=1e-12)
    assert float(mean_loss(task, output, whole)) == pytest.approx(np.mean(error**2), rel=1e-12)


def test_an_output_may_cover_the_horizon_alone_and_other_shapes_are_refused(task):
    batch = task.valid.batch([0, 1])
    assert float(mean_loss(task, batch["y"].clone(), batch)) == 0
    with pytest.raises(ValueError, match=r"output: expected \(2, 5, 3\).* got \(2, 5, 1\)"):
        mean_loss(task, batch["y"][..., :1], batch)
    with pytest.raises(ValueError, match="output: expected"):
        scores(task, batch["y"][:, 1:], batch)


def test_goal_sizes_and_description_say_what_the_task_is(task):
    assert (task.goal, task.higher_is_better, task.name) == ("mse", False, "made-5")
    spec = task.spec
    assert (spec.input_size, spec.output_size, spec.time_size) == (3, 3, 4)
    assert (spec.horizon, spec.length) == (HORIZON, CONTEXT + HORIZON)
    assert replace(task, time_features=False).spec.time_size == 0
    assert (task.context, task.horizon) == (CONTEXT, HORIZON)
    facts = json.loads(json.dumps(task.describe()))
    assert facts["examples"] == {"train": 49, "valid": 16, "test": 13}
    assert ForecastInput.from_dict(facts["inputs"]) == task.inputs


def test_without_times_a_batch_has_no_time():
    series = make_series()
    task = make(Series(series.values, series.columns, 0))
    assert task.spec.time_size == 0
    assert set(task.train.batch([0])) == {"x", "y"}


@pytest.mark.parametrize(
    ("time", "features"),
    [
        ("2018-01-01T00:00:00", [-0.5, -0.5, -0.5, -0.5]),  # a Monday
        ("2020-12-31T23:00:00", [0.5, 3 / 6 - 0.5, 0.5, 0.5]),  # a Thursday, the 366th day
        ("2016-07-03T12:00:00", [12 / 23 - 0.5, 0.5, 2 / 30 - 0.5, 184 / 365 - 0.5]),  # a Sunday
        ("1969-12-31T01:00:00", [1 / 23 - 0.5, 2 / 6 - 0.5, 0.5, 364 / 365 - 0.5]),  # a Wednesday
    ],
)
def test_time_features_are_hour_weekday_day_and_day_of_year(time, features):
    times = np.datetime64(time) + np.arange(3) * np.timedelta64(1, "h")
    found = time_features(times)
    assert found.shape == (3, 4)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0], features, atol=1e-7)


def test_time_features_stay_within_a_half_and_begin_with_the_minute_below_an_hour():
    times = np.datetime64("2016-02-28T00:00:00") + np.arange(100_000) * np.timedelta64(17, "m")
    found = time_features(times)
    assert found.shape == (100_000, 5)
    assert (found.min(axis=0) == -0.5).all()
    assert (found.max(axis=0) == 0.5).all()
    np.testing.assert_allclose(found[:3, 0], np.array([0, 17, 34]) / 59 - 0.5, atol=1e-7)
    np.testing.assert_array_equal(found[:, 1:], time_features(times, minutes=False))


def test_a_task_below_an_hour_has_five_time_features():
    assert make(make_series(minutes=15)).spec.time_size == 5


def test_time_stamps_are_month_day_weekday_hour_and_quarter():
    times = np.datetime64("2020-12-31T23:45:00") + np.arange(2) * np.timedelta64(15, "m")  # a Thursday
    np.testing.assert_array_equal(time_stamps(times, minutes=True), [[12, 31, 3, 23, 3], [1, 1, 4, 0, 0]])
    every = time_stamps(np.datetime64("2015-01-01T00:00:00") + np.arange(50_000) * np.timedelta64(1, "h"), False)
    assert (every.min(axis=0) == [1, 1, 0, 0]).all()
    assert (every.max(axis=0) + 1 == list(STAMPS.values())[:4]).all()


def test_stamps_take_the_place_of_time_features_in_batches_and_continuations(task):
    stamped = task.with_stamps()
    assert (stamped.spec.time_size, stamped.spec.stamps) == (4, (13, 32, 7, 24))
    now, series = BORDERS[1], task.data.series
    batch = stamped.test.batch([0])
    rows = np.arange(now - CONTEXT, now + HORIZON)
    np.testing.assert_array_equal(batch["time"][0], time_stamps(series.times[rows], False))
    cut = Series(series.values[:now], series.columns, series.target, series.times[:now], series.step)
    torch.testing.assert_close(stamped.inputs.continuation(cut)[0]["time"], batch["time"], rtol=0, atol=0)
    facts = json.loads(json.dumps(stamped.describe()))
    assert ForecastInput.from_dict(facts["inputs"]) == stamped.inputs
    assert "stamps" not in task.describe()["inputs"]
    untimed = make(Series(series.values, series.columns, 0))
    with pytest.raises(ValueError, match="time_stamps: expected times, got a series without"):
        untimed.with_stamps()
    for features in (True, False):
        settings = ForecastConfig("etth1", horizon=4, context=6, time_stamps=True, time_features=features)
        assert settings.on_random_data(rows=1).spec.stamps == (13, 32, 7, 24)
    with pytest.raises(ValueError, match="a Forecaster takes no time stamps"):
        ForecasterConfig().resolve(stamped.spec)


def test_a_model_sees_stamps_of_the_context_alone(task):
    spec = task.with_stamps().spec
    model = SequenceConfig(d_model=4, n_layers=1, decoder="forecast").resolve(spec).build()
    batch = task.with_stamps().test.batch([0, 1])
    y = model(batch["x"], time=batch["time"])[0]
    time = batch["time"].clone()
    time[:, CONTEXT:] = 5
    torch.testing.assert_close(model(batch["x"], time=time)[0], y, rtol=0, atol=0)
    time[:, :CONTEXT] = 5
    assert not torch.equal(model(batch["x"], time=time)[0], y)


@pytest.mark.parametrize(("data", "multivariate", "columns"), [("etth1", False, 1), ("ettm1", True, 7)])
def test_random_data_has_the_shape_of_the_public_set(data, multivariate, columns):
    settings = ForecastConfig(data, multivariate, horizon=4, context=6)
    task = settings.on_random_data(rows=5)
    assert [len(task.train), len(task.valid), len(task.test)] == [5, 1, 1]
    batch = task.train.batch(range(5))
    assert (batch["x"].shape, batch["y"].shape) == ((5, 10, columns), (5, 4, columns))
    assert batch["time"].shape[-1] == (5 if data == "ettm1" else 4)
    assert torch.equal(batch["x"], settings.on_random_data(rows=5).train.batch(range(5))["x"])


# Going on after the last row


def test_the_continuation_is_the_window_after_the_last_row(task):
    """Of a series that is cut off, it is the window of the whole series that begins its horizon there."""
    series, now = task.data.series, BORDERS[1]
    cut = Series(series.values[:now], series.columns, series.target, series.times[:now], series.step)
    batch, times = task.inputs.continuation(cut)
    expected = task.test.batch([0])
    torch.testing.assert_close(batch["x"], expected["x"], rtol=0, atol=0)
    torch.testing.assert_close(batch["time"], expected["time"], rtol=0, atol=0)
    np.testing.assert_array_equal(times, series.times[now : now + HORIZON])


def test_the_continuation_finds_its_columns_by_name(task):
    series, order = task.data.series, [2, 0, 1]
    names = tuple(series.columns[column] for column in order)
    mixed = Series(series.values[:, order], names, 0, series.times, series.step)
    torch.testing.assert_close(task.inputs.continuation(mixed)[0], task.inputs.continuation(series)[0], rtol=0, atol=0)


def test_a_series_unlike_the_one_of_training_is_refused(task):
    series = task.data.series
    for other, message in (
        (Series(series.values[:, :2], ("a", "b"), 0, series.times, series.step), "no column 'c', which the model was"),
        (
            Series(series.values[:6], series.columns, 0, series.times[:6], series.step),
            "at least 7 rows of context, got 6",
        ),
        (Series(series.values, series.columns, 0), "trained with times, and these rows have none"),
        (make_series(minutes=15), "the rows are 15 minutes apart, and the model was trained on rows 1 hour apart"),
    ):
        with pytest.raises(ValueError, match=message):
            task.inputs.continuation(other)


# Training windows: a stride, columns by themselves, a chosen context


def test_with_a_stride_the_epochs_see_every_window_in_turn(task):
    strided = replace(task, train=replace(task.train, stride=5))
    assert len(strided.train) == 49 // 5
    seen = []
    for epoch in range(5):
        split = strided.train_at(epoch, seed=0)
        assert len(split) == len(strided.train)
        rows = split.batch(range(len(split)))["y"]
        for i, y in enumerate(rows):
            index = epoch + 5 * i
            torch.testing.assert_close(y, task.train.batch([index])["y"][0], rtol=0, atol=0)
            seen.append(index)
    assert sorted(seen) == list(range(45))
    assert strided.train_at(5, seed=0).offset == 0


def test_single_columns_are_those_of_the_windows(task):
    single = replace(task.train, single=True, stride=2, offset=1)
    assert len(single) == 49 // 2 * 3
    batch = single.batch(range(len(single)))
    assert batch["x"].shape == (72, CONTEXT + HORIZON, 1)
    for index in range(len(single)):
        window = task.train.batch([1 + index // 3 * 2])
        column = index % 3
        torch.testing.assert_close(batch["x"][index], window["x"][0, :, column : column + 1], rtol=0, atol=0)
        torch.testing.assert_close(batch["y"][index], window["y"][0, :, column : column + 1], rtol=0, atol=0)
        torch.testing.assert_close(batch["time"][index], window["time"][0], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("multivariate", "epoch_windows", "stride", "examples"),
    [(False, None, 1, 672), (False, 672, 1, 672), (False, 671, 2, 336), (True, 500, 3, 448), (True, 1, 672, 2)],
)
def test_the_stride_keeps_an_epoch_within_its_windows(tmp_path, multivariate, epoch_windows, stride, examples):
    (tmp_path / "a.csv").write_text("a,b\n" + "\n".join(f"{k % 7},{k % 5}" for k in range(1000)))
    settings = ForecastConfig(
        "own", multivariate, 5, 24, independent=True, epoch_windows=epoch_windows, csv=tmp_path / "a.csv", target="a"
    )
    task = settings.build()
    assert (task.train.stride, len(task.train)) == (stride, examples)
    assert task.valid.stride == task.test.stride == 1
    assert task.spec.input_size == task.spec.output_size == 1
    assert task.test.batch([0])["x"].shape[2] == 1 + multivariate


def test_scores_of_independent_columns_are_those_of_all_columns(task):
    """A model that repeats the last value scores the same, column by column or all at once."""

    def model(x, time=None, lengths=None):
        assert len(time) == len(x)
        return x[:, CONTEXT - 1 : CONTEXT].expand(-1, HORIZON, -1), None

    batch = task.test.batch(range(len(task.test)))
    together, apart = (replace(task, independent=flag).outcome(model, batch).scores for flag in (False, True))
    for name, (total, count) in together.items():
        torch.testing.assert_close(apart[name][0], total)
        assert apart[name][1] == count


@pytest.mark.parametrize(
    ("rows", "horizon", "period", "context"),
    [
        (8640, 720, 24, 336),  # two weeks of hours
        (34_560, 96, 96, 672),  # a week of quarter-hours
        (100_000, 60, 1440, 720),  # less than a day of minutes
        (5000, 30, 7, 336),  # 48 weeks of days
        (5000, 30, 1, 336),
        (676, 24, 24, 216),  # a third of 652, in whole days
        (50, 24, 24, 8),  # no day fits
        (7, 1, 1, 2),
        (2, 1, 1, 1),
    ],
)
def test_the_context_is_chosen_from_rows_and_season(rows, horizon, period, context):
    assert choose_context(rows, horizon, period) == context


def test_a_chosen_context_is_that_of_the_task_and_is_said(tmp_path):
    rows = (f"{np.datetime64('2020-01-01T00:00:00') + np.timedelta64(k, 'h')},{k % 24}" for k in range(966))
    (tmp_path / "a.csv").write_text("date,a\n" + "\n".join(rows))
    task = ForecastConfig("own", horizon=24, context=None, csv=tmp_path / "a.csv", target="a").build()
    assert task.context == task.inputs.context == 216
    chosen = "using a context of 216 rows (from series length and seasonality)"
    assert task.notes[-2:] == ("a season of 24 rows, from times 1 hour apart", chosen)
    assert task.describe()["time_column"] == "date"
    assert task.describe()["range"] == [[0.0], [23.0]]
    with pytest.raises(ValueError, match="epoch_windows: expected at least 1, or None, got 0"):
        ForecastConfig(epoch_windows=0).build()
    with pytest.raises(ValueError, match="expected --csv FILE with --duplicates, got none"):
        ForecastConfig(duplicates="mean").build()


@pytest.mark.parametrize("horizon", [1, 7, 30])
def test_a_chosen_context_leaves_windows_wherever_the_horizon_does(horizon):
    task = custom(make_series(10 * horizon + 2), horizon, None)
    assert min(len(task.train), len(task.valid), len(task.test)) >= 1


# Custom series


@pytest.mark.parametrize(("rows", "borders"), [(1000, (700, 800, 1000)), (35_064, (24_544, 28_052, 35_064)),
                                               (26_304, (18_412, 21_044, 26_304)), (19, (13, 16, 19))])  # fmt: skip
def test_shares_are_70_10_20_rounded_as_informer_does(rows, borders):
    assert share_borders(rows) == borders
    train, test = int(rows * 0.7), int(rows * 0.2)
    assert borders == (train, rows - test, rows)


@pytest.mark.parametrize(("context", "horizon"), [(7, 5), (40, 3), (1, 1), (336, 96)])
def test_enough_rows_give_every_part_a_window_and_one_less_is_refused_with_the_number(context, horizon):
    needed = needed_rows(context, horizon)
    for extra in range(15):
        task = custom(make_series(needed + extra), horizon, context)
        assert min(len(task.train), len(task.valid), len(task.test)) >= 1
    with pytest.raises(ValueError, match=f"{needed - 1} rows are too few .* expected at least {needed} rows"):
        custom(make_series(needed - 1), horizon, context)


@pytest.mark.parametrize(("rows", "context"), [(100, 7), (100, 65), (4321, None), (13, None), (10, 6)])
def test_a_horizon_that_is_too_long_is_refused_with_the_longest_that_fits(rows, context):
    with pytest.raises(
        ValueError, match=r"a horizon of 5000: .* at least \d+ rows, or a horizon of at most"
    ) as refused:
        custom(make_series(rows), 5000, context)
    longest = int(str(refused.value).split()[-1])
    custom(make_series(rows), longest, context)
    with pytest.raises(ValueError, match=f"at most {longest}$"):
        custom(make_series(rows), longest + 1, context)


@pytest.mark.parametrize(("context", "horizon", "name"), [(0, 5, "context"), (7, 0, "horizon"), (7, 2.5, "horizon")])
def test_sizes_that_are_no_positive_whole_numbers_are_refused(context, horizon, name):
    with pytest.raises(ValueError, match=f"{name}: expected a whole number of rows, 1 or more"):
        custom(make_series(), horizon, context)


def test_a_part_too_short_for_the_horizon_is_named():
    with pytest.raises(ValueError, match=r"the valid split has 20 rows: too few .*, or a horizon of at most \d+$"):
        make(make_series(), horizon=21)
    with pytest.raises(ValueError, match=r"the train split has 60 rows, and a context of 56: too few .* at most 4$"):
        make(make_series(), context=56)
    with pytest.raises(ValueError, match=r"a context of 60: too few for a horizon of .*; expected a shorter context$"):
        make(make_series(), context=60)
    with pytest.raises(ValueError, match="expected at least 97 rows, got 90; the file may be cut off"):
        make(make_series(rows=90))


# Public data sets


def test_the_paper_has_50_settings_and_the_longest_are_those_of_its_short_table():
    assert len(PAPER) == 50
    assert {(name, features) for name, features, _ in PAPER} == {(name, features) for name in SETS for features in "SM"}
    assert all(len(horizons) == 5 for horizons in HORIZONS.values())
    short = {"etth1": (0.116, 0.271), "etth2": (0.187, 0.358), "ettm1": (0.292, 0.466), "weather": (0.245, 0.375),
             "ecl": (0.432, 0.497)}  # fmt: skip
    assert {name: tuple(PAPER[name, "S", HORIZONS[name][-1]].values()) for name in SETS} == short


@pytest.mark.parametrize(("features", "columns"), [("S", 1), ("M", 7)])
def test_etth1_comes_with_the_package_and_says_so(tmp_path, features, columns):
    task = load("etth1", features, horizon=720, context=336, data_dir=tmp_path)
    assert task.data.borders == (8640, 11520, 14400)
    assert (len(task.train), len(task.valid), len(task.test)) == (8640 - 336 - 720 + 1, 2161, 2161)
    assert (task.spec.input_size, task.spec.output_size, task.spec.time_size) == (columns, columns, 4)
    assert task.describe()["data"] == f"the copy in the package, since it is not in {tmp_path}"
    assert task.name == {"S": "etth1-720", "M": "etth1-720-m"}[features]
    assert task.paper == {"S": {"mse": 0.116, "mae": 0.271}, "M": {"mse": 1.162, "mae": 0.842}}[features]
    # The last test window ends with row 14399, 2018-02-20 23:00.
    last = read_series(DATASETS["etth1"].embedded, "OT", "date")
    assert str(last.times[14399]) == "2018-02-20T23:00:00"
    forecast = task.inputs.restore(task.test.batch([2160])["y"][0].numpy())
    np.testing.assert_allclose(forecast[:, -1], last.values[14400 - 720 : 14400, 0], rtol=1e-5, atol=1e-5)


def test_a_horizon_outside_the_tables_has_no_figure_of_the_paper(tmp_path):
    assert load("etth1", horizon=100, data_dir=tmp_path).paper == {}


def test_a_file_in_the_data_folder_comes_before_the_embedded_one(tmp_path, monkeypatch):
    folder = tmp_path / "ETT-small"
    folder.mkdir()
    rows = (f"{np.datetime64('2016-07-01T00:00:00') + np.timedelta64(i, 'h')},{i},{i % 24}" for i in range(14_400))
    (folder / "ETTh1.csv").write_text("date,HUFL,OT\n" + "\n".join(rows))
    monkeypatch.setenv("LONGWAVE_DATA", str(tmp_path))
    task = load("etth1", "M", horizon=24, context=48)
    assert task.spec.input_size == 2
    assert task.describe()["data"] == str(folder / "ETTh1.csv")


@pytest.mark.parametrize("name", sorted(set(SETS) - {"etth1"}))
def test_a_missing_file_is_named_with_where_to_put_it_and_how_to_get_it(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"longwave data get {name}") as caught:
        load(name, data_dir=tmp_path)
    assert str(tmp_path / DATASETS[name].path) in str(caught.value)


def test_wrong_names_are_refused_with_the_nearest_right_one():
    with pytest.raises(ValueError, match=r"unknown forecasting set 'ETTh-1'; .*did you mean 'etth1'"):
        load("ETTh-1")
    with pytest.raises(ValueError, match=r"features: expected 'S' \(univariate\) or 'M' \(multivariate\), got 'MS'"):
        load("etth1", "MS")


def test_ecl_is_read_in_its_format(tmp_path):
    """A small file like ECL.csv: a date and 321 clients, hourly, split 70/10/20."""
    (tmp_path / "informer").mkdir()
    names = [f"MT_{client:03d}" for client in range(321)]
    values = np.random.default_rng(0).integers(0, 5000, size=(200, 321)) / 10
    times = np.datetime64("2012-01-01T00:00:00") + np.arange(200) * np.timedelta64(1, "h")
    lines = [",".join(["date", *names])]
    lines += [",".join([str(time).replace("T", " "), *map(str, row)]) for time, row in zip(times, values, strict=True)]
    (tmp_path / "informer" / "ECL.csv").write_text("\n".join(lines) + "\n")
    one = load("ecl", "S", horizon=12, context=24, data_dir=tmp_path)
    every = load("ecl", "M", horizon=12, context=24, data_dir=tmp_path)
    assert one.data.borders == every.data.borders == (140, 160, 200)
    assert one.inputs.target == every.inputs.target == "MT_320"
    assert (one.spec.input_size, every.spec.input_size) == (1, 321)
    np.testing.assert_array_equal(every.data.series.values, values)
    np.testing.assert_array_equal(every.data.series.times, times)
    torch.testing.assert_close(one.test.batch([3])["y"], every.test.batch([3])["y"][..., -1:], rtol=0, atol=0)


@pytest.mark.skipif("LONGWAVE_DATA" not in os.environ, reason="LONGWAVE_DATA names no folder of real data")
@pytest.mark.parametrize(
    ("name", "columns", "borders", "rows", "time_size"),
    [
        ("etth1", 7, (8640, 11520, 14400), 17_420, 4),
        ("etth2", 7, (8640, 11520, 14400), 17_420, 4),
        ("ettm1", 7, (34_560, 46_080, 57_600), 69_680, 5),
        ("weather", 12, (24_544, 28_052, 35_064), 35_064, 4),
        ("ecl", 321, (18_412, 21_044, 26_304), 26_304, 4),
    ],
)
def test_real_sets_have_the_published_rows_columns_and_splits(name, columns, borders, rows, time_size):
    horizon = HORIZONS[name][-1]
    try:
        tasks = {features: load(name, features, horizon) for features in ("S", "M")}
    except FileNotFoundError:
        pytest.skip(f"{name} is not in LONGWAVE_DATA")
    for features, task in tasks.items():
        assert len(task.data.series) == rows
        assert task.data.borders == borders
        assert task.spec.input_size == {"S": 1, "M": columns}[features]
        assert task.spec.time_size == time_size
        assert SETS[name].columns == columns
        assert task.paper == PAPER[name, features, horizon]
        assert len(task.test) == borders[2] - borders[1] - horizon + 1
        assert torch.isfinite(task.test.values).all()
