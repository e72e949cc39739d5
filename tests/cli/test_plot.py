"""`longwave plot`."""

from pathlib import Path

import pytest
from command import call


def test_the_kernels_of_an_initialisation_are_drawn(capsys):
    assert call("plot", "init", "--init", "legt", "--d-model", "3", "--d-state", "8", "--length", "32") == 0
    assert capsys.readouterr().out == "kernels.png\n"
    assert Path("kernels.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_initialisation_is_refused_with_the_known_ones(capsys):
    assert call("plot", "init", "--init", "legz") == 2
    assert "init: expected one of fout, lagt, legs, legs-clipped, legt, random-nplr," in capsys.readouterr().err


@pytest.mark.parametrize("init", ["legs", "s4d-lin", "random-nplr"])
def test_what_an_initialisation_remembers_is_drawn(init, capsys):
    assert call("plot", "basis", "--init", init, "--d-state", "4", "--out", "basis.png") == 0
    assert capsys.readouterr().out == "basis.png\n"
    assert Path("basis.png").read_bytes().startswith(b"\x89PNG")


def test_the_points_of_a_spectrum_are_drawn(capsys):
    """Blocks, and where an undamped system begins, nodes one by one."""
    arguments = ("--init", "legt", "--d-state", "4", "--length", "700", "--dt", "0.02", "0.3", "--out", "nodes.png")
    assert call("plot", "nodes", *arguments) == 0
    assert capsys.readouterr().out == "nodes.png\n"
    assert Path("nodes.png").read_bytes().startswith(b"\x89PNG")


def test_a_diagonal_initialisation_is_drawn_as_s4d():
    assert call("plot", "init", "--init", "s4d-inv", "--d-model", "3", "--d-state", "8", "--length", "32") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *(
            (("nodes", "--dt", "0.1", dt), f"dt: expected a number from 1e-9 to 1e9, got {dt}")
            for dt in ("0", "nan", "inf")
        ),
        (("nodes", "--dt"), "dt: expected one step size or more, got none"),
        (("nodes", "--length=-1"), "length: expected a whole number from 2 to 67,108,864, got -1"),
        (("nodes", "--seed=-1"), "seed: expected a whole number from 0 to"),
        (("basis", "--longest=nan"), "longest: expected a number from 1e-9 to 1e9, got nan"),
        (("basis", "--d-state=100000"), "d_state: expected a whole number from 2 to 4,096, got 100000"),
        (("init", "--d-model=0"), "d_model: expected a whole number from 1 to 67,108,864, got 0"),
        (
            ("init", "--length=2000000"),
            "length: expected at most 16,384 for 64 features of 64 states each, got 2,000,000",
        ),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else None,
)
def test_a_number_that_nothing_can_be_drawn_of_is_refused(arguments, message, capsys):
    assert call("plot", *arguments) == 2
    assert message in capsys.readouterr().err
    assert list(Path().glob("*.png")) == []
