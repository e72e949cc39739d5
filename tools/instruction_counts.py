"""Instructions of several ways to compute the same, counted by callgrind: other work on a machine does not change them.

    python tools/instruction_counts.py
    python tools/instruction_counts.py spectrum

It runs itself under valgrind, on one thread and with AVX2, because valgrind does not know AVX-512. It needs valgrind
with its headers and a C compiler.
"""

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Ways = dict[str, Callable[[], object]]
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
ENVIRONMENT = AVX2 | {"LONGWAVE_VECTOR_BITS": "256", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
SWITCHES = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; }
void end(void) { CALLGRIND_DUMP_STATS; CALLGRIND_STOP_INSTRUMENTATION; }
"""
WIDTH = 1024  # of the linear layer
FEATURES, LENGTH, STATES = 8, 1024, 256  # of the spectrum


def unet() -> Ways:
    """A group of steps of the sound model, in which each level takes one at least."""
    from longwave.experiments import EXPERIMENTS
    from longwave.models import Recurrence

    experiment = EXPERIMENTS.find("fsdd-waveform-small")
    model: Any = experiment.model.resolve(experiment.task.on_random_data(rows=1).spec).build().eval()
    token, state, compiled = torch.zeros(1, dtype=torch.long), model.initial_state(1), Recurrence(model, 1)

    def layers() -> None:
        nonlocal state
        for _ in range(model.group):
            state = model.step(token, state)[1]

    def steps() -> None:
        for _ in range(model.group):
            compiled(token)

    return {"layer by layer": layers, "compiled": steps}


def linear() -> Ways:
    """The product of a linear layer with one row, with each type of weights."""
    from longwave import ops

    weight, x = torch.randn(WIDTH, WIDTH), torch.randn(1, WIDTH)
    ways: Ways = {}
    for kind in ops.WEIGHT_TYPES:
        product: Any = ops.linear_steps(weight, None, kind)
        ways[kind] = lambda product=product: product(x)
    return ways


def spectrum() -> Ways:
    """The kernel's spectrum and its gradients for LegS with 256 states, whose damping is 2.4e-5 of |Lambda|."""
    from longwave.bench.kernel import op_pass, system
    from longwave.ops.cpu import kernel

    given = torch.randn(1, FEATURES, LENGTH // 2 + 1, 2), *system(FEATURES, STATES, "legs"), LENGTH
    both_ways, kept = op_pass("native", "spectrum", *given), kernel.DAMPING

    def with_damping(damping: float) -> None:
        kernel.DAMPING = damping
        both_ways()
        kernel.DAMPING = kept

    return {"float64 throughout": lambda: with_damping(1.0), "float64 near a pole": lambda: with_damping(kept)}


CASES: dict[str, Callable[[], Ways]] = {"unet": unet, "linear": linear, "spectrum": spectrum}


@torch.no_grad()
def work(names: list[str], library: Path) -> None:
    """Compute each way of each case once to warm up and once counted, and print in which order."""
    switches = ctypes.CDLL(str(library))
    torch.manual_seed(0)
    order = []
    for name in names:
        for way, function in CASES[name]().items():
            function()
            switches.begin()
            function()
            switches.end()
            order.append((name, way))
    print(json.dumps(order))


def counted(names: list[str]) -> dict[tuple[str, str], int]:
    """The instructions of each way of each case."""
    with tempfile.TemporaryDirectory() as folder:
        library, out = Path(folder) / "switches.so", Path(folder) / "out"
        compiler = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
        subprocess.run(compiler, input=SWITCHES, text=True, check=True)
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        command += [sys.executable, __file__, "--library", str(library), *names]
        done = subprocess.run(command, env=os.environ | ENVIRONMENT, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"valgrind failed:\n{done.stderr}")
        order = json.loads(done.stdout.splitlines()[-1])
        return {(name, way): total(Path(f"{out}.{k}")) for k, (name, way) in enumerate(order, 1)}


def total(path: Path) -> int:
    """The instructions of one output of callgrind."""
    lines = path.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("totals:"))


def main(arguments: list[str] | None = None) -> None:
    """Print the counts, in millions, and each over that of the first way of its case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"{', '.join(CASES)}; by default all of them")
    parser.add_argument("--library", type=Path, help=argparse.SUPPRESS)  # in the process under valgrind
    options = parser.parse_args(arguments)
    names = options.cases or list(CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"CASE: expected one of {', '.join(CASES)}, got {unknown[0]!r}")
    if options.library is not None:
        work(names, options.library)
        return
    if shutil.which("valgrind") is None:
        parser.error("valgrind not found; it is a package of most systems")
    first: dict[str, int] = {}
    for (name, way), count in counted(names).items():
        base = first.setdefault(name, count)
        print(f"{name:9} {way:20} {count / 1e6:10.3f} million, {count / base:.3f}")


if __name__ == "__main__":
    main()
