"""The tool that compares rows as they come with rows after interpolation."""

import pandas as pd
import pytest

from longwave.layers import S4DConfig


@pytest.fixture
def tool(load_tool):
    return load_tool("irregular_times")


def test_a_share_of_the_rows_is_removed_and_the_seed_decides_which(tool):
    frame = tool.hourly(5.3)
    one, again, other = (tool.removed(frame, 0.5, seed) for seed in (0, 0, 1))
    assert len(one) == len(other) == 3001
    assert one.index.tolist() == again.index.tolist() != other.index.tolist()
    assert one.index[[0, -1]].tolist() == [0, 5999]


def test_both_forecast_from_rows_that_are_left(tool, monkeypatch):
    monkeypatch.setattr(tool, "HOURS", 4)
    monkeypatch.setattr(tool, "CONTEXT", 12)
    monkeypatch.setattr(tool, "ALONE", tool.replace(tool.ALONE, d_model=4, n_layers=1, mixer=S4DConfig(d_state=4)))
    frame = tool.removed(tool.hourly(5.3)[:400], 0.5, 0)
    irregular, hourly = (tool.forecasts(frame, 0.5, 0, "S4D alone", way) for way in (True, False))
    starts = irregular.index.get_level_values("cutoff")
    assert set(starts) <= set(frame.time)
    assert starts.min() == frame.time.iloc[int(0.8 * len(frame)) - 1]
    assert irregular.groupby("cutoff").size().unique().tolist() == [2]
    assert hourly.groupby("cutoff").size().unique().tolist() == [4]
    assert len(irregular.index.intersection(hourly.index)) > 20


def test_the_table_scores_all_on_the_same_rows_that_were_left(tool, monkeypatch, capsys):
    """A forecast of what came is without error, and one that is two deviations off has an MSE of 4."""

    def forecasts(frame, share, seed, name, irregular):
        truth, deviation = frame.set_index("time").y, frame.y[: int(0.7 * len(frame))].std(ddof=0)
        hours = pd.date_range(frame.time.iloc[-99], frame.time.iloc[-9], freq="h")
        rows = [
            (cutoff, cutoff + pd.Timedelta(hours=k)) for cutoff in hours for k in ((1, 2, 3) if irregular else (2, 3))
        ]
        index = pd.MultiIndex.from_tuples(rows, names=["cutoff", "time"])
        y = truth.reindex(index.get_level_values("time")).fillna(1e6)  # where there is no row, nothing is scored
        return pd.Series(y.to_numpy() + (0 if irregular else 2 * deviation), index)

    monkeypatch.setattr(tool, "forecasts", forecasts)
    tool.main(["--wave", "5.3", "--seeds", "0", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("seed 0: 3001 rows are left; scores are of ")
    assert "| S4D alone | as they come | 0.0000 ± 0.0000 | 0.0000 ± 0.0000 |" in lines
    assert "| S4D alone | interpolated | 4.0000 ± 0.0000 | 2.0000 ± 0.0000 |" in lines
    last = next(line for line in lines if line.startswith("| repeat-last |"))
    assert 1 < float(last.split("|")[3].split()[0]) < 4


def test_etth1_is_there_without_a_wave(tool):
    assert len(tool.hourly(None)) == 17420
