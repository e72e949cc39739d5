"""How times and memory are taken.

Times on shared machines are noisy: whatever is compared runs in turn within one process, made for it alone, and each
keeps its fastest repeat. Memory is the growth of the peak resident set in a process made for it, after the inputs exist
and a warm-up ran.
"""

import ctypes
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def best_times(functions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Seconds of each function's fastest run; the functions take turns, after one run each to warm up."""
    for function in functions.values():
        function()
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def in_fresh_process(function: Callable[..., Any], **case: Any) -> Any:
    """function(**case) in a process of its own, so that no allocator's state comes from another case."""
    code = (
        "import importlib, json, sys; "
        "function = getattr(importlib.import_module(sys.argv[1]), sys.argv[2]); "
        "print(json.dumps(function(**json.loads(sys.argv[3]))))"
    )
    command = [sys.executable, "-c", code, function.__module__, function.__name__, json.dumps(case)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{function.__name__} {case} failed in a process of its own:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def growth_of(warm_up: Callable[[], object], run: Callable[[], object]) -> int:
    """Bytes by which this process' peak resident set grows during one run (Linux: the peak is reset first)."""
    warm_up()
    before = _resident_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    run()
    return _resident_bytes("VmHWM") - before


def can_measure_memory() -> bool:
    """Whether this system tells a process its peak resident set, and lets it be reset."""
    return Path("/proc/self/clear_refs").exists()


def live_growth_of(warm_up: Callable[[], object], run: Callable[[], object]) -> int:
    """As growth_of, but of what lives at once: neither what the C library keeps of freed memory, nor its holes.

    What the warm-up freed would otherwise be used again, and a run that fits into it would seem to need nothing; and
    what a run frees and cannot use again would count twice.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "malloc_trim"):
        return growth_of(warm_up, run)
    mmap_threshold = -3  # M_MMAP_THRESHOLD of malloc.h
    library.mallopt(mmap_threshold, 1 << 15)

    def warm_up_and_return() -> None:
        warm_up()
        library.malloc_trim(0)

    return growth_of(warm_up_and_return, run)


def available_bytes() -> int | None:
    """Memory that the system could hand out now without swapping, if it says so (Linux)."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def too_little_memory(needed: int) -> str | None:
    """The reason not to start what needs so many bytes, or None."""
    available = available_bytes()
    if available is None or available >= needed:
        return None
    return f"not measured: it needs about {needed / 1e9:.1f} GB of memory, {available / 1e9:.1f} GB are available"


def _resident_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}: memory is measured on Linux only")


def machine() -> dict[str, Any]:
    """What a result must name to be compared: the CPU, its threads, and the versions."""
    import torch

    import longwave
    from longwave import kernels

    backend = kernels.backend()
    return {
        "cpu": cpu_name(),
        "threads": torch.get_num_threads(),
        "kernel": backend + (f" ({kernels.native.vector_bits()}-bit vectors)" if backend == "native" else ""),
        "longwave": longwave.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def cpu_name() -> str:
    """The CPU's name as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
