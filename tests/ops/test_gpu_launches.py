"""How many kernels a GPU is told to run, counted where there is none: torch's calls that are no views, and launches.

Tensors are on the meta device and have no values; Triton is not needed either.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import longwave
from longwave.layers.discretised import fixed_parameters
from longwave.ops import BACKENDS
from longwave.ops import backend as choice
from longwave.ops.gpu import launch, spectrum, step

PAGE = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text(encoding="utf-8")
COUNTED_WITH = "2.13."  # of torch, the figures on the page; others have other kernels
PARTS = {
    "of these the truncation, in float64": "truncate",
    "the convolution, in 2 and 3 groups of features": "convolve",
    "the spectrum and its gradients": "spectrum",
}
H, N, L, BATCH = 256, 64, 16384, 16
# What makes a tensor without running anything: views, uninitialised memory.
FREE = set(
    """
    alias as_strided detach diagonal empty empty_like empty_strided expand lift_fresh movedim new_empty
    new_empty_strided permute real resolve_conj resolve_neg select slice split squeeze t transpose unbind unsqueeze
    view view_as_complex view_as_real _unsafe_view _reshape_alias _conj _neg_view
    """.split()  # noqa: SIM905  (a list of so many strings takes a line each)
)


class Calls(TorchDispatchMode):
    """Calls of torch's own kernels by name, and those of longwave's ops with their arguments."""

    def __init__(self):
        super().__init__()
        self.torch, self.ours = Counter(), []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._schema.name.split("::")[1]
        if function.namespace == "longwave":
            self.ours.append((name, args))
        elif name not in FREE:
            self.torch[name] += 1
        return function(*args, **(kwargs or {}))


@pytest.fixture
def launched(monkeypatch):
    """The launches of the backend `triton`, which are noted and not run, from the second call on: tables are kept."""
    launches = []
    spectrum._tables(L, torch.device("meta"))
    for module in (spectrum, step):
        monkeypatch.setattr(module, "run", lambda some, device: launches.extend(some))
    return launches


def kernels_of(name, args, launched):
    """The kernels that a call of an op takes on a GPU."""
    op = name.removesuffix("_backward")
    backend = BACKENDS["triton" if op in BACKENDS["triton"].ops else choice.FALLBACK]
    before = len(launched)
    with Calls() as calls:
        backend.functions[name](*args)
    return sum(calls.torch.values()) + len(launched) - before


def training_step(**settings):
    """The calls of a layer's forward and backward pass."""
    layer = longwave.S4(H, N, **settings).to("meta")
    u = torch.empty(BATCH, L, H, device="meta", requires_grad=True)
    with Calls() as calls:
        y, _ = layer(u, need_state=False)
        torch.autograd.backward(y, torch.empty_like(y))
    return calls


def on_page(row):
    """The figure of a row of the table."""
    return int(re.search(rf"^\| {re.escape(row)} \| ([\d,]+) \|$", PAGE, re.MULTILINE).group(1).replace(",", ""))


@pytest.mark.parametrize(
    ("row", "settings", "most"),
    [
        ("S4, LegS", {}, 450),
        ("S4, LegS, for a fixed length (no truncation)", {"length": L}, 190),
        ("S4, LegT (rank 2)", {"init": "legt"}, 450),
        ("S4, two-sided", {"bidirectional": True}, 450),
    ],
)
def test_a_training_step_of_a_layer_takes_few_kernels(row, settings, most, launched):
    """About 40,000 by plain torch in blocks for a CPU's cache. A transform counts as one."""
    calls = training_step(**settings)
    assert {"spectrum", "spectrum_backward", "convolve", "convolve_backward"} <= {name for name, _ in calls.ours}
    ours = {name: kernels_of(name, args, launched) for name, args in calls.ours}
    total = sum(calls.torch.values()) + sum(ours.values())
    assert total < most, (calls.torch, ours)
    if torch.__version__.startswith(COUNTED_WITH):
        assert total == on_page(row), (calls.torch, ours)
        for part, name in PARTS.items() if not settings else ():
            assert ours[name] + ours[f"{name}_backward"] == on_page(part)


def test_the_spectrum_is_three_launches_and_its_gradients_five(launched):
    M = N // 2
    sizes = ((H, M, 2), (1, H, M, 2), (H, M, 2), (1, H, M, 2), (H,))
    given = [torch.empty(size, device="meta") for size in sizes]
    K_hat = spectrum.spectrum(*given, L)
    forward = [call.kernel for call in launched]
    assert forward == ["needs_wide", "spectrum_forward", "spectrum_forward"]
    gradients = spectrum.spectrum_backward(K_hat, *given, L)
    assert [gradient.shape for gradient in gradients] == [t.shape for t in given]
    both = ["spectrum_backward", "spectrum_gradients"]
    assert [call.kernel for call in launched[3:]] == ["needs_wide", *both, *both]
    wide = [t.double() for t in given]
    launched.clear()
    spectrum.spectrum_backward(spectrum.spectrum(*wide, L), *wide, L)
    assert [call.kernel for call in launched] == ["spectrum_forward", *both]


def test_the_sums_of_a_backward_pass_stay_within_their_bound(launched, monkeypatch):
    sizes = ((H, 32, 2), (1, H, 32, 2), (H, 32, 2), (2, H, 32, 2), (H,))
    given = [torch.empty(size, device="meta") for size in sizes]
    grad = torch.empty(2, H, L // 2 + 1, 2, device="meta")
    for limit in (1 << 20, 1 << 24, 1 << 28):
        launched.clear()
        monkeypatch.setattr(spectrum, "PARTIAL_BYTES", limit)
        spectrum.spectrum_backward(grad, *given, L)
        sums = [call for call in launched if call.kernel == "spectrum_backward"]
        assert sum(call.grid[0] for call in sums) == 2 * H  # each feature once per width
        largest = max(call.arguments[9].nbytes for call in sums)
        assert largest <= limit or all(call.grid[0] == 1 for call in sums)


def test_a_step_with_fixed_parameters_is_one_launch(launched, monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, "toy")
    functions = {"layer_steps": step.layer_steps}
    BACKENDS.register("toy")(choice.Backend("toy", functions, description=str))
    try:
        layer, u = longwave.S4(H, N).to("meta"), torch.empty(1000, H, device="meta")
        known = {}
        with torch.no_grad(), fixed_parameters(known):
            _, state = layer.step(u)
            launched.clear()
            with Calls() as calls:
                layer.step(u, state)
    finally:
        BACKENDS.unregister("toy")
    assert [call.kernel for call in launched] == ["layer_step"]
    assert sum(calls.torch.values()) == 0


def test_a_launch_has_all_arguments_of_its_kernel(launched):
    """Kernels take them by position: their names are read from the source, without Triton."""
    found = {}
    for name in ("spectrum_kernels", "feature_kernels", "step_kernel"):
        tree = ast.parse((Path(launch.__file__).parent / f"{name}.py").read_text())
        found |= {node.name: [a.arg for a in node.args.args] for node in tree.body if isinstance(node, ast.FunctionDef)}
    M = 4
    sizes = ((H, M, 2), (1, H, M, 2), (H, M, 2), (1, H, M, 2), (H,))
    given = [torch.empty(size, device="meta") for size in sizes]
    spectrum.spectrum_backward(spectrum.spectrum(*given, 20), *given, 20)
    for call in launched:
        names = found[call.kernel]
        assert len(names) == len(call.arguments) + len(call.constants)
        assert set(names[len(call.arguments) :]) == set(call.constants)
