"""Options of the whole test suite, and the order of the tests. The fixtures are in `suite_fixtures.py`."""

import gc
import random
import warnings

import pytest
import shape_checks  # noqa: F401 - before longwave, which the conftest files of folders import

gc.disable()  # until all tests are there: a seventh of the time that imports take went into the search for garbage


def pytest_configure(config):
    """The process that hands out tests to others runs none: torch and longwave, seconds to import, are not for it."""
    hands_out = bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")
    if not hands_out:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # as in the tests
            config.pluginmanager.import_plugin("suite_fixtures")


def pytest_addoption(parser):
    parser.addoption("--run-slow", action="store_true", help="also run the tests that are marked slow")
    parser.addoption("--random-order", type=int, metavar="SEED", help="the files, and the tests of each, shuffled")


def pytest_report_header(config):
    seed = config.getoption("--random-order")
    return None if seed is None else f"order of the tests: --random-order {seed}"


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Thousands of tests and what they import stay to the end: the search for garbage need not look at them."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 10, 50)  # a search that is rarer and finds as much
        gc.enable()


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--run-slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="slow: run with --run-slow"))
    seed = config.getoption("--random-order")
    if seed is not None:
        items[:] = shuffled(items, seed)


def shuffled(items, seed):
    """The same order for the same seed, in every process. The tests of a file stay together: some share a fixture."""
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    chance, groups = random.Random(seed), list(files.values())
    chance.shuffle(groups)
    for group in groups:
        chance.shuffle(group)
    return [item for group in groups for item in group]
