"""The scripts in tools/ as modules."""

import importlib.util

import pytest
from dense import ROOT


@pytest.fixture
def load_tool(own_folder):  # runs are fetched into it
    """A script by its name, in a folder of the test's own."""

    def load(name):
        spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
