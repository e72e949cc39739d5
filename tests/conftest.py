"""Options, profiles and fixtures of the whole test suite."""

import os

import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import config as jaxtyping_config

from longwave.kernels import BACKENDS, native

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_addoption(parser):
    parser.addoption("--run-slow", action="store_true", help="also run the tests that are marked slow")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--run-slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="slow: run with --run-slow"))


@pytest.fixture(autouse=True)
def _same_start():
    """Every test starts from the same seed and leaves torch's settings as they were."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)


@pytest.fixture(params=sorted(BACKENDS))
def backend(request, monkeypatch):
    """Each backend in turn, forced. A compiled library that does not work fails; one that was not built is skipped."""
    if request.param == "native":
        skip_without_library()
    monkeypatch.setenv("LONGWAVE_KERNEL", request.param)
    return request.param


@pytest.fixture
def compiled():
    """For tests of the compiled library itself."""
    skip_without_library()


def skip_without_library():
    try:
        native.load()
    except native.Unavailable as reason:
        if "no compiled library" not in str(reason):
            raise
        pytest.skip(str(reason))


@pytest.fixture
def unchecked():
    """Without the shape checks that pytest switches on: what a user meets who gives a wrong argument."""
    before = jaxtyping_config.jaxtyping_disable
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", before)
