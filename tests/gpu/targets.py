"""Kernels of the backend `triton` compiled ahead of time, for GPUs that are not there, and what their code uses."""

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from longwave.ops.gpu import spectrum, step
from longwave.ops.gpu.launch import Launch, kernels

TARGETS = {f"sm_{capability}": GPUTarget("cuda", capability, 32) for capability in (75, 80, 89, 90, 100)}
TARGETS["gfx942"] = GPUTarget("hip", "gfx942", 64)
TYPES = {torch.float32: "*fp32", torch.float64: "*fp64", torch.uint8: "*u8"}
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
WIDE = re.compile(r"(D(ADD|MUL|FMA|SETP|MNMX)|MUFU\.\w*64\w*|F2F\S*F64\S*|I2F\S*F64\S*)\b|v_\w+_f64\b")


class Code(NamedTuple):
    """What a compiled kernel uses: registers, bytes of stack and of shared memory, and what its loops consist of.

    Shared memory is that of a launch, by Triton: the code itself does not say it.
    """

    registers: int
    spilled: int
    shared: int
    loops: list[list[str]]  # those that have no other in them, as they follow one another


def compiled(launch: Launch, target: str) -> Code:
    """The code of a launch for a target."""
    options = {"num_warps": launch.warps, "enable_fp_fusion": True}
    built = triton.compile(_source(launch), target=TARGETS[target], options=options)
    return _nvidia(built) if "cubin" in built.asm else _amd(built)


def _source(launch: Launch) -> ASTSource:
    """As Triton compiles it at a launch: 1 is a constant, and of other numbers it knows whether 16 divides them."""
    function = getattr(kernels(launch.module), launch.kernel)
    names = function.arg_names
    assert len(names) == len(launch.arguments) + len(launch.constants)
    given = dict(zip(names, launch.arguments, strict=False))
    known = {**{name: 1 for name, v in given.items() if not isinstance(v, torch.Tensor) and v == 1}, **launch.constants}
    types = {name: TYPES[v.dtype] if isinstance(v, torch.Tensor) else "i32" for name, v in given.items()}
    types |= dict.fromkeys(known, "constexpr")
    aligned = [i for i, v in enumerate(launch.arguments) if isinstance(v, torch.Tensor) or v % 16 == 0]
    attributes = {(i,): [["tt.divisibility", 16]] for i in aligned}
    constants = {(names.index(name),): value for name, value in known.items()}
    return ASTSource(function, types, constexprs=constants, attrs=attributes)


