"""S4 against Transformers: sizes, ratios, and batches that are measured in part."""

import pytest

from longwave.bench import attention
from longwave.bench.attention import AttentionBench
from longwave.bench.compare import figures


def test_both_sides_have_the_papers_number_of_parameters():
    names = set(attention.LABELS) - {"s4-glu"}
    counts = {name: sum(p.numel() for p in attention.make_model(name, 64).parameters()) for name in names}
    assert all(590_000 < count < 610_000 for count in counts.values())


def test_ratios_are_relative_to_the_stored_matrix():
    seconds, sizes = {"attention-stored": 6.0, "s4": 2.0}, {"attention-stored": 100, "s4": 25}
    first, s4 = attention.rows_at(1024, 4, dict.fromkeys(seconds, 4), {"attention-stored": 1, "s4": 2}, seconds, sizes)
    assert (first["speed"], first["memory"], first["paper"]) == (1, 1, None)
    assert (s4["speed"], s4["memory"]) == (3, 0.25)
    assert s4["paper"] == {"speed": 1.58, "memory": 0.43}


def test_a_model_that_does_not_fit_gives_its_reason_and_no_ratio():
    first, s4 = attention.rows_at(
        4096, 1, {"s4": 1}, {"attention-stored": 1, "s4": 2}, {"s4": 2.0}, {"s4": 25}, {"attention-stored": "too large"}
    )
    assert first["skipped"] == "too large"
    assert "seconds" not in first
    assert "speed" not in s4


def test_time_and_memory_are_scaled_alike():
    seconds, sizes = {"attention-stored": 6.0, "s4": 2.0}, {"attention-stored": 100, "s4": 25}
    first, s4 = attention.rows_at(
        4096, 8, {"attention-stored": 2, "s4": 8}, {"attention-stored": 1, "s4": 2}, seconds, sizes
    )
    assert (first["seconds"], first["memory_bytes"], first["measured_batch"]) == (24, 400, 2)
    assert (s4["speed"], s4["memory"], s4["seconds"]) == (12, 25 / 400, 2)


def test_time_and_memory_are_also_given_over_those_of_the_linear_transformer():
    names = ("linear-attention", "s4")
    rows = attention.rows_at(
        512, 1, dict.fromkeys(names, 1), dict.fromkeys(names, 1), {"linear-attention": 4.0, "s4": 3.0}, {"s4": 25}
    )
    assert [row["time_over_linear"] for row in rows] == [1, 0.75]
    assert all("memory_over_linear" not in row for row in rows)
    result = {"layers": 4, "d_model": 256, "rows": rows}
    assert [row[-1] for row in AttentionBench().tables(result)[0].rows] == ["1", "0.75"]
    assert ("rows: L=512 batch=1 s4 parameters=1 measured_batch=1: time_over_linear", 0.75) in set(figures(result))


@pytest.mark.usefixtures("tiny")
def test_of_large_batches_fewer_sequences_are_measured_and_scaled(monkeypatch):
    monkeypatch.setattr(attention, "MOST_STORED", attention.needed_bytes("attention-stored", 32, 2))
    monkeypatch.setattr(attention, "MOST_TOKENS", 4 * 32)
    bench = AttentionBench(batch=8)
    result = bench.run(lambda text: None)
    assert {row["batch"] for row in result["rows"]} == {8}
    measured = {(row["L"], row["model"]): row["measured_batch"] for row in result["rows"]}
    assert measured[16, "attention"] == 8
    assert measured[16, "attention-stored"] == 4
    assert measured[32, "attention-stored"] == 2
    assert measured[32, "performer"] == 4
    assert measured[32, "s4"] == measured[32, "s4-glu"] == 8
    assert "2, scaled to 8" in {row[1] for row in bench.tables(result)[0].rows}


@pytest.mark.usefixtures("tiny")
def test_quick_measures_no_memory_and_has_no_table_of_it(monkeypatch):
    monkeypatch.setattr(attention, "QUICK_LENGTHS", (16,))
    bench = AttentionBench(quick=True, batch=2)
    (table,) = bench.tables(bench.run(lambda text: None))
    assert "time" in table.columns


@pytest.mark.usefixtures("tiny")
def test_a_model_that_was_not_measured_is_named_with_the_reason(monkeypatch):
    monkeypatch.setattr(attention, "too_little_memory", lambda needed, device: "too large" if needed > 10**6 else None)
    monkeypatch.setattr(attention, "needed_bytes", lambda name, L, batch: 10**7 * (name == "performer" and L == 32))
    bench = AttentionBench(batch=1)
    assert bench.notes(bench.run(lambda text: None))[0] == "Performer at length 32: too large"


def test_a_batch_without_sequences_is_refused():
    with pytest.raises(ValueError, match="batch: expected at least 1, got 0"):
        AttentionBench(batch=0).check()
