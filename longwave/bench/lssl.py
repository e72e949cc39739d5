"""S4 against the LSSL, its predecessor with a dense state matrix: the paper's tab:ssm-benchmark."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from longwave import ops
from longwave.bench.base import BENCHES, DrawnBench, Points, Progress, Result, scaling
from longwave.bench.layer import layer_pass
from longwave.bench.measure import (
    best_times,
    can_measure_memory,
    in_fresh_process,
    live_growth_of,
    seconds_of,
    too_little_memory,
)
from longwave.bench.numbers import MEMORY, TIME, Quantity, over, three_digits
from longwave.core.text_table import TextTable
from longwave.layers import LSSL, S4
from longwave.pictures.curves import Panel

L, BATCH = 1024, 1
LABELS = {"lssl": "LSSL", "s4": "S4"}
DIMENSIONS = (128, 256, 512)
QUICK_DIMENSIONS = (64, 128)
ONCE = 512  # from this dimension on, a pass of the LSSL takes minutes
# dimension: milliseconds of a training step and megabytes, LSSL and S4, on an A100
PAPER = {128: ((9.32, 4.77), (222.1, 5.3)), 256: ((20.6, 3.07), (1685, 12.6)), 512: ((140.7, 4.75), (13140, 33.5))}
CAPTION = (
    "One layer, forward + backward: LSSL with N = H states and a dense A for each of its H features; S4 with N = "
    f"H / 4 and length= given. Length {L:,}, batch {BATCH}: the paper does not say which it used. Times: the "
    f"fastest of several repeats; the layers take turns in one process; from dimension {ONCE} on the LSSL runs once, "
    "without warm-up. Memory: growth of the peak resident set during one pass, in a fresh process that returns "
    "freed memory at once, without parameters and input. paper: on an A100."
)


@BENCHES.register("lssl")
@dataclass(frozen=True)
class LSSLBench(DrawnBench):
    """Time and memory of a training pass of S4 and of the LSSL, with the paper's figures.

    Example: longwave bench lssl --quick
    """

    duration = "four minutes, and 14 GB of memory"
    caption = CAPTION

    def measure(self, progress: Progress) -> Result:
        """One row per dimension: seconds and bytes of both layers, their ratios, and the paper's."""
        rows = []
        for H in QUICK_DIMENSIONS if self.quick else DIMENSIONS:
            row: dict[str, Any] = {"dimension": H, "paper": paper_row(H)}
            rows.append(row)
            reason = too_little_memory(needed_bytes(H, L), self.where)
            if reason is not None:
                row["skipped"] = reason
                continue
            slow = ", one pass of the LSSL, which takes minutes" if H >= ONCE else ""
            progress(f"times at dimension {H}{slow}")
            options = {"repeats": 3 if self.quick else 7, "once": H >= ONCE, "device": self.where}
            row["seconds"] = in_fresh_process(times, H=H, length=L, **options)
            if can_measure_memory(self.where):
                row["memory_bytes"] = {}
                for name in LABELS:
                    progress(f"memory of {name} at dimension {H}{slow if name == 'lssl' else ''}")
                    row["memory_bytes"][name] = in_fresh_process(memory, name=name, H=H, length=L, device=self.where)
            row |= ratios(row)
        return {"L": L, "batch": BATCH, "rows": rows}

    def tables(self, result: Result) -> list[TextTable]:
        layers = ("LSSL", "S4", "LSSL / S4")
        columns = ("dimension", *layers, *(f"paper: {name}" for name in layers), "ours / paper")
        tables = []
        for quantity in (TIME, MEMORY):
            rows, ratio = [], f"{quantity.name}_ratio"
            for row in result["rows"]:
                paper, cells = row["paper"] or {}, [str(row["dimension"])]
                for figures in (row, paper):
                    measured = figures.get(quantity.field, {})
                    cells += [*(quantity.text(measured.get(name)) for name in LABELS), three_digits(figures.get(ratio))]
                rows.append([*cells, over(row.get(ratio), paper.get(ratio))])
            title = f"LSSL and S4, {quantity.name} of a training pass: length {result['L']:,}, batch {result['batch']}"
            tables.append(TextTable(title, columns, rows))
        return tables

    def notes(self, result: Result) -> list[str]:
        """Add which dimensions were not measured, and why."""
        skipped = [f"dimension {row['dimension']}: {row['skipped']}" for row in result["rows"] if "skipped" in row]
        return skipped + super().notes(result)

    def panels(self, result: Result) -> list[Panel]:
        def lines(quantity: Quantity, rows: list[tuple[int, Result]]) -> dict[str, Points]:
            found = [(H, row[quantity.field]) for H, row in rows if quantity.field in row]
            return {label: [(H, values[name] / quantity.unit) for H, values in found] for name, label in LABELS.items()}

        ours = [(row["dimension"], row) for row in result["rows"]]
        paper = [(H, row["paper"]) for H, row in ours if row["paper"]]
        return [
            scaling(
                f"{quantity.name.capitalize()} of a training pass",
                "features H",
                quantity.symbol,
                lines(quantity, ours),
                lines(quantity, paper),
            )
            for quantity in (TIME, MEMORY)
        ]


def ratios(row: dict[str, Any]) -> dict[str, float]:
    """LSSL over S4, of what was measured."""
    measured = {q.name: row[q.field] for q in (TIME, MEMORY) if q.field in row}
    return {f"{name}_ratio": values["lssl"] / values["s4"] for name, values in measured.items()}


def paper_row(H: int) -> dict[str, Any] | None:
    """The paper's figures at this dimension, in the units of ours."""
    if H not in PAPER:
        return None
    times, sizes = ({"lssl": lssl, "s4": s4} for lssl, s4 in PAPER[H])
    row = {
        "seconds": {name: value / 1e3 for name, value in times.items()},
        "memory_bytes": {name: value * 1e6 for name, value in sizes.items()},
    }
    return row | ratios(row)


def needed_bytes(H: int, length: int) -> int:
    """About what a pass of the LSSL needs: A, its gradient and the powers of A_bar, and the Krylov matrix."""
    return 4 * H * (18 * H * H + 4 * H * length)


def make_layer(name: str, H: int, length: int) -> LSSL | S4:
    """The layer of the table."""
    return LSSL(H, H) if name == "lssl" else S4(H, H // 4, length=length)


def times(H: int, length: int, repeats: int, once: bool, device: str = "cpu") -> dict[str, float]:
    """Seconds of a training pass of both layers; `once`: of the LSSL without a warm-up of its size, and one only."""
    torch.manual_seed(0)
    seconds = {}
    if once:
        training_pass("lssl", 8, 64, device)()
        seconds["lssl"] = seconds_of(training_pass("lssl", H, length, device), device)
    # As training does, for both; but a single pass has nothing to gain from it, and would need twice the memory.
    ops.keep_memory()
    names = ("s4",) if once else ("lssl", "s4")
    return seconds | best_times({name: training_pass(name, H, length, device) for name in names}, repeats, device)


def memory(name: str, H: int, length: int, device: str = "cpu") -> int:
    """Bytes that a training pass needs."""
    return live_growth_of(training_pass(name, 8, 64, device), training_pass(name, H, length, device), device)


def training_pass(name: str, H: int, length: int, device: str = "cpu") -> Callable[[], None]:
    """Forward and backward of a fresh layer on a fresh input."""
    u = torch.randn(BATCH, length, H, device=device, requires_grad=True)
    return functools.partial(layer_pass, make_layer(name, H, length).to(device), u)
