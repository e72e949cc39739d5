"""`longwave doctor --gpu`, with the CPU in the place of a GPU."""

import math
from unittest.mock import MagicMock

import pytest
import torch
from command import call

from longwave.bench import gpu, kernel
from longwave.bench.gpu import GPUTrial, Sizes
from longwave.ops import BACKENDS, Backend
from longwave.ops.table import OPS

CPU, SMALL = [torch.device("cpu")], Sizes(H=4, N=8, L=200, batch=2)


def test_every_op_is_checked_with_its_gradients_in_every_dtype():
    trials = list(gpu.check_gpus(CPU, lambda text: None, SMALL))
    assert [trial for trial in trials if not trial.is_good] == []
    checked = {(trial.what, trial.dtype) for trial in trials}
    for name, op in OPS.items():
        for dtype in {"float32", "float64"} & {str(dtype).removeprefix("torch.") for dtype in op.dtypes}:
            assert {(name, dtype), (f"{name} gradients", dtype)} <= checked
    kernels = {
        (f"kernel {init}{part}", kind)
        for init in gpu.INITS
        for part in ("", " gradients")
        for kind in ("float32", "float64")
    }
    assert kernels | {("step", "float32"), ("step", "float64")} <= checked


@pytest.mark.parametrize(("factor", "what"), [(1.001, "convolve"), (math.nan, "convolve"), (None, "convolve")])
def test_an_op_that_is_wrong_or_fails_is_reported(factor, what, monkeypatch):
    functions = {name: BACKENDS["reference"].functions[name] for name in ("convolve", "convolve_backward")}

    def convolve(u, K, D):
        if factor is None:
            raise RuntimeError("out of order")
        return BACKENDS["reference"].functions["convolve"](u, K, D) * factor

    BACKENDS.register("toy")(Backend("toy", functions | {"convolve": convolve}, description=str, devices=("cpu",)))
    try:
        trials = list(gpu.check_gpus(CPU, lambda text: None, SMALL))
    finally:
        BACKENDS.unregister("toy")
    assert {trial.what for trial in trials if not trial.is_good} == {what}
    assert factor is not None or "RuntimeError: out of order" in trials[[t.is_good for t in trials].index(False)].reason


@pytest.mark.parametrize(("check", "count"), [(gpu._graph_errors, 2), (gpu._step_graph_errors, 1)])
def test_a_graph_that_does_nothing_when_it_is_replayed_is_found_out(check, count, monkeypatch):
    for name in ("device", "Stream", "current_stream", "stream", "CUDAGraph", "graph"):
        monkeypatch.setattr(torch.cuda, name, MagicMock())
    errors = check(CPU[0], SMALL)
    assert len(errors) == count
    assert min(errors) > 1e-3


def test_times_have_all_rows():
    seconds = gpu.time_gpu(CPU[0], SMALL, repeats=1)
    assert {"spectrum", "spectrum, plain torch", "convolution", "plain FFT convolution", "layer", "step"} == set(
        seconds
    )
    assert all(value > 0 for value in seconds.values())


def test_the_report_is_one_block_of_text_and_its_exit_code_tells(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "find_gpus", lambda: CPU)
    monkeypatch.setattr(gpu, "time_gpu", lambda device, sizes: {"step": 0.001})
    good = GPUTrial("cuda:0", "spectrum", "float32", 1e-7, 1e-5)
    broken = [
        GPUTrial("cuda:1", "step", "float64", 1.0, 1e-9),
        GPUTrial("cuda:1", "graph", "float32", None, 1e-5, "OSError: no"),
    ]
    for trials, code in (([good], 0), ([good, *broken], 1)):
        monkeypatch.setattr(gpu, "check_gpus", lambda devices, say, trials=trials: trials)
        assert call("doctor", "--gpu") == code
        out = capsys.readouterr().out
        assert "cuda:0   spectrum                 float32   1.0e-07    1e-05\n" in out
        assert out.count("<- broken") == 2 * code
        assert ("OSError: no" in out) == bool(code)
        assert "L 16,384, forward and backward: step 1.00\n" in out
        assert out.endswith("all checks passed\n") == (code == 0)
        assert max(map(len, out.splitlines())) < 200


def test_the_bench_of_the_kernel_takes_a_device(monkeypatch):
    """On any but the CPU what a backend does not have is timed by the reference."""
    monkeypatch.setattr(kernel, "H", 4)
    row = kernel.time_row(64, None, 1, "cpu")
    assert set(row["seconds"]) == {"conv", "reference"}
    power_sum = kernel.op_pass("triton", "power_sum", torch.randn(1, 4, 20), *s4d_system(), 20, "zoh")
    power_sum()


def s4d_system():
    Lambda, _, B, C, dt = kernel.system(4, 8, "s4d-legs")
    return Lambda, B, C, dt


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(capsys):
    assert call("doctor", "--gpu") == 2
    assert (
        "gpu: expected a GPU by NVIDIA or AMD that torch can use, got none; check nvidia-smi" in capsys.readouterr().err
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_all_is_right_on_the_gpus_of_this_machine():
    assert [t for t in gpu.check_gpus(gpu.find_gpus(), lambda text: None) if not t.is_good] == []
