"""Measure times and memory.

Times on shared machines are noisy: the functions to compare take turns in a fresh process, and the fastest repeat of
each counts. Memory is the growth of the peak resident set in a fresh process, after inputs are made and a warm-up. On a
GPU times are between events, and memory is that of torch's tensors. A device is given by its name, cpu or cuda:1.
"""

import ctypes
import itertools
import json
import math
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

Name = TypeVar("Name")


def best_times(
    functions: Mapping[Name, Callable[[], object]],
    repeats: int,
    device: str = "cpu",
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Name, float]:
    """Seconds of each function's fastest run; the functions take turns, after one run each to warm up.

    On a GPU after three: kernels are compiled and plans are made at first. With time.process_time as the clock, seconds
    of all processors, which other work on a busy machine does not add to.
    """
    for function in functions.values():
        for _ in range(3 if is_gpu(device) else 1):
            function()
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            best[name] = min(best[name], seconds_of(function, device, clock))
    return best


def is_gpu(device: str) -> bool:
    """Whether a device runs behind the calls that it is given, as those of CUDA and ROCm do."""
    return device.startswith("cuda")


def seconds_of(
    function: Callable[[], object], device: str = "cpu", clock: Callable[[], float] = time.perf_counter
) -> float:
    """Seconds of one run; on a GPU between two events."""
    if not is_gpu(device):
        start = clock()
        function()
        return clock() - start
    import torch

    with torch.cuda.device(device):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        function()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3


def wall_and_processor(run: Callable[[], object], device: str = "cpu") -> tuple[float, float]:
    """Seconds of one run, and of all processors in it, which other work on a busy machine does not add to."""
    processor = time.process_time()
    return seconds_of(run, device), time.process_time() - processor


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """k of y ~ x^k, by least squares over the logarithms."""
    x, y = ([math.log(value) for value in values] for values in zip(*points, strict=True))
    return statistics.linear_regression(x, y).slope


def in_fresh_process(function: Callable[..., Any], **case: Any) -> Any:
    """function(**case) in a fresh process, where other cases have left no traces in the memory allocator."""
    code = (
        "import importlib, json, sys; "
        "function = getattr(importlib.import_module(sys.argv[1]), sys.argv[2]); "
        "print(json.dumps(function(**json.loads(sys.argv[3]))))"
    )
    command = [sys.executable, "-P", "-c", code, function.__module__, function.__name__, json.dumps(case)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{function.__name__} {case} failed in a fresh process:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def growth_of(warm_up: Callable[[], object], run: Callable[[], object], device: str = "cpu") -> int:
    """Bytes by which this process' peak resident set grows during one run (Linux: the peak is reset first)."""
    warm_up()
    if is_gpu(device):
        return peak_of_tensors(run, device)
    before = resident_bytes()
    Path("/proc/self/clear_refs").write_text("5")
    run()
    return resident_bytes("VmHWM") - before


def can_measure_memory(device: str = "cpu") -> bool:
    """Whether this system reports the peak resident set of a process, and can reset it (Linux); a GPU's is known."""
    return is_gpu(device) or Path("/proc/self/clear_refs").exists()


def live_growth_of(warm_up: Callable[[], object], run: Callable[[], object], device: str = "cpu") -> int:
    """Measure like growth_of, but only live memory: the C library returns freed memory at once.

    Otherwise a run that fits into what the warm-up freed would seem to need nothing, and fragmented free memory would
    count twice.
    """
    library = ctypes.CDLL(None)
    if is_gpu(device) or not hasattr(library, "malloc_trim"):
        return growth_of(warm_up, run, device)
    mmap_threshold = -3  # M_MMAP_THRESHOLD of malloc.h
    library.mallopt(mmap_threshold, 1 << 15)

    def warm_up_and_return() -> None:
        warm_up()
        library.malloc_trim(0)

    return growth_of(warm_up_and_return, run)


def peak_of_tensors(run: Callable[[], object], device: str = "cpu") -> int:
    """Bytes of tensors that one run allocates and holds at one time, as torch counts them, to the byte.

    For amounts below the resolution of the resident set, which grows by pages. On a GPU cuFFT's workspace is no tensor.
    """
    if is_gpu(device):
        import torch

        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        return torch.cuda.max_memory_allocated(device) - before
    from torch.profiler import ProfilerActivity, profile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as trace:
            run()
        trace.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    changes = sorted((event["ts"], event["args"]["Bytes"]) for event in events if event["name"] == "[memory]")
    return max(itertools.accumulate((change for _, change in changes), initial=0))


def state_bytes(state: Any) -> int:
    """Bytes of all tensors in a state, however it is nested."""
    from torch import Tensor

    if isinstance(state, Tensor):
        return state.nbytes
    if isinstance(state, dict):
        return sum(state_bytes(part) for part in state.values())
    if isinstance(state, list | tuple):
        return sum(state_bytes(part) for part in state)
    if isinstance(state, type) or not hasattr(state, "__dict__"):
        return 0
    return state_bytes(vars(state))  # GPT-2's cache is an object


def _proc(file: str, field: str) -> str | None:
    """The value of a field in a file of /proc; None if there is no such file or field."""
    try:
        lines = Path("/proc", file).read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(field)), None)


