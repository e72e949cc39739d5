"""The compiled library on other processors and systems, by cross compilers and emulators: `make portable`.

Calls of the library are recorded here, with the memory before and after: those of layers and models with their
gradients, and those of compiled steps, of U-Nets too, with each type of weights. For every target whose compiler is
installed, the library and tests/replay.cpp are compiled and the calls replayed under an emulator; for those without an
emulator it is compiled and linked. Targets whose tools are missing are named, with the Debian package or the wheel that
has them.
"""

import argparse
import ctypes
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sanitize import ROOT, SOURCE, layer, model, recurrence

sys.path.insert(0, str(ROOT))
FLAGS = ("-O2", "-std=c++17", "-fcx-fortran-rules", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")
ZIG = f"{sys.executable} -m ziglang c++ -target"


class Target(NamedTuple):
    compiler: str
    emulator: str | None
    package: str  # what has them
    flags: tuple[str, ...] = ("-fPIC", "-fopenmp")


TARGETS = {
    "arm64 Linux": Target(
        "aarch64-linux-gnu-g++", "qemu-aarch64 -L /usr/aarch64-linux-gnu", "g++-aarch64-linux-gnu and qemu-user"
    ),
    "x86-64 Windows": Target(
        "x86_64-w64-mingw32-g++-posix", "wine", "g++-mingw-w64-x86-64 and wine64", ("-static", "-fopenmp")
    ),
    "arm64 macOS": Target(f"{ZIG} aarch64-macos", None, "ziglang, a wheel", ()),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="of random sizes, whose calls are recorded")
    parser.add_argument("--targets", nargs="*", choices=TARGETS, default=list(TARGETS), metavar="TARGET")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        calls = Path(temporary) / "calls.bin"
        names = record(calls, options.rounds)
        print(f"recorded {sum(names.values())} calls of {len(names)} functions", flush=True)
        for name in options.targets:
            failed |= not try_target(name, TARGETS[name], calls, Path(temporary))
    return int(failed)


def try_target(name: str, target: Target, calls: Path, folder: Path) -> bool:
    """Compile for a target and replay the calls there; False if anything went wrong."""
    compiler = target.compiler.split()
    missing = [tool for tool in (compiler[0], (target.emulator or "true").split()[0]) if not shutil.which(tool)]
    if "ziglang" in target.compiler and subprocess.run([*compiler[:3], "version"], capture_output=True).returncode:
        missing = ["ziglang"]
    if missing:
        print(f"\n{name}: not tried, {' and '.join(missing)} not found: install {target.package}", flush=True)
        return True
    print(f"\n{name}: {target.compiler}", flush=True)
    library, replay = folder / "_native.so", folder / "replay.exe"
    build = [[*compiler, *FLAGS, *target.flags, "-shared", str(SOURCE), "-o", str(library)]]
    if target.emulator is not None:
        build.append([*compiler, "-O1", "-std=c++17", *target.flags, str(ROOT / "tests/replay.cpp"), "-o", str(replay)])
    for command in build:
        if subprocess.run(command, check=False).returncode:
            return False
    if target.emulator is None:
        print("compiled and linked; there is no emulator to run it", flush=True)
        return True
    run = [*target.emulator.split(), str(replay), str(library), str(calls)]
    return subprocess.run(run, cwd=folder, check=False).returncode == 0


CALLS, CALLS_OF_STEPS = 8, 2  # that are recorded, of a function and of the steps of one model
OTHER, EXACT = 0, 1  # memory that is not compared, and that must be the same; else the size of a number
FLOAT_BOUND, DOUBLE_BOUND = 2e-5, 1e-9  # of the largest value: other vectors, other sums
INT8_BOUND = 1e-3  # a whole number of an input may be the next one


class Region(NamedTuple):
    """Memory that a call may touch."""

    address: int
    size: int
    kind: int
    pointers: Sequence[int] = ()  # where in it there are addresses

    def content(self) -> bytes:
        return ctypes.string_at(self.address, self.size)


class Recorder:
    """Calls of the library as replay.cpp reads them."""

    def __init__(self) -> None:
        self.written: Counter[str] = Counter()
        self.content = bytearray()

    def call(self, name: str, regions: Sequence[Region], arguments: Sequence[Any], bound: float) -> Callable[[], None]:
        """Note what is there before a call; the function that is returned writes it with what is there afterwards.

        Arguments are numbers, or pointers as ctypes.c_void_p.
        """
        regions = [region for region in regions if region.size]
        before = [region.content() for region in regions]

        def place(address: int | None) -> tuple[int, int]:
            """A region and a place in it; -1 and 0 for no address."""
            if not address:
                return -1, 0
            found = (k for k, one in enumerate(regions) if one.address <= address < one.address + one.size)
            k = next(found)
            return k, address - regions[k].address

        moved = []
        for k, region in enumerate(regions):
            for offset in region.pointers:
                target = place(struct.unpack_from("<q", before[k], offset)[0])
                if target[0] >= 0:
                    moved.append((k, offset, *target))
        passed = [place(a.value) if isinstance(a, ctypes.c_void_p) else (-1, int(a)) for a in arguments]

        def write() -> None:
            self.content += struct.pack("<q", len(name)) + name.encode() + struct.pack("<q", len(regions))
            for region, old in zip(regions, before, strict=True):
                off = {4: max(bound, FLOAT_BOUND), 8: bound}.get(region.kind, 0.0)
                self.content += struct.pack("<2qd", region.kind, region.size, off) + old + region.content()
            for rows in (moved, passed):
                self.content += struct.pack("<q", len(rows)) + b"".join(struct.pack(f"<{len(r)}q", *r) for r in rows)
            self.written[name] += 1

        return write


def record(path: Path, rounds: int) -> "Counter[str]":
    """Write the calls of some rounds of random sizes; how many of which function."""
    import torch

    from longwave.ops import WEIGHT_TYPES
    from longwave.ops.cpu import library, model_step

    torch.set_num_threads(1)
    recorder, steps = Recorder(), Counter[int]()
    owner: list[Any] = []  # of the call of compiled steps that is going on

    def of(tensor: torch.Tensor) -> Region:
        is_float = tensor.is_floating_point() or tensor.is_complex()
        kind = tensor.element_size() // (1 + tensor.is_complex()) if is_float else EXACT
        return Region(tensor.data_ptr(), tensor.nbytes, kind)

    def recorded_run(name: str, sizes: Sequence[int], memory: Any, options: Sequence[int], rest: Any) -> None:
        write = None
        if recorder.written[name] < CALLS:
            pointers = [
                [ctypes.c_void_p(t.data_ptr() if t.numel() else 0) for t in tensors] for tensors in (memory, rest)
            ]
            bound = FLOAT_BOUND if name.endswith("_f32") else DOUBLE_BOUND
            arguments = [*sizes, *pointers[0], *options, *pointers[1]]
            write = recorder.call(name, [of(t) for t in (*memory, *rest)], arguments, bound)
        run(name, sizes, memory, options, rest)
        if write is not None:
            write()

    def recorded_function(name: str, *counts: int) -> Callable[..., int]:
        call = function(name, *counts)
        sizes, memory, options, _ = counts
        pointers = {*range(sizes, sizes + memory), *range(sizes + memory + options, sum(counts))}

        def recorded(*arguments: Any) -> int:
            if not owner or steps[id(owner[0])] >= CALLS_OF_STEPS:
                return call(*arguments)
            own, x = owner
            steps[id(own)] += 1
            regions = [of(x), *map(of, own._known._tensors), of(own._scratch)._replace(kind=OTHER)]
            regions += [of(t)._replace(kind=EXACT) for t in own.packing._kept] + [*structures(own)]
            if name == "linear":  # its input may be padded, and its output is new
                regions[0] = Region(arguments[-3], 4 * arguments[0] * own._linear.inputs, 4)
                regions.append(Region(arguments[-2], 4 * arguments[0] * arguments[1], 4))
            given = [ctypes.c_void_p(address_of(a)) if k in pointers else a for k, a in enumerate(arguments)]
            kind = WEIGHT_TYPES[own.packing.kind]
            write = recorder.call(f"{name} {kind}", regions, given, INT8_BOUND if kind == "int8" else FLOAT_BOUND)
            failed = call(*arguments)
            write()
            return failed

        return recorded

    def recorded_steps(kind: type) -> Callable[..., Any]:
        call = kind.__call__

        def recorded(self: Any, x: torch.Tensor, *more: Any) -> Any:
            owner[:] = self, x
            try:
                return call(self, x, *more)
            finally:
                owner.clear()

        return recorded

    run, function = library.run, library.function
    modules = [m for name, m in sys.modules.items() if name.startswith("longwave.ops") and hasattr(m, "run")]
    for module in modules:
        if module.run is run:
            module.run = recorded_run
    library.function = recorded_function
    for kind in (model_step.BlockSteps, model_step.UNetSteps, model_step.LinearSteps):
        kind.__call__ = recorded_steps(kind)
    library.vector_bits = lambda: 128  # weights of steps are packed for vectors that all targets have
    torch.manual_seed(0)
    chance = random.Random(0)
    for number in range(rounds):
        (layer, model)[number % 2](chance)
    for _ in range(rounds // 2):
        recurrence(chance)
    path.write_bytes(struct.pack("<q", recorder.written.total()) + recorder.content)
    return recorder.written


def address_of(argument: Any) -> int:
    """The address of an argument that is one, or that is a structure."""
    return argument if isinstance(argument, int) else ctypes.addressof(argument)


def structures(owner: Any) -> Iterator[Region]:
    """The structures that compiled steps hold."""
    for value in vars(owner).values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ctypes.Array | ctypes.Structure):
                yield Region(ctypes.addressof(one), ctypes.sizeof(one), OTHER, [*pointers_in(type(one))])


def pointers_in(kind: Any, start: int = 0) -> Iterator[int]:
    """Where there are pointers in a type of ctypes."""
    if kind is ctypes.c_void_p:
        yield start
    elif issubclass(kind, ctypes.Array):
        for k in range(kind._length_):
            yield from pointers_in(kind._type_, start + k * ctypes.sizeof(kind._type_))
    elif issubclass(kind, ctypes.Structure):
        for name, part in kind._fields_:
            yield from pointers_in(part, start + getattr(kind, name).offset)


if __name__ == "__main__":
    sys.exit(main())
