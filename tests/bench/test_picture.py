"""Pictures of figures."""

from longwave.bench.picture import Panel, draw


def test_a_panel_without_points_is_left_out(tmp_path):
    full, empty = (Panel("t", "x", "y", {"S4": points}, {}) for points in ([(1, 2.0), (2, 3.0)], []))
    draw([full, empty], tmp_path / "two.svg")
    draw([full], tmp_path / "one.svg")
    two, one = ((tmp_path / f"{name}.svg").read_text().count('id="axes_') for name in ("two", "one"))
    assert two == one == 1
