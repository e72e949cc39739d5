"""The report of a forecast shows it in the units of the data."""

import numpy as np
import pytest
import torch
from constant_model import answering

from longwave.tasks.forecast import report as forecast
from longwave.tasks.forecast.task import ForecastConfig


@pytest.mark.parametrize("multivariate", [False, True])
def test_windows_are_drawn_in_the_units_of_the_data(multivariate, tmp_path, monkeypatch):
    prices = 1000 + 50 * np.sin(np.arange(100))
    rows = (f"{price},{k}" for k, price in enumerate(prices))
    (tmp_path / "my.csv").write_text("price,volume\n" + "\n".join(rows) + "\n")
    task = ForecastConfig(
        csv=tmp_path / "my.csv", target="price", multivariate=multivariate, horizon=3, context=10
    ).build()
    drawn = []
    monkeypatch.setattr(forecast, "draw_windows", lambda *arguments: drawn.append(arguments))
    monkeypatch.setattr(forecast, "image", lambda draw, alt: draw() or alt)
    truth = task.test.batch([0, 6, 11, 17])["y"]  # 18 windows in 20 rows
    forecast.report(answering(truth), task)
    ((windows, _, names, _, bands),) = drawn
    assert (names, bands) == (["price"] * 4, [])  # no errors are known of a model that was not trained
    for (known, true, guess), first in zip(windows, (80, 86, 91, 97), strict=True):
        np.testing.assert_allclose(known, prices[first - 10 : first], rtol=1e-6)
        np.testing.assert_allclose(true, prices[first : first + 3], rtol=1e-6)
        np.testing.assert_allclose(guess, true)


def test_windows_have_the_times_of_their_rows_if_there_are_any(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(forecast, "draw_windows", lambda *arguments: drawn.append(arguments[3]))
    monkeypatch.setattr(forecast, "image", lambda draw, alt: draw() or alt)
    hours = np.datetime64("2024-01-01T00") + np.arange(100)
    (tmp_path / "my.csv").write_text("date,price\n" + "".join(f"{hour}:00,{k % 7}\n" for k, hour in enumerate(hours)))
    for time in ("date", "none"):
        task = ForecastConfig(csv=tmp_path / "my.csv", target="price", time=time, horizon=3, context=10).build()
        forecast.report(answering(torch.zeros(4, 3, 1)), task)
    times, without = drawn
    assert times.tolist() == [
        hours[first - 10 : first + 3].astype("datetime64[s]").tolist() for first in (80, 86, 91, 97)
    ]
    assert without is None


def test_what_is_not_known_is_drawn_as_a_gap(tmp_path, monkeypatch):
    prices = 1000 + 50 * np.sin(np.arange(100))
    is_missing = np.isin(np.arange(100), [70, 75, 81, 82, 99])
    cells = ["" if missing else repr(float(price)) for price, missing in zip(prices, is_missing, strict=True)]
    (tmp_path / "my.csv").write_text("price,k\n" + "".join(f"{cell},{k}\n" for k, cell in enumerate(cells)))
    task = ForecastConfig(csv=tmp_path / "my.csv", target="price", horizon=3, context=10, fill="mask").build()
    drawn = []
    monkeypatch.setattr(forecast, "draw_windows", lambda *arguments: drawn.append(arguments))
    monkeypatch.setattr(forecast, "image", lambda draw, alt: draw() or alt)
    forecast.report(answering(torch.zeros(4, 3, 1)), task)
    ((windows, *_),) = drawn
    expected = np.where(is_missing, np.nan, prices)
    for (known, true, guess), first in zip(windows, (80, 86, 91, 97), strict=True):
        np.testing.assert_allclose(known, expected[first - 10 : first], rtol=1e-6)
        np.testing.assert_allclose(true, expected[first : first + 3], rtol=1e-6)
        assert guess.isfinite().all()
