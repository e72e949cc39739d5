"""Pictures of forecasts show what they are said to show."""

import numpy as np
import pytest
import torch

from longwave.tasks.forecast.plots import draw_continuation, draw_windows
from longwave.tasks.forecast.predict import Continuation


def test_a_window_shows_the_end_of_what_is_known_and_the_forecast_over_the_truth():
    known, truth, forecast = torch.arange(9.0), torch.arange(9.0, 12.0), torch.arange(3.0)
    figure = draw_windows([(known, truth, forecast)] * 2, context_shown=4, names=["cost in $"] * 2)
    assert len(figure.axes) == 2
    assert figure.axes[0].get_ylabel() == r"cost in \$"
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert lines["known"].get_ydata().tolist() == [5, 6, 7, 8]
    assert lines["truth"].get_ydata().tolist() == [8, 9, 10, 11]  # joined to what is known
    assert lines["forecast"].get_xdata().tolist() == [1, 2, 3]
    assert lines["forecast"].get_ydata().tolist() == [0, 1, 2]


def test_a_window_with_times_has_dates_on_its_axis():
    days = np.datetime64("2024-03-01T00:00:00", "s") + np.arange(12) * np.timedelta64(1, "D")
    window = (torch.arange(9.0), torch.arange(9.0, 12.0), torch.arange(3.0))
    (axes,) = draw_windows([window], context_shown=4, times=days[None]).axes
    lines = {line.get_label(): line for line in axes.lines}
    assert lines["known"].get_xdata().tolist() == days[5:9].tolist()
    assert lines["truth"].get_xdata().tolist() == days[8:].tolist()
    assert lines["forecast"].get_xdata().tolist() == days[9:].tolist()
    axes.figure.draw_without_rendering()
    assert axes.xaxis.get_offset_text().get_text() == "2024-Mar"
    assert axes.get_xlabel() == ""


def test_a_gap_stays_a_gap():
    gap = torch.nan
    known, truth = torch.tensor([1, gap, 3, 4]), torch.tensor([gap, 6, gap])
    lines = {line.get_label(): line for line in draw_windows([(known, truth, torch.ones(3))], 4).axes[0].lines}
    np.testing.assert_array_equal(lines["known"].get_ydata(), known)
    np.testing.assert_array_equal(lines["truth"].get_ydata(), [gap, gap, 6, gap])
    assert lines["truth"].get_markevery() == [2]


@pytest.mark.parametrize("with_times", [True, False])
def test_a_continuation_shows_at_most_eight_columns_and_is_written_as_a_picture(with_times, tmp_path):
    hours = np.datetime64("2024-01-01T00") + np.arange(7)
    forecast = Continuation(
        columns=tuple(f"${k}$ a name that goes on" for k in range(10)),
        target="$9$ a name that goes on",
        known=np.zeros((5, 10)),
        values=np.ones((2, 10)),
        known_times=hours[:5] if with_times else None,
        times=hours[5:] if with_times else None,
        intervals=((80.0, np.zeros((2, 10)), np.full((2, 10), 2)),),
    )
    draw_continuation(forecast, tmp_path / "new" / "a.png")
    assert (tmp_path / "new" / "a.png").read_bytes().startswith(b"\x89PNG")
