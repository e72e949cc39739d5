"""What all pictures have in common."""

import pytest

from longwave.pictures.style import as_drawn, check_path, lone_points, short


def test_a_file_that_can_be_no_picture_is_refused_and_a_missing_folder_is_made(tmp_path):
    with pytest.raises(ValueError, match=r"picture: expected a picture ending in one of .*png.*, got '.*a.csv'"):
        check_path(tmp_path / "a.csv")
    (tmp_path / "b.png").mkdir()
    with pytest.raises(ValueError, match=r"out: '.*b.png' is a folder; give the name of a file"):
        check_path(tmp_path / "b.png", "out")
    check_path(tmp_path / "new" / "c.PNG")
    assert (tmp_path / "new").is_dir()


def test_long_names_are_cut_in_the_middle():
    assert short("left-hand-move-slow") == "left-ha…e-slow"
    assert short("two\nlines") == "two lines"
    assert len(short("x" * 99, 24)) == 24


def test_dollars_stay_dollars():
    assert as_drawn("$5") == r"\$5"


def test_points_without_a_neighbour_are_seen():
    gap = float("nan")
    for values, alone in (([1], [0]), ([1, gap, 3, 4, gap, 5], [0, 5]), ([gap, 2, gap], [1])):
        assert lone_points(values)["markevery"] == alone
    for values in ([1, 2], [gap, gap], [1, 2, gap, 3, 4]):
        assert lone_points(values) == {}
