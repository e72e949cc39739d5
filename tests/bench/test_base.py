"""What holds for every bench that is registered."""

import inspect
import json
import re

import pytest
from pairwise import in_one_case

from longwave.bench.base import BENCHES, DrawnBench, scaling
from longwave.bench.measure import machine_line
from longwave.cli.bench import SUMMARIES


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", BENCHES)
def test_figures_survive_json_and_fill_tables_and_panels(name):
    bench, said = BENCHES[name](), []
    bench.check()
    result = bench.run(said.append)
    assert said
    assert result["bench"] == name
    result = json.loads(json.dumps(result))
    tables = bench.tables(result)
    assert tables
    for table in tables:
        assert table.rows
        assert len(set(table.columns)) == len(table.columns)
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert all(isinstance(cell, str) and cell for row in table.rows for cell in row)
        assert {*table.text, *([table.sections] if table.sections else [])} <= set(table.columns)
    assert bench.notes(result)[-1] == machine_line(result["machine"])
    if isinstance(bench, DrawnBench):
        assert any(panel.curves for panel in bench.panels(result))


def test_help_without_torch_names_every_bench():
    assert list(SUMMARIES) == list(BENCHES)


@in_one_case(name=BENCHES)
def test_the_help_has_an_example(name):
    assert re.search(rf"Examples?:\s+longwave bench {name}", inspect.getdoc(BENCHES[name]))


class Drawn(DrawnBench):
    points = ()

    def measure(self, progress):
        return {}

    def tables(self, result):
        return []

    def panels(self, result):
        return [scaling("title", "x", "y", {"S4": list(self.points)})]


def test_a_picture_is_drawn_only_if_it_was_requested_and_there_is_something_to_draw(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    assert Drawn().draw({}) is None
    assert Drawn(picture=path).draw({}) == f"{path} was not drawn: nothing was measured"
    assert not path.exists()
    monkeypatch.setattr(Drawn, "points", [(1, 2.0), (2, 3.0)])
    assert Drawn(picture=path).draw({}) == str(path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_file_that_cannot_be_a_picture_is_refused(tmp_path):
    with pytest.raises(ValueError, match="picture: expected a picture ending in one of"):
        Drawn(picture=tmp_path / "picture.doc").check()
    (tmp_path / "a.png").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        Drawn(picture=tmp_path / "a.png").check()
