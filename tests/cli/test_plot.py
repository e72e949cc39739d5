"""`longwave plot`."""

from pathlib import Path

from command import call


def test_the_kernels_of_an_initialisation_are_drawn(capsys):
    assert call("plot", "init", "--init", "legt", "--d-model", "3", "--d-state", "8", "--length", "32") == 0
    assert capsys.readouterr().out == "kernels.png\n"
    assert Path("kernels.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_initialisation_is_refused_with_the_known_ones(capsys):
    assert call("plot", "init", "--init", "legz") == 2
    assert "init: expected one of lagt, legs, legt, got 'legz'" in capsys.readouterr().err
