"""The compiled library on other processors and systems, by cross compilers and emulators: `make portable`.

Calls of the library are recorded here, with the memory before and after. For every target whose compiler is installed,
the library and tests/replay.cpp are compiled and the calls replayed under an emulator; for those without an emulator it
is compiled and linked. Targets whose tools are missing are named, with the Debian package or the wheel that has them.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sanitize import ROOT, SOURCE, layer, model

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
    "x86-64 Windows, GCC": Target(
        "x86_64-w64-mingw32-g++-posix", "wine", "g++-mingw-w64-x86-64 and wine64", ("-static", "-fopenmp")
    ),
    "x86-64 Windows, Clang": Target(f"{ZIG} x86_64-windows-gnu", "wine", "ziglang, a wheel", ()),
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


def record(path: Path, rounds: int) -> "Counter[str]":
    """Write the calls of some rounds of random sizes, at most eight per function; how many of which."""
    import torch

    from longwave.ops.cpu import library

    torch.set_num_threads(1)
    written: Counter[str] = Counter()
    chance, content = random.Random(0), bytearray()

    def recorded(name: str, sizes: Sequence[int], memory: Any, options: Sequence[int], rest: Any) -> None:
        groups: list[Any] = [sizes, memory, options, rest]
        before = [[content_of(t) for t in tensors] for tensors in groups[1::2]]
        original(name, sizes, memory, options, rest)
        if written[name] >= 8:
            return
        written[name] += 1
        content.extend(struct.pack("<q", len(name)) + name.encode())
        for k, group in enumerate(groups):
            content.extend(struct.pack("<q", len(group)))
            if k % 2 == 0:
                content.extend(struct.pack(f"<{len(group)}q", *map(int, group)))
                continue
            for tensor, old in zip(group, before[k // 2], strict=True):
                kind = {4: 0, 8: 1}[tensor.element_size() // (1 + tensor.is_complex())] if is_float(tensor) else 2
                content.extend(struct.pack("<2q", kind, len(old)) + old + content_of(tensor))

    def is_float(tensor: torch.Tensor) -> bool:
        return tensor.is_floating_point() or tensor.is_complex()

    def content_of(tensor: torch.Tensor) -> bytes:
        return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""

    original = library.run
    library.run = recorded
    modules = [m for name, m in sys.modules.items() if name.startswith("longwave.ops") and hasattr(m, "run")]
    for module in modules:
        if module.run is original:
            module.run = recorded
    torch.manual_seed(0)
    for number in range(rounds):
        (layer, model)[number % 2](chance)
    path.write_bytes(struct.pack("<q", sum(written.values())) + content)
    return written


if __name__ == "__main__":
    sys.exit(main())
