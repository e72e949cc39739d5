"""S4 against the LSSL, its predecessor with a dense state matrix: the paper's tab:ssm-benchmark."""

import functools
import time
from collections.abc import Callable
from typing import Any

import torch

from longwave import kernels
from longwave.bench.layer import layer_pass
from longwave.bench.measure import (
    best_times,
    can_measure_memory,
    in_fresh_process,
    live_growth_of,
    machine,
    too_little_memory,
)
from longwave.bench.picture import Panel
from longwave.layers import LSSL, S4

L, BATCH = 1024, 1
DIMENSIONS = (128, 256, 512)
QUICK_DIMENSIONS = (64, 128)
ONCE = 512  # from this dimension on, a pass of the LSSL takes minutes
# dimension: milliseconds of a training step and megabytes, LSSL and S4, on an A100
PAPER = {128: ((9.32, 4.77), (222.1, 5.3)), 256: ((20.6, 3.07), (1685, 12.6)), 512: ((140.7, 4.75), (13140, 33.5))}
CAPTION = (
    "One layer, forward + backward: LSSL with N = H states and a dense A for each of its H features; S4 with N = "
    f"H / 4 and length= given. Length {L:,}, batch {BATCH}: the paper does not say which it took. Times: the "
    f"fastest of several repeats, in turn in one process; from dimension {ONCE} on the LSSL runs once, unwarmed. "
    "Memory: growth of the peak resident set during one pass, in a process of its own that gives freed memory back at "
    "once; parameters and input come on top. The paper: on an A100."
)


def run(quick: bool, progress: Callable[[str], None]) -> dict[str, Any]:
    """A row for each dimension: seconds and bytes of both layers, their ratios, and the paper's."""
    rows = []
    for H in QUICK_DIMENSIONS if quick else DIMENSIONS:
        row: dict[str, Any] = {"dimension": H, "paper": paper_row(H)}
        rows.append(row)
        reason = too_little_memory(needed_bytes(H, L))
        if reason is not None:
            row["skipped"] = reason
            continue
        slow = ", one pass of the LSSL, which takes minutes" if H >= ONCE else ""
        progress(f"times at dimension {H}{slow}")
        row["seconds"] = in_fresh_process(times, H=H, length=L, repeats=3 if quick else 7, once=H >= ONCE)
        row["time_ratio"] = row["seconds"]["lssl"] / row["seconds"]["s4"]
        if can_measure_memory():
            row["memory_bytes"] = {}
            for name in ("lssl", "s4"):
                progress(f"memory of {name} at dimension {H}{slow if name == 'lssl' else ''}")
                row["memory_bytes"][name] = in_fresh_process(memory, name=name, H=H, length=L)
            row["memory_ratio"] = row["memory_bytes"]["lssl"] / row["memory_bytes"]["s4"]
    return {"bench": "lssl", "L": L, "batch": BATCH, "caption": CAPTION, "machine": machine(), "rows": rows}


def paper_row(H: int) -> dict[str, Any] | None:
    """The paper's figures at this dimension, in the units of ours."""
    if H not in PAPER:
        return None
    (lssl_ms, s4_ms), (lssl_mb, s4_mb) = PAPER[H]
    return {
        "seconds": {"lssl": lssl_ms / 1e3, "s4": s4_ms / 1e3},
        "memory_bytes": {"lssl": lssl_mb * 1e6, "s4": s4_mb * 1e6},
        "time_ratio": lssl_ms / s4_ms,
        "memory_ratio": lssl_mb / s4_mb,
    }


def needed_bytes(H: int, length: int) -> int:
    """About what a pass of the LSSL takes: A, its gradient and the powers of A_bar, and the Krylov matrix."""
    return 4 * H * (18 * H * H + 4 * H * length)


def make_layer(name: str, H: int, length: int) -> LSSL | S4:
    """The layer of the table."""
    return LSSL(H, H) if name == "lssl" else S4(H, H // 4, length=length)


def times(H: int, length: int, repeats: int, once: bool) -> dict[str, float]:
    """Seconds of a training pass of both layers; `once`: of the LSSL without a warm-up of its size, and one only."""
    torch.manual_seed(0)
    seconds = {}
    if once:
        training_pass("lssl", 8, 64)()
        run = training_pass("lssl", H, length)
        start = time.perf_counter()
        run()
        seconds["lssl"] = time.perf_counter() - start
        del run
    # As training does, for both; but a single pass has nothing to gain from it, and would need twice the memory.
    kernels.native.keep_memory()
    names = ("s4",) if once else ("lssl", "s4")
    return seconds | best_times({name: training_pass(name, H, length) for name in names}, repeats)


def memory(name: str, H: int, length: int) -> int:
    """Bytes that a training pass needs."""
    return live_growth_of(training_pass(name, 8, 64), training_pass(name, H, length))


def training_pass(name: str, H: int, length: int) -> Callable[[], None]:
    """Forward and backward of a fresh layer on a fresh input."""
    u = torch.randn(BATCH, length, H, requires_grad=True)
    return functools.partial(layer_pass, make_layer(name, H, length), u)


def panels(result: dict[str, Any]) -> list[Panel]:
    """Time and memory over the dimension, ours and the paper's."""
    found = []
    for title, field, label, unit in (
        ("Time of a training pass", "seconds", "ms", 1e-3),
        ("Memory of a training pass", "memory_bytes", "MB", 1e6),
    ):
        ours, paper = (
            {
                layer: [(H, figures[field][name] / unit) for H, figures in source if field in figures]
                for name, layer in (("lssl", "LSSL"), ("s4", "S4"))
            }
            for source in (
                [(row["dimension"], row) for row in result["rows"]],
                [(row["dimension"], row["paper"]) for row in result["rows"] if row["paper"]],
            )
        )
        found.append(Panel(title, "features H", label, ours, paper))
    return found
