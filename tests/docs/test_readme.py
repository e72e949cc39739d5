"""The README is short, its links lead somewhere, and its lines of Python run."""

import re
from typing import Any

import torch
from dense import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
LAYER, ESTIMATOR = re.findall(r"^```python\n(.*?)^```", README, re.S | re.M)


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


def test_the_lines_of_the_estimator_run():
    names: dict[str, Any] = {}
    exec(ESTIMATOR.replace("forecaster.predict()", "forecast = forecaster.predict()"), names)
    assert [*names["forecast"]] == re.search(r"# (ds.*): the next 24", ESTIMATOR)[1].split(", ")
    assert len(names["forecast"]) == 24
