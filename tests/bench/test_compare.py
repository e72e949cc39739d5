"""Two results of a bench, figure by figure."""

import json

import pytest

from longwave.bench.compare import CompareBench, figures, label

MACHINE = {"cpu": "one", "threads": 1, "backend": "native", "torch": "2", "longwave": "0", "python": "3"}


def result(seconds, bench="layer", machine=MACHINE, **more):
    rows = [{"model": name, "L": 8, "seconds": one, "best": [one, one / 2]} for name, one in seconds.items()]
    return {"bench": bench, "machine": machine, "caption": "words", "rows": rows, **more}


def compared(tmp_path, old, new):
    paths = []
    for name, one in (("old", old), ("new", new)):
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(one if isinstance(one, str) else json.dumps(one))
    bench = CompareBench(old=paths[0], new=paths[1])
    bench.check()
    return bench, bench.run(lambda text: None)


def test_figures_are_told_by_the_words_and_sizes_of_their_rows():
    found = dict(figures(result({"S4": 2.0, "S4D": 1.0}, memory_bytes=7, repeats=3)))
    assert found["rows: S4 L=8: seconds"] == 2
    assert found["rows: S4D L=8: best: 1"] == 0.5
    assert found["memory_bytes"] == 7  # bytes are measured, other whole numbers are settings
    assert len(found) == 7
    assert label({"quick": True, "seconds": 1.0, "L": 8}) == "quick=True L=8"


def test_rows_in_another_order_are_the_same_rows_and_changes_come_first(tmp_path):
    old = result({"S4": 2.0, "S4D": 1.0, "gone": 1.0})
    bench, found = compared(tmp_path, old, result({"S4D": 1.05, "S4": 1.0, "more": 3.0, "another": 4.0}))
    rows = {row["figure"]: row["ratio"] for row in found["rows"]}
    assert rows["rows: S4 L=8: seconds"] == 0.5
    assert rows["rows: S4D L=8: seconds"] == 1.05
    assert list(rows.values()) == [0.5, 0.5, 0.5, 1.05, 1.05, 1.05]
    (table,) = bench.tables(found)
    assert table.title == "layer: 3 of 6 figures differ by more than a tenth"
    notes = bench.notes(found)
    assert notes[0] == "only the old result has rows: gone L=8: seconds and 2 others"
    assert notes[1] == "only the new result has rows: more L=8: seconds and 5 others"


def test_other_machines_are_noted(tmp_path):
    bench, found = compared(tmp_path, result({"S4": 1.0}), result({"S4": 1.0}, machine=MACHINE | {"threads": 2}))
    assert any("the results are from different machines" in note for note in bench.notes(found))


@pytest.mark.parametrize("wrong", ["{", "[1]", '{"bench": 1}', '{"bench": "layer"}', "\x00"])
def test_what_is_no_result_is_refused(tmp_path, wrong):
    with pytest.raises(ValueError, match=r"old\.json: expected the JSON of longwave bench NAME --json, got"):
        compared(tmp_path, wrong, result({"S4": 1.0}))


def test_a_file_that_is_not_there_and_another_bench_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"none\.json: expected .* No such file"):
        CompareBench(old=tmp_path / "none.json").check()
    with pytest.raises(ValueError, match=r"expected a result of the bench layer, as .* is, got one of train"):
        compared(tmp_path, result({"S4": 1.0}), result({"S4": 1.0}, bench="train"))