def _proc_bytes(file: str, field: str) -> int | None:
    text = _proc(file, field)
    return None if text is None else int(text.split()[0]) * 1024


def peak_bytes(device: str = "cpu") -> int | None:
    """The peak resident set of this process so far, if the system reports it (Linux); on a GPU that of its tensors."""
    if is_gpu(device):
        import torch

        return torch.cuda.max_memory_allocated(device)
    return _proc_bytes("self/status", "VmHWM")


def resident_bytes(field: str = "VmRSS") -> int:
    """The resident set of this process now (Linux)."""
    found = _proc_bytes("self/status", field)
    if found is None:
        raise RuntimeError(f"/proc/self/status has no {field}: memory is measured on Linux only")
    return found


def available_bytes(device: str = "cpu") -> int | None:
    """Memory that is available without swapping, if the system reports it (Linux); on a GPU what is free there."""
    if is_gpu(device):
        import torch

        return torch.cuda.mem_get_info(device)[0]
    return _proc_bytes("meminfo", "MemAvailable")


def too_little_memory(needed: int, device: str = "cpu") -> str | None:
    """Why something that needs this many bytes is not started; None if there is enough memory."""
    available = available_bytes(device)
    if available is None or available >= needed:
        return None
    return f"not measured: it needs about {needed / 1e9:.1f} GB of memory, {available / 1e9:.1f} GB are available"


def machine(device: str = "cpu") -> dict[str, Any]:
    """Describe the machine of a result: CPU, threads, GPU if used, backend and versions."""
    import torch

    import longwave
    from longwave import ops

    backend = ops.backend_name(torch.device(device).type)
    gpu = {"device": f"{device}, {torch.cuda.get_device_name(device)}"} if is_gpu(device) else {"device": device}
    return (gpu if device != "cpu" else {}) | {
        "cpu": cpu_name(),
        "threads": torch.get_num_threads(),
        "backend": f"{backend} ({ops.BACKENDS[backend].description()})",
        "longwave": longwave.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def machine_line(machine: Mapping[str, Any]) -> str:
    """The machine of a result, in one line."""
    backend, versions = machine["backend"], f"torch {machine['torch']}, longwave {machine['longwave']}"
    device = f"{machine['device']}, beside " if "device" in machine else ""
    return f"{device}{machine['cpu']}, {machine['threads']} threads, backend {backend}, {versions}"


def cpu_name() -> str:
    """The CPU's name as the system gives it."""
    return _proc("cpuinfo", "model name") or platform.processor() or platform.machine()


def cpu_features() -> list[str]:
    """The vector instructions that matter to the compiled backend, as Linux lists them."""
    known = ("sse2", "avx", "avx2", "fma", "avx512f", "avx512dq", "asimd", "sve")
    found = (_proc("cpuinfo", "flags") or _proc("cpuinfo", "Features") or "").split()
    return [feature for feature in known if feature in found]
