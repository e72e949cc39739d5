"""Fixtures and profiles of the whole test suite: a plugin of the processes that run tests (see `conftest.py`)."""

import functools
import inspect
import os

import pytest
import shape_checks
import torch
from dense import ROOT
from hypothesis import HealthCheck, settings
from pairwise import CPU_BACKENDS
from tiny_set import running_server
from trained import TrainedRuns

from longwave.io.download.catalogue import DATASETS
from longwave.ops.cpu import library
from longwave.tasks.classify import baselines as sequence_baselines

# Some virtual machines offer AMX and refuse its instructions: half precision in torch would end the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

# tyro asks for the source of the settings in every command, for their help; inspect parses the whole file each time.
inspect.getsource = functools.cache(inspect.getsource)

settings.register_profile("default", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(autouse=True)
def _same_start():
    """Every test starts from the same seed and leaves torch's settings as they were."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.default_generator.manual_seed(0)  # the CPU's alone: torch.manual_seed queues calls for GPUs, stacks and all
    yield
    torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)


@pytest.fixture(params=sorted(CPU_BACKENDS))
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


@pytest.fixture
def limit_vectors(compiled):
    """Sets the width of the compiled library's vectors, in bits: at most the CPU's own."""
    loaded, before = library.load(), library.vector_bits()
    yield lambda bits: loaded.longwave_limit_vectors(min(bits, before))
    loaded.longwave_limit_vectors(before)


def skip_without_library():
    reason = library.unavailable()
    if reason is not None:
        if "no compiled library" not in reason:
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(autouse=True)
def _shapes_are_checked_where_they_are_written(request):
    """In the tests of the packages whose annotations they are. Elsewhere the checks would only take time."""
    here = request.path.relative_to(ROOT / "tests").parts[0] in ("ssm", "layers")
    shape_checks.switch(here)


@pytest.fixture
def unchecked(_shapes_are_checked_where_they_are_written):
    """Without the shape checks: what a user meets who gives a wrong argument."""
    shape_checks.switch(False)


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """A folder of the test's own to work in, with the data sets in its folder `data`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("LONGWAVE_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def _few_features(monkeypatch):
    """Of the baseline on random convolutions, whose own tests have them all; a command does the same with any."""
    monkeypatch.setattr(sequence_baselines, "FEATURES", 84)


@pytest.fixture
def _pages_are_not_rendered(monkeypatch):
    """The pictures of a report are drawn and not rendered, which would take longer than the training.

    Those of the runs that the tests share are, as they are trained outside of a test; pictures in files are, too.
    """
    monkeypatch.setattr("longwave.pictures.html.render", lambda figure: b"picture")


@pytest.fixture(scope="session")
def trained_runs(tmp_path_factory):
    """Tiny runs of every kind, trained when they are first asked for."""
    base = tmp_path_factory.getbasetemp()
    base = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "runs"
    base.mkdir(exist_ok=True)
    return TrainedRuns(base)


@pytest.fixture
def server(monkeypatch):
    """A server of files on this machine. A data set `tiny` that a test registers is taken out again."""
    monkeypatch.setenv("NO_PROXY", "*")
    with running_server() as running:
        yield running
    if "tiny" in DATASETS:
        DATASETS.unregister("tiny")
