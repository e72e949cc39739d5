"""Pictures of figures."""

from dataclasses import dataclass

from longwave.bench.base import DrawnBench, scaling


@dataclass(frozen=True)
class Drawn(DrawnBench):
    def measure(self, progress):
        return {}

    def tables(self, result):
        return []

    def panels(self, result):
        return [scaling("t", "x", "y", {"S4": points}) for points in result["points"]]


def test_a_panel_without_points_is_left_out(tmp_path):
    full, empty = [(1, 2.0), (2, 3.0)], []
    for name, points in {"two": [full, empty], "one": [full]}.items():
        Drawn(picture=tmp_path / f"{name}.svg").draw({"points": points})
    two, one = ((tmp_path / f"{name}.svg").read_text().count('id="axes_') for name in ("two", "one"))
    assert two == one == 1
