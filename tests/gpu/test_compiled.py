"""The kernels of the backend `triton`, compiled ahead of time for six GPUs that need not be there (`make test-gpu`).

Bounds on what the code uses; docs/gpu.md has the figures. What the code does is the matter of test_interpreted.py.
"""

import os

import pytest

pytest.importorskip("triton", reason="Triton is not installed: make test-gpu")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("compiles: run without TRITON_INTERPRET=1", allow_module_level=True)

import targets
from targets import TARGETS, compiled, doubles, per_pair_and_node, spectrum_launches, step_launch

SHARED = 48 << 10  # bytes, which every GPU has
# Instructions per pair and node on GPUs of NVIDIA and AMD, and registers: a tenth above what docs/gpu.md has.
BUDGETS = {
    ("spectrum_forward narrow", 1): (70, 80, 140),
    ("spectrum_backward narrow", 1): (245, 320, 148),
    ("spectrum_forward narrow", 2): (105, 102, 207),
    ("spectrum_backward narrow", 2): (307, 403, 248),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "rank"), BUDGETS)
def test_the_spectrum_in_float32_stays_in_registers_without_double_precision_in_its_loops(name, rank, target):
    launch = spectrum_launches(rank)[name]
    code, (nvidia, amd, registers) = compiled(launch, target), BUDGETS[name, rank]
    assert (code.spilled, code.shared) == (0, 0)
    assert code.registers <= registers
    assert len(code.loops) >= 2 + ("backward" in name)
    assert [doubles(loop) for loop in code.loops] == [0] * len(code.loops)
    assert per_pair_and_node(code, launch, target) <= (amd if target.startswith("gfx") else nvidia)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("name", ["spectrum_forward wide", "spectrum_backward wide"])
def test_the_spectrum_in_float64_compiles_without_spills(name, rank, target):
    code = compiled(spectrum_launches(rank)[name], target)
    assert code.spilled == 0
    assert code.shared <= SHARED
    assert doubles(code.loops[-1]) > 20  # the count above can tell


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rank", "maps"), [(1, 1), (2, 2)])
@pytest.mark.parametrize("name", ["needs_wide", "spectrum_gradients narrow", "spectrum_gradients wide"])
def test_what_is_computed_feature_by_feature_compiles_without_spills(name, rank, maps, target):
    code = compiled(spectrum_launches(rank, maps=maps)[name], target)
    assert code.spilled == 0
    assert code.shared <= SHARED


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rank", "registers"), [(0, 80), (1, 80), (2, 104)])
def test_a_step_compiles_without_spills(rank, registers, target):
    code = compiled(step_launch(rank), target)
    assert code.spilled == 0
    assert code.shared <= SHARED
    assert code.registers <= registers


def test_the_count_of_double_precision_knows_its_instructions():
    lines = [
        "DFMA R2, R4, R6, R8",
        "@!P0 DADD R2, R4, R6",
        "F2F.F64.F32 R2, R3",
        "FFMA R1, R2, R3, R4",
        "v_fma_f64 v[0:1]",
    ]
    assert targets.doubles(lines) == 4
    assert targets.kinds(lines)["FFMA"] == 1
