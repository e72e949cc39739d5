"""The README is short, its links lead somewhere, and the ten lines of the layer run."""

import re

import torch
from dense import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
LAYER = next(block for block in re.findall(r"^```python\n(.*?)^```", README, re.S | re.M) if "S4(" in block)


def test_the_readme_has_at_most_120_lines():
    assert len(README.splitlines()) <= 120


def test_the_links_of_the_readme_lead_to_files():
    targets = [target for target in re.findall(r"\]\(([^)#]+)", README) if not target.startswith("http")]
    assert len(targets) > 10
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_lines_of_the_layer_run():
    names: dict[str, torch.Tensor] = {}
    exec(LAYER, names)
    assert names["y"].shape == (8, 1000, 256)
    assert names["y_t"].shape == (8, 256)
