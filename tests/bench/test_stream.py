"""The bench of streams: what is compared, at sizes that take no time."""

import pytest
import torch

from longwave.bench import measure, stream
from longwave.bench.stream import StreamBench, compare_precision, time_chunk, watch_memory

pytestmark = pytest.mark.usefixtures("tiny")


def test_single_precision_stays_near_to_double_precision():
    """To 1e-3 of the deviation of the logits: an untrained model of one layer."""
    rows = compare_precision("tiny", 25_000)
    assert [row["steps"] for row in rows] == [10_000, 25_000]
    assert 0 < rows[0]["difference"] <= rows[1]["difference"] < 1e-3


def test_memory_is_looked_at_from_the_first_second_to_the_last(monkeypatch):
    monkeypatch.setattr(stream, "resident_bytes", lambda: 7)
    rows = watch_memory("tiny", 4)
    assert [row["sound"] for row in rows] == [1, 2, 3, 4]
    assert len({row["state"] for row in rows}) == 1
    assert {row["resident"] for row in rows} == {7}


def test_the_factor_is_the_time_over_the_sound(monkeypatch):
    clock = iter([0, 7, 7, 10])
    monkeypatch.setattr(measure.time, "process_time", lambda: next(clock) / 100)
    row = time_chunk("tiny", 0.02, 2)
    assert row["processor_seconds"] == pytest.approx(0.03)  # the faster of two
    assert row["factor"] == pytest.approx(1.5)


def test_where_memory_cannot_be_measured_the_rest_is(monkeypatch):
    monkeypatch.setattr(stream, "can_measure_memory", lambda: False)
    bench = StreamBench(quick=True)
    result = bench.run(lambda _: None)
    assert result["memory"] == []
    assert len(bench.tables(result)) == 2


def test_noise_is_the_same_in_both_precisions():
    assert torch.equal(stream.noise(5, 1).double(), stream.noise(5, 1, torch.float64))
