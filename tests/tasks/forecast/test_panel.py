"""Many series, one model: windows of one series each, sums over all, and one series as if there were no panel."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import longwave
from longwave.experiments import EXPERIMENTS
from longwave.tasks.forecast import intervals
from longwave.tasks.forecast.baselines import moments, table
from longwave.tasks.forecast.combine import better, combine
from longwave.tasks.forecast.intervals import Residuals
from longwave.tasks.forecast.scales import Scales
from longwave.tasks.forecast.series import read_series
from longwave.tasks.forecast.task import ForecastConfig, custom

LENGTHS = {"Berlin": 120, "Oslo": 90, "Rome": 150}
CONTEXT, HORIZON = 14, 5


def frame_of(lengths=LENGTHS, level=10.0, seed=0):
    """Daily sales with a week, each series on a level ten times that of the one before."""
    frames = []
    for k, (name, rows) in enumerate(lengths.items()):
        rng = np.random.default_rng([seed, k])
        values = level * 10**k * (5 + np.sin(2 * np.pi * np.arange(rows) / 7 + k) + 0.2 * rng.standard_normal(rows))
        frames.append(pd.DataFrame({"store": name, "day": pd.date_range("2024-01-01", periods=rows), "sales": values}))
    return pd.concat(frames, ignore_index=True)


def settings(**changes):
    given = {"data": "own", "target": "sales", "context": CONTEXT, "horizon": HORIZON, "independent": True}
    return ForecastConfig(**given | {"id": "store", "time_features": False, "log": "off"} | changes)


def task_of(frame, **changes):
    return settings(**changes).on_frame(None, frame).task


def experiment(**changes):
    forecast = EXPERIMENTS.find("forecast")
    return replace(
        forecast,
        task=settings(**{"level": (50, 80)} | changes),
        model=replace(forecast.model, n_layers=1, d_model=4),
        loop=replace(forecast.loop, epochs=1),
    )


def train(frame, folder=None, **changes):
    return longwave.train_forecaster(frame, folder, experiment=experiment(**changes), quiet=True)


@pytest.fixture(scope="module")
def run():
    return train(frame_of())


# Windows


def test_no_window_has_rows_of_two_series_and_all_that_fit_are_there():
    task = task_of(frame_of())
    panel = task.data.series
    series = np.repeat(np.arange(3), panel.lengths)
    for windows in (task.train, task.valid, task.test):
        rows = windows.rows(range(len(windows))).numpy()
        of = windows.series_of(range(len(windows)))
        assert (series[rows] == of[:, None]).all()
        firsts = rows[:, CONTEXT]
        slowly = [
            row
            for first, end in zip(windows.first, windows.end, strict=True)
            for row in range(first, end - HORIZON + 1)
        ]
        assert firsts.tolist() == slowly
        assert (windows.batch(range(len(windows)))["series"].flatten().numpy() == of).all()
    assert task.train.end.tolist() == [84, 120 + 63, 210 + 105]
    with_stride = replace(task.train, stride=4, offset=3)
    assert torch.equal(with_stride.rows([0, 2, 20]), task.train.rows([3, 11, 83]))


def test_each_series_has_the_scale_of_its_own_training_rows():
    frame = frame_of()
    task = task_of(frame)
    for k, (name, rows) in enumerate(LENGTHS.items()):
        own = frame[frame.store == name].sales.to_numpy()
        alone = task_of(frame[frame.store == name], id=None)
        start = int(task.data.series.starts[k])
        assert task.inputs_of(k).mean == alone.inputs.mean == (own[: rows * 7 // 10].mean(),)
        assert torch.equal(task.train.values[start : start + rows], alone.train.values)
    together = task_of(frame, scale="all")
    train = np.concatenate([frame[frame.store == name].sales[: rows * 7 // 10] for name, rows in LENGTHS.items()])
    assert together.scales is None
    assert together.inputs.mean[0] == pytest.approx(train.mean(), rel=1e-12)


def test_moments_add_up_over_the_windows_of_all_series():
    windows = task_of(frame_of()).train
    batch = windows.batch(range(len(windows)))
    whole = torch.cat((batch["x"][:, :CONTEXT], batch["y"]), dim=1)[..., 0].double().numpy()
    mean, covariance = moments(windows)
    np.testing.assert_allclose(mean, whole.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(covariance, np.cov(whole.T, bias=True), atol=1e-12)


def test_windows_from_the_end_are_every_kth_up_to_the_last():
    windows = task_of(frame_of()).valid
    for stride in (1, 3, 7):
        numbers = windows.from_the_end(stride)
        before = 0
        for column, count in zip(numbers.T, windows.counts, strict=True):
            expected = list(range((count - 1) % stride, count, stride))
            assert column[column >= 0].tolist() == [before + number for number in expected]
            assert (column[: len(column) - len(expected)] == -1).all()
            before += count


# One series


@pytest.mark.parametrize("changes", [{}, {"log": "on"}, {"context": None, "time_features": True}])
def test_one_id_is_no_id_to_the_bit(changes):
    frame = frame_of({"Oslo": 200})
    changes = {"level": (50, 80)} | changes
    one, none = task_of(frame, **changes), task_of(frame.drop(columns="store"), id=None, **changes)
    assert (one.context, one.period, one.inputs_of(0).mean) == (none.context, none.period, none.inputs.mean)
    assert table(one) == table(none)
    assert combine(one).weights == combine(none).weights
    finished = [train(frame, **changes), train(frame.drop(columns="store"), id=None, **changes)]
    assert finished[0].result["valid"] == finished[1].result["valid"]
    assert finished[0].result["test"] == finished[1].result["test"]
    assert finished[0].result["intervals"] == finished[1].result["intervals"]
    new = frame_of({"Oslo": 220})
    found, expected = (each.predict(new, level=[50, 80]) for each in finished)
    np.testing.assert_array_equal(found["Oslo"].values, expected.values)
    for ours, theirs in zip(found["Oslo"].intervals, expected.intervals, strict=True):
        np.testing.assert_array_equal(ours.low, theirs.low)
        np.testing.assert_array_equal(ours.high, theirs.high)


# Many series


def test_an_s4_forecasts_the_same_in_whatever_order_the_ids_come():
    frame, rng = frame_of(), np.random.default_rng(3)
    mixed = frame.assign(turn=rng.permutation(len(frame)))
    mixed["turn"] = mixed.groupby("store").turn.transform(
        lambda turns: np.sort(turns)
    )  # the rows of each store stay in order
    mixed = mixed.sort_values("turn")[list(frame)]
    assert (mixed.store.to_numpy()[1:] != mixed.store.to_numpy()[:-1]).sum() > 100
    chosen = experiment()
    chosen = replace(chosen, model=replace(chosen.model, trust=1.0))  # all of the correction by the S4
    one, other = (
        longwave.train_forecaster(rows, experiment=chosen, quiet=True).predict(rows, level=[80])
        for rows in (frame, mixed)
    )
    start = longwave.train_forecaster(
        frame, experiment=replace(chosen, model=replace(chosen.model, n_layers=0)), quiet=True
    ).predict(frame)
    for name in LENGTHS:
        np.testing.assert_allclose(other[name].values, one[name].values, rtol=1e-6)
        np.testing.assert_allclose(other[name].intervals[0].low, one[name].intervals[0].low, rtol=1e-6)
        assert np.abs(start[name].values / one[name].values - 1).max() > 1e-5


def test_the_order_of_rows_changes_nothing_and_that_of_ids_only_rounding():
    frame = frame_of()
    by_day = frame.sort_values("day", kind="stable")
    assert task_of(by_day).fingerprint == task_of(frame).fingerprint
    renamed = frame.assign(store=frame.store.map({"Berlin": "c", "Oslo": "b", "Rome": "a"}))
    one, other = combine(task_of(frame)), combine(task_of(renamed))
    for name, weight in one.weights.items():
        assert other.weights[name] == pytest.approx(weight, abs=1e-6)
    np.testing.assert_allclose(other.forecast.weight, one.forecast.weight, atol=1e-7)


def test_a_series_in_other_units_has_its_forecast_and_its_intervals_in_them(run):
    frame = frame_of()
    scaled = frame.assign(sales=frame.sales.where(frame.store != "Rome", 3 * frame.sales + 7))
    found, other = (train(data).predict(data, level=[80]) for data in (frame, scaled))
    for name in LENGTHS:
        a, b = (3, 7) if name == "Rome" else (1, 0)
        np.testing.assert_allclose(other[name].values, a * found[name].values + b, rtol=1e-3)
        low, high = found[name].intervals[0].low, other[name].intervals[0].low
        np.testing.assert_allclose(high, a * low + b, rtol=1e-3)


def test_each_series_is_forecast_from_its_own_rows_and_a_new_one_too(run):
    frame = frame_of()
    found = run.predict(frame, level=[80])
    assert list(found.each) == list(LENGTHS)
    assert len(found) == 3 * HORIZON
    assert found["Oslo"].times[0] == np.datetime64("2024-03-31")  # the day after its 90th
    assert list(found.table) == ["store", "day", "sales", "sales-lo-80", "sales-hi-80"]
    alone = run.predict(frame[frame.store == "Rome"], level=[80])
    np.testing.assert_allclose(alone["Rome"].values, found["Rome"].values, rtol=1e-6)
    np.testing.assert_array_equal(alone["Rome"].intervals[0].high, found["Rome"].intervals[0].high)
    new = frame[frame.store == "Rome"].assign(store="Paris")
    unseen = run.predict(new, level=[80])
    assert any("1 series was not trained on" in note and "'Paris'" in note for note in unseen.notes)
    ratio = unseen["Paris"].values / found["Rome"].values  # other rows scale it: nearly the same
    assert np.abs(ratio - 1).max() < 0.05
    assert (unseen["Paris"].intervals[0].low < unseen["Paris"].values).all()


def test_a_short_series_is_not_forecast_and_that_is_said(run):
    frame = frame_of()
    found = run.predict(pd.concat([frame[frame.store != "Oslo"], frame[frame.store == "Oslo"][:5]]))
    assert list(found.each) == ["Berlin", "Rome"]
    assert any(
        "1 of 3 series not forecast, having fewer than 14 known rows of context: 'Oslo'" in n for n in found.notes
    )
    with pytest.raises(
        ValueError, match=r"expected at least one store with 14 known rows of context, got 'Oslo' \(5 rows, from"
    ):
        run.predict(frame[frame.store == "Oslo"][:5])


def test_intervals_are_as_wide_as_the_series_is_hard_and_cover_what_they_say():
    rng, frames = np.random.default_rng(0), []
    for k, name in enumerate("abcdefgh"):
        rows = np.arange(300)
        noise = 4.0 if name == "h" else 1.0
        values = 50 * np.sin(2 * np.pi * rows / 7 + k) + noise * rng.standard_normal(300)
        frames.append(pd.DataFrame({"store": name, "day": pd.date_range("2024-01-01", periods=300), "sales": values}))
    finished = train(pd.concat(frames), level=(80,))
    assert 0.7 < finished.result["intervals"]["this run"]["80"]["coverage"] < 0.9
    found = finished.predict(pd.concat(frames), level=[80])
    widths = {name: float(np.mean(one.intervals[0].high - one.intervals[0].low)) for name, one in found.each.items()}
    assert widths["h"] > 2.5 * np.mean([widths[name] for name in "abcdefg"])


def test_errors_of_many_series_come_back_from_their_file_and_later_ones_follow():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((50, 2, 3)).astype(np.float32)
    values[:10, :, 1] = np.nan
    last = np.array(["2024-01-01", "2024-01-02", "2024-01-03"], "datetime64[s]")
    borders = np.array([[70, 60, 50], [80, 70, 60], [100, 90, 80]])
    stored = Residuals(values, 1, last, ("a", "b", "c"), borders)
    found = Residuals.from_bytes(stored.to_bytes(), (2, 1), "file", is_panel=True)
    assert found.ids == stored.ids
    np.testing.assert_array_equal(found.values, values)
    np.testing.assert_array_equal(found.borders, borders)
    with pytest.raises(ValueError, match=r"file: expected errors of windows .*borders of shape \(2, 3\)"):
        Residuals.from_bytes(replace(stored, borders=borders[:2]).to_bytes(), (2, 1), "file", is_panel=True)
    new = np.full((4, 2, 2), np.nan, np.float32)
    new[2:, :, 0], new[:, :, 1] = 7, 8
    after = found.followed_by(new, ("b", "z"))
    assert after.ids == ("a", "b", "c", "z")
    np.testing.assert_array_equal(after.values[-50:, :, 0], values[..., 0])
    np.testing.assert_array_equal(after.values[-42:-2, :, 1], values[10:, :, 1])
    assert (after.values[-2:, :, 1] == 7).all()
    assert (after.values[-4:, :, 3] == 8).all()
    assert np.isnan(after.values[:-4, :, 3]).all()
    with pytest.raises(ValueError, match="file: expected errors of windows"):
        Residuals.from_bytes(b"no", (2, 1), "file", is_panel=True)


def test_spread_is_relative_and_few_errors_say_little():
    errors = np.ones((400, 1, 3), np.float32)
    errors[..., 1] = 3
    errors[:-1, :, 2] = np.nan
    many, more, few = intervals._spread(errors, 1)
    assert more / many == pytest.approx(3, rel=0.01)
    assert abs(few - 1) < abs(many - 1)
    assert intervals._spread(errors[..., :1], 1).tolist() == [1.0]


def test_scores_of_logarithms_are_those_of_the_values_of_each_series():
    frame = frame_of()
    plain, logs = task_of(frame), task_of(frame, log="on")
    ours, theirs = (task.test.batch(range(len(task.test))) for task in (plain, logs))
    torch.testing.assert_close(logs.in_units(theirs["y"], theirs["series"]).float(), ours["y"], rtol=1e-4, atol=1e-4)
    assert isinstance(better(logs, plain), bool)


def test_scales_come_back_from_their_file():
    scales = Scales(("a", "b"), np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    found = Scales.from_bytes(scales.to_bytes(), "file")
    assert found.ids == scales.ids
    np.testing.assert_array_equal([found.mean, found.deviation], [scales.mean, scales.deviation])
    broken = Scales(("a", "b"), np.array([1.0, 2.0]), np.array([3.0, 0.0]))
    for content in (b"", broken.to_bytes()):
        with pytest.raises(ValueError, match="file: expected the scales of series"):
            Scales.from_bytes(content, "file")


def test_gaps_of_many_series_are_left_out_and_one_that_is_not_known_at_all_too():
    frame = frame_of()
    frame.loc[frame.index[30:34], "sales"] = np.nan
    frame.loc[frame.store == "Oslo", "sales"] = [np.nan] * 80 + [1.0] * 10
    task = task_of(frame, fill="mask")
    assert task.data.series.ids == ("Berlin", "Rome")
    assert any("1 of 3 series is left out, with too few rows to train on" in note for note in task.notes)
    batch = task.train.batch(range(len(task.train)))
    assert not batch["known"].all()
    assert task.count(batch) == int(batch["known"].sum())


# What is refused


def write(path, rows, header="store,day,sales"):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def rows_of(name, days, value=1.0):
    return [f"{name},2024-01-{day:02d},{value + day % 3}" for day in days]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [*rows_of("a", range(1, 9)), "a,2024-01-08,3"],
            "store 'a': .*line 10: the time 2024-01-08 00:00:00 is the same",
        ),
        (
            [*rows_of("a", range(1, 9)), *rows_of("b", [1, 3, 5, 7])],
            "line 10: store 'b': the rows are 2 days apart, and",
        ),
        ([*rows_of("a", [1, 2, 3, 5, 6])], "store 'a': .*line 5: expected 2024-01-04 00:00:00, 1 day after"),
        ([*rows_of("a", range(1, 4)), ",2024-01-04,3"], "line 5, column 'store': the id is missing"),
        (
            [*rows_of("a", [1]), *rows_of("b", [1])],
            r"every store is a series of a single row, such as 'a' \(.*line 2\)",
        ),
        ([*rows_of("a", range(1, 4)), "a,2024-01-04,x"], "store 'a': .*line 5, column 'sales': expected a number, got"),
        ([*rows_of("a", range(1, 4)), "a,2024-01-04,"], "store 'a': .*line 5, column 'sales': missing value"),
    ],
)
def test_what_is_wrong_with_a_series_is_said_with_its_id_and_line(rows, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_series(write(tmp_path / "a.csv", rows), "sales", "day", id="store")


@pytest.mark.parametrize("time", [None, "day"])
@pytest.mark.parametrize("name", ["a", "b"])
def test_an_unreadable_time_of_any_series_is_named(name, time, tmp_path):
    rows = [*rows_of("a", range(1, 21)), *rows_of("b", range(1, 16))]
    line = rows.index(f"{name},2024-01-05,3.0")
    rows[line] = f"{name},2024-01-55,3.0"
    with pytest.raises(ValueError, match=rf"a\.csv, line {line + 2}: expected a time such as .*, got '2024-01-55'"):
        read_series(write(tmp_path / "a.csv", rows), "sales", time, id="store")


def test_a_series_of_one_row_is_left_out_with_its_line(tmp_path):
    panel = read_series(
        write(tmp_path / "a.csv", [*rows_of("a", range(1, 9)), *rows_of("b", [3])]), "sales", id="store"
    )
    assert panel.ids == ("a",)
    assert panel.time == "day"
    assert panel.notes[-1].startswith("series of a single row are left out: 'b' (")
    assert "line 10" in panel.notes[-1]


def test_a_series_without_numbers_is_left_out_where_gaps_may_be(tmp_path):
    path = write(tmp_path / "a.csv", [*rows_of("a", range(1, 9)), "b,2024-01-01,", "b,2024-01-02,"])
    panel = read_series(path, "sales", "day", id="store", fill="linear")
    assert panel.ids == ("a",)
    assert panel.notes[-1].startswith("series without a number in column 'sales' are left out: 'b' (")


def test_all_too_short_names_the_longest_and_its_row():
    frame = frame_of({"a": 12, "b": 15})
    with pytest.raises(
        ValueError, match=r"no store has enough rows for a horizon of 5 and a context of 14: expected at le"
    ):
        task_of(frame)
    with pytest.raises(ValueError, match=r"'b' \(15 rows, from row 12\)"):
        task_of(frame)


def test_wrong_columns_are_refused(run):
    frame = frame_of()
    with pytest.raises(ValueError, match="id: no column 'shop'"):
        task_of(frame, id="shop")
    with pytest.raises(ValueError, match="id: no column 'store'"):
        run.predict(frame.drop(columns="store"))
    with pytest.raises(ValueError, match="multivariate: expected one target of many series"):
        task_of(frame, multivariate=True)


def test_a_context_suits_most_rows_and_half_of_the_series():
    lengths = {f"short {k}": 40 for k in range(6)} | {"long": 2000}
    assert custom(read_series(frame_of(lengths, 1e-3), "sales", id="store"), 5, None).context == 7
    one_short = {f"{k}": 400 for k in range(5)} | {"short": 40}
    task = custom(read_series(frame_of(one_short, 1e-3), "sales", id="store"), 5, None)
    assert task.context > 80
    assert len(task.data.series.ids) == 5
