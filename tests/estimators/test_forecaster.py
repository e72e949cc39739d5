"""The estimator of series: what comes in as a data frame goes out as one, and equals the commands."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from command import call

import longwave
from longwave import S4Forecaster

ROWS = 500
TIMES = pd.date_range("2024-01-01", periods=ROWS, freq="h")
VALUES = 10 + np.sin(np.arange(ROWS) * 2 * np.pi / 24) + 0.1 * np.random.default_rng(0).standard_normal(ROWS)
FRAME = pd.DataFrame({"ds": TIMES, "y": VALUES})
SMALL = {"horizon": 6, "context": 24, "d_model": 8, "n_layers": 1, "epochs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return S4Forecaster(**SMALL).fit(FRAME[:480])


def test_forms_of_data_agree_to_the_bit_and_come_out_as_they_came_in(fitted):
    expected = fitted.predict()
    assert list(expected.columns) == ["ds", "y"]
    assert expected["ds"].tolist() == TIMES[480:486].tolist()
    for given, kind in (
        (pl.from_pandas(FRAME[:480]), pl.DataFrame),
        (pa.Table.from_pandas(FRAME[:480]), pa.Table),
        (FRAME[:480].set_index("ds"), pd.DataFrame),
        (pd.Series(VALUES[:480], index=TIMES[:480], name="y"), pd.DataFrame),
    ):
        found = S4Forecaster(**SMALL).fit(given).predict()
        assert isinstance(found, kind)
        np.testing.assert_array_equal(np.asarray(found["y"]), expected["y"])
    indexed = S4Forecaster(**SMALL).fit(FRAME[:480].set_index("ds")).predict()
    assert indexed.index.tolist() == TIMES[480:486].tolist()


def test_arrays_give_arrays():
    one = S4Forecaster(**SMALL).fit(VALUES).predict()
    assert one.shape == (6,)
    both = S4Forecaster(**SMALL, multivariate=True).fit(np.stack([VALUES, -VALUES], 1)).predict()
    assert both.shape == (6, 2)


@pytest.mark.usefixtures("own_folder")
def test_it_equals_the_commands_on_the_same_file_to_the_bit():
    FRAME.to_csv("my.csv", index=False)
    forecaster = S4Forecaster(**SMALL, folder="run").fit(FRAME, target_col="y", time_col="ds")
    seed = longwave.open("run").experiment.loop.seed
    sizes = ["--horizon", "6", "--context", "24", "--test", "0", "--model.d-model", "8"]
    settings = ["--model.n-layers", "1", "--loop.epochs", "1", "--loop.seed", str(seed), "--quiet", "--out", "own"]
    assert call("train", "forecast", "--csv", "my.csv", "--target", "y", "--time", "ds", *sizes, *settings) == 0
    for run in ("own", "run"):
        assert call("predict", run, "--csv", "my.csv", "--out", f"{run}.csv") == 0
    assert Path("own.csv").read_text() == Path("run.csv").read_text()
    np.testing.assert_array_equal(longwave.open("own").predict("my.csv").values[:, 0], forecaster.predict()["y"])
    with pytest.raises(ValueError, match=r"update was given the file my\.csv; append the new rows"):
        forecaster.update("my.csv")
    of_file = S4Forecaster(**SMALL).fit("my.csv")
    np.testing.assert_array_equal(of_file.predict()["y"], forecaster.predict()["y"])
    with pytest.raises(ValueError, match=r"fit was given the file my\.csv"):
        of_file.update(FRAME[:10])


def test_new_rows_move_it_on_and_nothing_is_trained(fitted):
    moved = pickle.loads(pickle.dumps(fitted))
    moved.update(FRAME[480:481]).update(FRAME[481:490])
    expected = fitted.predict(FRAME[:490])
    pd.testing.assert_frame_equal(moved.predict(), expected, check_exact=True)
    with pytest.raises(ValueError, match="time"):
        moved.update(FRAME[480:485])


def test_saved_and_loaded_it_forecasts_what_follows_rows_that_are_given(fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    loaded = S4Forecaster.load(tmp_path / "saved")
    assert loaded.horizon == 6
    pd.testing.assert_frame_equal(loaded.predict(FRAME[:480]), fitted.predict(), check_exact=True)
    for call_it in (loaded.predict, lambda: loaded.update(FRAME[480:])):
        with pytest.raises(ValueError, match="df: expected the rows to forecast from"):
            call_it()


def test_a_loaded_forecaster_has_the_parameters_and_columns_that_it_was_fitted_with(tmp_path):
    rows = FRAME[:200].rename(columns={"y": "load", "ds": "hour"})
    beside = {"promo": np.arange(200) % 3, "visits": VALUES[200:400], "region": "north"}
    both = pd.concat([rows.assign(store=store, **beside) for store in "ab"], ignore_index=True)
    given = {"id_col": "store", "past": ("visits",), "future": ("promo",), "static": ("region",), "scale": "all"}
    fc = S4Forecaster(**SMALL, **given, fill="mask", level=(80.0,)).fit(both, target_col="load", time_col="hour")
    fc.save(tmp_path)
    loaded = S4Forecaster.load(tmp_path)
    ignored = ("random_state",)  # the seed that was drawn from it
    before, after = ({k: v for k, v in one.get_params().items() if k not in ignored} for one in (fc, loaded))
    assert after == before
    hours = np.concatenate([TIMES[200:206]] * 2)
    plan = pd.DataFrame({"store": np.repeat(["a", "b"], 6), "hour": hours, "promo": 1})
    found = loaded.predict(both, future=plan)
    assert list(found.columns) == ["store", "hour", "load", "load-lo-80", "load-hi-80"]
    pd.testing.assert_frame_equal(found, fc.predict(future=plan), check_exact=True)
    again = loaded.fit(both, target_col="load", time_col="hour").predict(future=plan)
    assert again["store"].tolist() == found["store"].tolist()


def test_columns_are_found_by_their_names(fitted):
    renamed = FRAME[:480].rename(columns={"y": "load", "ds": "hour"})
    named = S4Forecaster(**SMALL).fit(renamed, target_col="load", time_col="hour").predict()
    assert list(named.columns) == ["hour", "load"]
    np.testing.assert_array_equal(named["load"], fitted.predict()["y"])
    np.testing.assert_array_equal(S4Forecaster(**SMALL).fit(renamed).predict()["load"], named["load"])
    with pytest.raises(ValueError, match="target_col: no column 'lod'; expected one of hour, load; did you mean"):
        S4Forecaster(**SMALL).fit(renamed, target_col="lod")


def test_one_id_is_one_series_and_many_are_forecast_together(fitted, tmp_path):
    one = FRAME[:480].assign(store=7)
    found = S4Forecaster(**SMALL).fit(one, id_col="store").predict()
    np.testing.assert_array_equal(found["y"], fitted.predict()["y"])
    assert found["store"].tolist() == [7] * 6
    two = pd.concat([one, one.assign(store=3, y=100 * one.y)])
    many = S4Forecaster(**SMALL, id_col="store", level=[80]).fit(two)
    found = many.predict()
    assert list(found.columns) == ["store", "ds", "y", "y-lo-80", "y-hi-80"]
    assert found["store"].dtype == two["store"].dtype
    assert found["store"].tolist() == [3] * 6 + [7] * 6
    np.testing.assert_allclose(found["y"][:6], 100 * found["y"][6:], rtol=1e-5)
    pd.testing.assert_frame_equal(many.predict(two), found)
    many.save(tmp_path)
    pd.testing.assert_frame_equal(S4Forecaster.load(tmp_path).set_params(level=[80]).predict(two), found)
    later = two.groupby("store").tail(3).assign(ds=lambda rows: rows.ds + pd.Timedelta("3h"))
    np.testing.assert_allclose(many.update(later).predict()["y"], many.predict(pd.concat([two, later]))["y"], rtol=1e-6)
    assert many.predict()["ds"].tolist() == TIMES[483:489].tolist() * 2
    assert isinstance(many.predict(pl.from_pandas(two)), pl.DataFrame)
    assert many.plot().get_ylabel() == "3: y"
    with pytest.raises(ValueError, match="id_col: no column 'shop'"):
        S4Forecaster(**SMALL).fit(one, id_col="shop")


def test_a_lazy_frame_is_refused_with_the_cure():
    with pytest.raises(ValueError, match=r"got a LazyFrame; call \.collect\(\)"):
        S4Forecaster(**SMALL).fit(pl.from_pandas(FRAME).lazy())


def test_gaps_are_filled_as_asked():
    gappy = FRAME[:480].copy()
    gappy.loc[100:103, "y"] = np.nan
    with pytest.raises(ValueError, match="missing value"):
        S4Forecaster(**SMALL).fit(gappy)
    assert S4Forecaster(**SMALL, fill="linear").fit(gappy).predict().shape == (6, 2)
    masked = S4Forecaster(**SMALL, fill="mask").fit(gappy)
    assert not any("not scored" in note for note in masked.run_.config.notes)  # there is no test set to miss it in


def test_a_plot_has_dates(fitted):
    from matplotlib.figure import Figure

    axes = fitted.plot(ax=Figure().add_subplot())
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["known", "forecast"]
    assert axes.get_ylabel() == "y"
    assert type(axes.xaxis.get_major_formatter()).__name__ == "ConciseDateFormatter"


def test_intervals_are_columns_after_the_forecast_which_they_leave_as_it_is(fitted, tmp_path):
    names = ["y-lo-80", "y-hi-80", "y-lo-95", "y-hi-95"]
    with_level = S4Forecaster(**SMALL, level=[80, 95]).fit(FRAME[:480])
    found = with_level.predict()
    assert list(found.columns) == ["ds", "y", *names]
    pd.testing.assert_frame_equal(found[["ds", "y"]], fitted.predict(), check_exact=True)
    in_polars = with_level.predict(pl.from_pandas(FRAME[:480]))
    assert in_polars.columns == ["ds", "y", *names]
    np.testing.assert_array_equal(in_polars["y-hi-95"], found["y-hi-95"])
    with_level.save(tmp_path / "saved")
    loaded = S4Forecaster.load(tmp_path / "saved")
    pd.testing.assert_frame_equal(loaded.predict(FRAME[:480]), found, check_exact=True)
    assert {band.get_label() for band in with_level.plot().collections} == {"80 %", "95 %"}
    moved = with_level.update(FRAME[480:490])
    pd.testing.assert_frame_equal(moved.predict(), loaded.predict(FRAME[:490]), check_exact=True)
    result = json.loads((tmp_path / "saved" / "result.json").read_text())
    (tmp_path / "saved" / "result.json").write_text(json.dumps({**result, "files": []}))  # as an older one has it
    with pytest.raises(ValueError, match=f"longwave evaluate {tmp_path}/saved --residuals"):
        S4Forecaster.load(tmp_path / "saved").predict(FRAME)
    array = S4Forecaster(**SMALL, level=90).fit(VALUES[:480]).predict()
    assert array.shape == (6, 3)
