"""Columns beside the target: what a forecast may see of them, what it makes of them, and what is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import longwave
from longwave import S4Forecaster
from longwave.experiments import EXPERIMENTS
from longwave.tasks.forecast import combine
from longwave.tasks.forecast.baselines import Problem, moments, ridge
from longwave.tasks.forecast.covariates import Covariate, Covariates
from longwave.tasks.forecast.series import read_series
from longwave.tasks.forecast.task import ForecastConfig

ROWS, CONTEXT, HORIZON = 260, 10, 4
BESIDE = {"past": ("visits",), "future": ("promo", "holiday"), "static": ("region",)}


def frame_of(rows=ROWS, stores=("a", "b"), seed=0):
    """y = 0.5 lag + 2 promo, and visits that say nothing."""
    frames = []
    for k, store in enumerate(stores):
        rng = np.random.default_rng([seed, k])
        promo, y = (rng.random(rows) < 0.3).astype(float), np.zeros(rows)
        for t in range(rows):
            y[t] = (0.5 * y[t - 1] if t else 0) + 2 * promo[t] + 0.1 * rng.standard_normal()
        days = pd.date_range("2024-01-01", periods=rows)
        frames.append(
            pd.DataFrame(
                {
                    "store": store,
                    "day": days,
                    "y": y,
                    "visits": rng.standard_normal(rows),
                    "promo": promo,
                    "holiday": np.where(days.day_of_week == 6, "Sunday", "no"),
                    "region": ["north", "south"][k % 2],
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def settings(**changes):
    given = {"data": "own", "target": "y", "context": CONTEXT, "horizon": HORIZON, "independent": True, "id": "store"}
    return ForecastConfig(**given | {"time_features": False, "log": "off"} | BESIDE | changes)


def task_of(frame, **changes):
    return settings(**changes).on_frame(None, frame).task


def train(frame, folder=None, **changes):
    forecast = EXPERIMENTS.find("forecast")
    experiment = replace(
        forecast,
        task=settings(**{"level": (50, 80)} | changes),
        model=replace(forecast.model, n_layers=1, d_model=4, trust=1.0),
        loop=replace(forecast.loop, epochs=1),
    )
    return longwave.train_forecaster(frame, folder, experiment=experiment, quiet=True)


def known_and_ahead(frame, rows=ROWS - HORIZON):
    """The first rows of each store, and what is known of those that follow."""
    each = frame.groupby("store")
    return each.head(rows), each.tail(len(frame) // frame.store.nunique() - rows)[["store", "day", "promo", "holiday"]]


@pytest.fixture(scope="module")
def run():
    return train(known_and_ahead(frame_of())[0])


# What a forecast may see


def test_what_is_known_in_the_past_alone_is_0_in_the_rows_to_forecast():
    task = task_of(frame_of())
    batch = task.train.batch([0, 5])
    roles = np.array(task.covariates.roles)
    assert roles.tolist() == ["past", "future", *["future"] * 3, *["static"] * 3]
    assert batch["time"].shape == (2, CONTEXT + HORIZON, len(roles))
    assert (batch["time"][:, CONTEXT:, roles == "past"] == 0).all()
    assert (batch["time"][:, :CONTEXT, roles == "past"] != 0).all()
    promo = task.data.series.beside["promo"][5 : 5 + CONTEXT + HORIZON]
    expected = (promo - task.covariates.each[1].mean) / task.covariates.each[1].deviation
    np.testing.assert_allclose(batch["time"][1, :, 1].numpy(), expected, rtol=1e-6)


def test_later_rows_change_no_forecast_and_what_is_known_ahead_does(run):
    frame = frame_of()
    known, ahead = known_and_ahead(frame)
    found = run.predict(known, future=ahead, level=[50])
    later = ahead.assign(day=ahead.day + pd.Timedelta(days=HORIZON), promo=77.0)
    same = run.predict(known, future=pd.concat([ahead.assign(visits=1e6), later]), level=[50])
    other = run.predict(known, future=ahead.assign(promo=1 - ahead.promo))
    for store in "ab":
        np.testing.assert_array_equal(same[store].values, found[store].values)
        np.testing.assert_array_equal(same[store].intervals[0].low, found[store].intervals[0].low)
        change = (other[store].values - found[store].values)[:, 0]
        sign = 1 - 2 * ahead[ahead.store == store].promo.to_numpy()
        assert np.abs(change[0]) > 1.5
        assert np.sign(change[0]) == sign[0]


def test_past_columns_after_the_origin_change_no_window_before():
    frame = frame_of(stores=("a",))
    changed = frame.assign(visits=frame.visits.where(frame.index < 230, 1e3))
    one, other = task_of(frame), task_of(changed)
    for number in range(len(one.test)):
        first = int(one.test.rows([number])[0, CONTEXT])
        before, after = (task.test.batch([number]) for task in (one, other))
        assert torch.equal(before["time"], after["time"]) == (first <= 230)
        assert torch.equal(before["x"], after["x"])


def test_a_promotion_halves_the_error_and_more(run):
    frame = frame_of()
    scores = [train(frame, **beside).result["test"]["mse"] for beside in ({"past": (), "future": (), "static": ()}, {})]
    assert scores[1] < 0.25 * scores[0]  # half of the error is a quarter of its square
    assert run.result["intervals"]["this run"]["80"]["coverage"] > 0.6


def test_a_category_says_what_a_number_says():
    frame = frame_of(stores=("a",))
    frame["kind"] = np.where(frame.promo > 0, "yes", "no")
    beside = {"past": (), "static": (), "id": None}
    number, category = (train(frame, **beside, future=(name,)).result["test"]["mse"] for name in ("promo", "kind"))
    assert category == pytest.approx(number, rel=0.2)


# Regressors


def test_the_moments_of_values_and_regressors_are_those_of_all_windows():
    task = task_of(frame_of())
    places = combine.regressors(task)
    batch = task.train.batch(range(len(task.train)))
    whole = torch.cat((batch["x"][:, :CONTEXT, 0], batch["y"][..., 0], batch["time"].flatten(1)[:, places]), dim=1)
    mean, covariance = moments(task.train, places)
    np.testing.assert_allclose(mean, whole.double().numpy().mean(0), atol=1e-10)
    np.testing.assert_allclose(covariance, np.cov(whole.double().numpy().T, bias=True), atol=1e-10)
    alone = Problem.of(task, places).alone
    np.testing.assert_allclose(alone.train[1], moments(task.train)[1], atol=1e-10)


def test_a_ridge_on_regressors_is_least_squares_for_a_small_penalty():
    task = task_of(frame_of(), past=(), static=())
    places = combine.regressors(task)
    found = ridge(Problem.of(task, places), "none", np.eye(CONTEXT))
    batch = task.every_train_window.batch(range(len(task.train)))
    z = batch["time"].flatten(1)[:, places].double().numpy()
    x = np.concatenate((batch["x"][:, :CONTEXT, 0].double().numpy(), z, np.ones((len(z), 1))), axis=1)
    expected = x @ np.linalg.lstsq(x, batch["y"][..., 0].double().numpy(), rcond=None)[0]
    ours = found(batch["x"], batch["time"])[..., 0].numpy()
    assert np.square(ours - expected).mean() < 1e-3 * np.square(expected).mean()
    unused = np.setdiff1d(np.arange(batch["time"][0].numel()), places)
    changed = batch["time"].clone().flatten(1)
    changed[:, unused] = 7.0
    assert torch.equal(found(batch["x"], changed.reshape(batch["time"].shape)), found(batch["x"], batch["time"]))


def test_an_untrained_model_is_the_combination_with_its_regressors():
    task = task_of(frame_of())
    forecast = EXPERIMENTS.find("forecast")
    config = replace(forecast.model, n_layers=1, d_model=4).resolve(task.spec)
    model = config.build()
    config.prepare(model, task.spec)
    batch = task.test.batch(range(5))
    y = model.eval()(batch["x"], time=batch["time"])[0]
    expected = combine.combine(task).forecast(batch["x"], batch["time"])
    torch.testing.assert_close(y, expected.float(), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="time: this model regresses on features beside the input, got none"):
        model(batch["x"])


# Reading and storing


def test_a_category_that_was_not_in_training_is_one_of_its_own_with_a_note(run):
    known, ahead = known_and_ahead(frame_of())
    found = run.predict(known, future=ahead.assign(holiday="Easter"))
    assert any("column 'holiday': 'Easter' was not in training" in note for note in found.notes)
    features = Covariate("holiday", "future", categories=("a", "b")).features(np.array(["b", "x", ""], object))
    assert features.tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1]]


def test_covariates_come_back_from_json_and_damage_is_refused():
    given = Covariates((Covariate("a", "past", 1.0, 2.0), Covariate("b", "static", categories=("x", "y"))))
    assert Covariates.from_plain(given.to_plain()) == given
    for damaged in ("no", [1], [{"name": 3}], [{"other": 1}], [{"name": "a", "known": "never"}]):
        with pytest.raises(ValueError, match="expected"):
            Covariates.from_plain(damaged)


def test_a_run_in_a_folder_is_scored_again_and_forms_of_data_agree(tmp_path):
    known, ahead = known_and_ahead(frame_of())
    finished = train(known, tmp_path / "run")
    assert longwave.open(tmp_path / "run").evaluate() == finished.result["test"]
    expected = finished.predict(known, future=ahead)["b"].values
    known.to_csv(tmp_path / "known.csv", index=False)
    ahead.to_csv(tmp_path / "ahead.csv", index=False)
    for rows, later in (
        (tmp_path / "known.csv", tmp_path / "ahead.csv"),
        (pl.from_pandas(known), pl.from_pandas(ahead)),
    ):
        found = longwave.open(tmp_path / "run").predict(rows, future=later)
        np.testing.assert_allclose(found["b"].values, expected, rtol=1e-6)


def test_the_estimator_takes_them():
    known, ahead = known_and_ahead(frame_of())
    small = {"context": CONTEXT, "d_model": 4, "n_layers": 1, "epochs": 1, "random_state": 0}
    fc = S4Forecaster(HORIZON, id_col="store", past="visits", future=["promo"], static=["region"], **small)
    found = fc.fit(known, time_col="day").predict(future=ahead)
    truth = frame_of().groupby("store").tail(HORIZON)
    assert found["store"].tolist() == truth["store"].tolist()
    assert np.abs(found["y"].to_numpy() - truth["y"].to_numpy()).mean() < 0.5
    with pytest.raises(ValueError, match="future: this run was trained with columns that are known ahead, promo"):
        fc.predict()


def test_one_series_without_times_takes_the_rows_ahead_in_order():
    frame = frame_of(stores=("a",))[["y", "promo"]]
    finished = train(frame[:-HORIZON], id=None, past=(), static=(), future=("promo",))
    found = finished.predict(frame[:-HORIZON], future=frame[-HORIZON:])
    assert np.abs(found.values[:, 0] - frame.y[-HORIZON:]).mean() < 0.5


def test_rows_ahead_of_a_series_that_is_too_short_to_be_forecast_are_passed_over(run):
    known, ahead = known_and_ahead(frame_of())
    short = pd.concat([known[known.store == "a"], known[known.store == "b"][:3]])
    found = run.predict(short, future=ahead)
    assert list(found.each) == ["a"]
    np.testing.assert_allclose(found["a"].values, run.predict(known, future=ahead)["a"].values, rtol=1e-6)


def test_the_course_of_the_year_needs_times_beside_columns_that_are_known():
    frame = frame_of(rows=900, stores=("a",))
    finished = train(frame[:-HORIZON], id=None, past=(), static=(), future=("promo",), yearly="on")
    ahead = frame[-HORIZON:]
    assert np.abs(finished.predict(frame[:-HORIZON], future=ahead).values[:, 0] - ahead.y).mean() < 0.5
    with pytest.raises(ValueError, match=r"no column 'day'|the model was trained with times"):
        finished.predict(frame[:-HORIZON].drop(columns="day"), future=ahead)


def test_missing_cells_are_refused_or_what_they_were_before():
    frame = frame_of(stores=("a",)).drop(columns="store")
    frame.loc[[5, 6], "visits"] = np.nan
    frame.loc[7, "holiday"] = None
    with pytest.raises(ValueError, match="row 5, column 'visits': missing value; fill it in, or use fill='linear'"):
        task_of(frame, id=None)
    series = task_of(frame, id=None, fill="linear").data.series
    assert series.beside["visits"][4:7].tolist() == [frame.visits[4]] * 3
    assert series.beside["holiday"][7] == frame.holiday[6]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda f: f.drop(f.index[2]),
            "no row for 2024-09-15 of store 'a'; expected promo, holiday for the 4",
        ),
        (lambda f: f.assign(promo=[1.0, np.nan] * 4), "row 1: promo is missing for 2024-09-14"),
        (lambda f: f.assign(holiday=["no", None] * 4), "row 1: holiday is missing for 2024-09-14"),
        (lambda f: f.assign(store="z"), "row 0: store 'z' is not among the series to forecast"),
        (lambda f: pd.concat([f, f[:1]]), "row 8: 2024-09-13 is given twice of store 'a'"),
        (lambda f: f.drop(columns="promo"), "future: no column 'promo'"),
        (lambda f: f.assign(promo="much"), "row 0, column 'promo': expected a number, got 'much'"),
        (lambda f: None, "future: this run was trained with columns that are known ahead, promo, holiday; expected"),
    ],
)
def test_what_is_wrong_with_the_rows_ahead_is_said_with_its_row(change, message, run):
    known, ahead = known_and_ahead(frame_of())
    with pytest.raises(ValueError, match=message):
        run.predict(known, future=change(ahead.reset_index(drop=True)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"future": ("y",)}, "future: column 'y' has another role already"),
        ({"past": ("nothing",)}, "past: no column 'nothing'"),
        ({"past": ("promo",)}, "column 'promo' is named twice"),
        (
            {"static": ("holiday",), "future": ()},
            "store 'a': static: column 'holiday' changes from 'no' to 'Sunday' at row",
        ),
        ({"multivariate": True, "id": None}, "target: expected the name of one column to forecast beside others"),
    ],
)
def test_wrong_names_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        task_of(frame_of(), **changes)


def test_too_many_categories_are_refused():
    frame = frame_of(stores=("a",)).assign(note=[f"n{k}" for k in range(ROWS)])
    with pytest.raises(ValueError, match="past: column 'note' has 182 different values in training, such as 'n0'"):
        task_of(frame, past=("note",), future=(), static=())


def test_times_and_target_alone_are_read_beside_them():
    frame = frame_of(stores=("a",))
    series = read_series(frame, "y", beside={"promo": "future", "holiday": "future"})
    assert series.columns == ("y",)
    assert series.time == "day"
    assert series.beside["promo"].dtype == float
    assert set(series.beside["holiday"]) == {"no", "Sunday"}
