"""Examples that no other test runs are at least whole: what they import is there."""

import importlib.util

import pytest
from dense import ROOT

# Lightning is in an environment of its own, where tests/interop runs the example with it.
PATHS = sorted({*ROOT.glob("examples/*.py")} - {ROOT / "examples/lightning_module.py"})


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_an_example_finds_all_that_it_imports(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