def _nvidia(built) -> Code:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(built.asm["cubin"])
        file.flush()
        usage, text = (_run(CUOBJDUMP, option, file.name) for option in ("-res-usage", "-sass"))
    registers, stack, local = map(int, re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", usage).groups())
    found = [(int(at, 16), code.strip()) for at, code in re.findall(r"/\*([0-9a-f]{4,5})\*/\s+([^;]*);", text)]
    jumps = [(at, re.search(r"BRA\S*\s.*0x([0-9a-f]+)", code)) for at, code in found]
    ranges = [(int(jump.group(1), 16), at) for at, jump in jumps if jump and int(jump.group(1), 16) < at]
    loops = [[code for at, code in found if begin <= at <= end] for begin, end in _innermost(ranges)]
    return Code(registers, stack + local, built.metadata.shared, loops)


def _amd(built) -> Code:
    text = built.asm["amdgcn"]

    def number(name: str) -> int:
        return int(re.search(rf"\.{name}:?\s+(\d+)", text).group(1))

    lines, labels, ranges = [line.strip() for line in text.splitlines()], {}, []
    for i, line in enumerate(lines):
        if label := re.match(r"(\.LBB\w+):", line):
            labels[label.group(1)] = i
        elif (jump := re.match(r"s_c?branch\S*\s+(\.LBB\w+)", line)) and jump.group(1) in labels:
            ranges.append((labels[jump.group(1)], i))
    code = re.compile(r"[a-z]+_")
    loops = [[line for line in lines[begin : end + 1] if code.match(line)] for begin, end in _innermost(ranges)]
    spilled = number("vgpr_spill_count") + number("sgpr_spill_count") + number("private_segment_fixed_size")
    return Code(number("vgpr_count"), spilled, built.metadata.shared, loops)


def _innermost(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Loops in which there is no other; a jump back to another place of the code looks like a loop, too."""
    return [r for r in ranges if not any(r != s and r[0] <= s[0] and s[1] <= r[1] for s in ranges)]


def _run(*command) -> str:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


def doubles(loop: list[str]) -> int:
    """Instructions in double precision."""
    return sum(bool(WIDE.match(re.sub(r"^@\S+\s+", "", code))) for code in loop)


def kinds(loop: list[str]) -> Counter[str]:
    """Instructions by their name."""
    return Counter(re.split(r"[.\s]", re.sub(r"^@\S+\s+", "", code))[0] for code in loop)


def spectrum_launches(rank: int, dtype: torch.dtype = torch.float32, maps: int = 1) -> dict[str, Launch]:
    """Those of H 256, N 64 and L 16,384 by name and width, from tensors that have no values."""
    H, M, L = 256, 32, 16384
    sizes = ((H, M, 2), (rank, H, M, 2), (H, M, 2), (maps, H, M, 2), (H,))
    given = [torch.empty(size, dtype=dtype, device="meta") for size in sizes]
    system = spectrum.System.of(*given, L)
    K_hat = torch.empty(maps, H, L // 2 + 1, 2, dtype=dtype, device="meta")
    launches = spectrum.forward_launches(system, K_hat)
    for some in spectrum.backward_launches(system, K_hat, given):
        launches += some
    widths = {0: " narrow", 1: " wide", None: ""}
    return {launch.kernel + widths[launch.constants.get("WIDE")]: launch for launch in launches}


def step_launch(rank: int = 1, batch: int = 64) -> Launch:
    """That of a layer of H 256 and N 64."""
    H, M = 256, 32
    shapes = {"change": (H, M), "left": (rank, H, M), "right": (rank, H, M), "B_bar": (H, M), "C": (H, M)}
    constants = {name: torch.empty(shape, dtype=torch.complex64, device="meta") for name, shape in shapes.items()}
    u = torch.empty(batch, H, device="meta")
    state = torch.empty(batch, H, M, dtype=torch.complex64, device="meta")
    return step.step_launch(step.Constants(**constants, D=u[0]), u, state, u, state)


def per_pair_and_node(code: Code, launch: Launch, target: str) -> float:
    """Instructions that a thread issues per pair and node of its own, in the loops over pairs.

    The first loop finds the nearest pole; a compiler may have it twice, for four pairs at a time and for the rest.
    """
    over_pairs = 2 if launch.kernel == "spectrum_backward" else 1
    nearest, others = code.loops[:-over_pairs], code.loops[-over_pairs:]
    each = launch.constants["NODES"] / (launch.warps * TARGETS[target].warp_size)
    return (min(map(len, nearest)) + sum(map(len, others))) / each


def table() -> str:
    """The table of docs/gpu.md: registers, and instructions per pair and node."""
    names = ("spectrum_forward narrow", "spectrum_backward narrow")
    heads = [f"{way}, rank {rank}" for rank in (1, 2) for way in ("forward", "backward")]
    rows = ["| target | " + " | ".join(heads) + " | step |", "|---" * (len(heads) + 2) + "|"]
    for target in TARGETS:
        cells = []
        for rank in (1, 2):
            for launch in map(spectrum_launches(rank).get, names):
                code = compiled(launch, target)
                cells.append(f"{code.registers}, {per_pair_and_node(code, launch, target):.0f}")
        rows.append(f"| {target} | {' | '.join(cells)} | {compiled(step_launch(), target).registers} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
