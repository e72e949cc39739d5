"""S4 against the LSSL, its predecessor with a dense state matrix: the paper's tab:ssm-benchmark."""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from longwave import ops
from longwave.bench.base import BENCHES, DrawnBench, Progress, Result
from longwave.bench.layer import layer_pass
from longwave.bench.measure import (
    best_times,
    can_measure_memory,
    in_fresh_process,
    live_growth_of,
    machine,
    too_little_memory,
)
from longwave.bench.numbers import megabytes, milliseconds, over, three_digits
from longwave.bench.picture import Panel
from longwave.core.text_table import TextTable
from longwave.layers import LSSL, S4

L, BATCH = 1024, 1
DIMENSIONS = (128, 256, 512)
QUICK_DIMENSIONS = (64, 128)
ONCE = 512  # from this dimension on, a pass of the LSSL takes minutes
# dimension: milliseconds of a training step and megabytes, LSSL and S4, on an A100
PAPER = {128: ((9.32, 4.77), (222.1, 5.3)), 256: ((20.6, 3.07), (1685, 12.6)), 512: ((140.7, 4.75), (13140, 33.5))}
CAPTION = (
    "One layer, forward + backward: LSSL with N = H states and a dense A for each of its H features; S4 with N = "
    f"H / 4 and length= given. Length {L:,}, batch {BATCH}: the paper does not say which it used. Times: the "
    f"fastest of several repeats; the layers take turns in one process; from dimension {ONCE} on the LSSL runs once, "
    "without warm-up. Memory: growth of the peak resident set during one pass, in a process of its own that returns "
    "freed memory at once, without parameters and input. paper: on an A100."
)


@BENCHES.register("lssl")
@dataclass(frozen=True)
class LSSLBench(DrawnBench):
    """Time and memory of a training pass of S4 and of the LSSL, beside the paper's.

    Example: longwave bench lssl --quick
    """

    duration: ClassVar[str] = "four minutes, and 14 GB of memory"

    def run(self, progress: Progress) -> Result:
        """A row for each dimension: seconds and bytes of both layers, their ratios, and the paper's."""
        rows = []
        for H in QUICK_DIMENSIONS if self.quick else DIMENSIONS:
            row: dict[str, Any] = {"dimension": H, "paper": paper_row(H)}
            rows.append(row)
            reason = too_little_memory(needed_bytes(H, L))
            if reason is not None:
                row["skipped"] = reason
                continue
            slow = ", one pass of the LSSL, which takes minutes" if H >= ONCE else ""
            progress(f"times at dimension {H}{slow}")
            row["seconds"] = in_fresh_process(times, H=H, length=L, repeats=3 if self.quick else 7, once=H >= ONCE)
            row["time_ratio"] = row["seconds"]["lssl"] / row["seconds"]["s4"]
            if can_measure_memory():
                row["memory_bytes"] = {}
                for name in ("lssl", "s4"):
                    progress(f"memory of {name} at dimension {H}{slow if name == 'lssl' else ''}")
                    row["memory_bytes"][name] = in_fresh_process(memory, name=name, H=H, length=L)
                row["memory_ratio"] = row["memory_bytes"]["lssl"] / row["memory_bytes"]["s4"]
        return {"bench": "lssl", "L": L, "batch": BATCH, "caption": CAPTION, "machine": machine(), "rows": rows}

    def tables(self, result: Result) -> list[TextTable]:
        """Time and memory, ours and the paper's."""
        columns = ("dimension", "LSSL", "S4", "LSSL / S4", "paper: LSSL", "paper: S4", "paper: LSSL / S4")
        tables = []
        for what, field, ratio, text in (
            ("time", "seconds", "time_ratio", milliseconds),
            ("memory", "memory_bytes", "memory_ratio", megabytes),
        ):
            rows = []
            for row in result["rows"]:
                paper, cells = row["paper"] or {}, [str(row["dimension"])]
                for figures in (row, paper):
                    measured = figures.get(field, {})
                    cells += [*(text(measured.get(name)) for name in ("lssl", "s4")), three_digits(figures.get(ratio))]
                rows.append([*cells, over(row.get(ratio), paper.get(ratio))])
            title = f"LSSL and S4, {what} of a training pass: length {result['L']:,}, batch {result['batch']}"
            tables.append(TextTable(title, (*columns, "ours / paper"), rows))
        return tables

    def notes(self, result: Result) -> list[str]:
        """Also which dimensions were not measured, and why."""
        skipped = [f"dimension {row['dimension']}: {row['skipped']}" for row in result["rows"] if "skipped" in row]
        return skipped + super().notes(result)

    def panels(self, result: Result) -> list[Panel]:
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
    """About what a pass of the LSSL needs: A, its gradient and the powers of A_bar, and the Krylov matrix."""
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
    ops.keep_memory()
    names = ("s4",) if once else ("lssl", "s4")
    return seconds | best_times({name: training_pass(name, H, length) for name in names}, repeats)


def memory(name: str, H: int, length: int) -> int:
    """Bytes that a training pass needs."""
    return live_growth_of(training_pass(name, 8, 64), training_pass(name, H, length))


def training_pass(name: str, H: int, length: int) -> Callable[[], None]:
    """Forward and backward of a fresh layer on a fresh input."""
    u = torch.randn(BATCH, length, H, requires_grad=True)
    return functools.partial(layer_pass, make_layer(name, H, length), u)
