"""What tests of commands and of runs start from."""

import pytest


@pytest.fixture(autouse=True)
def _own_folder(own_folder, _few_features, _pages_are_not_rendered):
    """Runs and data go to a folder of the test's own."""
