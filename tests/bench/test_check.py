"""The checks of `longwave doctor`: right about a backend that is right, and about one that is not."""

import pytest
import torch
from dense import dense_kernel, hippo_system

from longwave import ops
from longwave.bench import check
from longwave.bench.check import BOUND, DenseSystem, check_backend, examine
from longwave.ops.cpu import library
from longwave.ssm import truncated_output_map


@pytest.mark.parametrize("init", ["legs", "legt"])
def test_the_dense_kernel_is_that_of_the_tests(init):
    system = hippo_system(init, 8, [0.0123, 0.0871])
    truth = dense_kernel(system, 37)
    for h in range(2):
        dense = DenseSystem.of(system.Lambda[h], system.P[:, h], system.B[h], system.C[h], float(system.dt[h]))
        torch.testing.assert_close(dense.kernel(37), truth[h], rtol=0, atol=1e-12 * truth[h].abs().max().item())


def test_the_dense_truncated_output_map_is_that_of_the_library():
    system = hippo_system("legs", 8, [0.0123])
    dense = DenseSystem.of(system.Lambda[0], system.P[:, 0], system.B[0], system.C[0], float(system.dt[0]))
    C_tilde = truncated_output_map(system.Lambda, system.P, system.C, system.dt, 37)[0]
    torch.testing.assert_close(dense.truncated_output_map(37), C_tilde, rtol=1e-10, atol=1e-10)


def test_every_backend_that_is_available_is_good(backend):
    report = check_backend(backend)
    assert [trial.op for trial in report.trials] == ["truncate", "spectrum", "convolve"]
    assert report.is_good
    assert not report.unavailable
    assert ("-bit vectors" in report.detail) == (backend == "native")


def test_wrong_numbers_and_failures_are_found(monkeypatch):
    functions = ops.BACKENDS["reference"].functions
    right = functions["convolve"]

    def fail(*arguments):
        raise ValueError("no such op")

    monkeypatch.setitem(functions, "convolve", lambda *arguments: right(*arguments) * (1 + 3 * BOUND))
    monkeypatch.setitem(functions, "truncate", fail)
    report = check_backend("reference")
    trials = {trial.op: trial for trial in report.trials}
    assert BOUND < trials["convolve"].error < 4 * BOUND
    assert trials["truncate"].error is None
    assert trials["truncate"].reason.startswith("ValueError: no such op")
    assert trials["spectrum"].is_good
    assert not report.is_good


def test_not_a_number_is_no_good_result():
    assert not check.Trial("spectrum", float("nan"), 0.0).is_good


def test_a_backend_that_was_not_built_is_no_error_unless_it_was_requested(monkeypatch):
    def missing():
        raise ops.Unavailable("no compiler")

    monkeypatch.setattr(library, "load", missing)
    monkeypatch.setenv("LONGWAVE_KERNEL", "reference")
    health = examine()
    assert health.is_good
    assert health.active == {"cpu": "reference"}
    unavailable = {report.name: report.unavailable for report in health.backends}
    assert (unavailable["native"], unavailable["reference"]) == ("no compiler", "")
    monkeypatch.setenv("LONGWAVE_KERNEL", "native")
    health = examine()
    assert not health.is_good
    assert (health.active, health.problem) == ({}, "no compiler")
