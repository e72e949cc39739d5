"""The table of warped frequencies is that of the bilinear rule."""

import math
import re

import pytest
import torch
from dense import ROOT

from longwave.ssm import bilinear

PAGE = (ROOT / "docs" / "sampling-rate.md").read_text(encoding="utf-8")
ROWS = [tuple(map(float, row)) for row in re.findall(r"^\| ([\d.]+)" + r" \| ([\d.]+)" * 4 + r" \|$", PAGE, re.M)]


def test_the_table_is_there():
    assert [row[0] for row in ROWS] == [0.05, 0.1, 0.2, 0.25, 0.3, 0.4]


@pytest.mark.parametrize("row", ROWS)
def test_an_oscillator_that_is_sampled_at_another_rate_rings_as_the_table_says(row):
    theta, dt = 2 * math.pi * row[0], 0.3
    omega = 2 / dt * math.tan(theta / 2)
    A = torch.tensor([[0.0, -omega], [omega, 0.0]], dtype=torch.float64)
    B = torch.ones(2, dtype=torch.float64)
    for rate, share in zip((1, 0.25, 0.5, 2, 4), (1.0, *row[1:]), strict=True):
        A_bar, _ = bilinear(A, B, rate * dt)
        angle = float(torch.linalg.eigvals(A_bar).angle().abs().max())
        assert angle / rate / theta == pytest.approx(share, abs=6e-4)
