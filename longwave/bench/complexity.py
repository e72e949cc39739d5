"""Growth of time and memory with length, batch and width: measured exponents for the paper's tab:complexity."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from longwave.bench import measure
from longwave.bench.base import BENCHES, DrawnBench, Points, Progress, Result, scaling
from longwave.bench.measure import best_times, can_measure_memory, in_fresh_process, live_growth_of
from longwave.bench.numbers import MEMORY, TIME
from longwave.core.text_table import TextTable
from longwave.layers import make_mixer
from longwave.ops import fft_conv
from longwave.pictures.curves import Panel

BASE = {"L": 1024, "B": 4, "H": 64}
SIZES: dict[str, Sequence[int]] = {"L": (256, 512, 1024, 2048), "B": (1, 2, 4, 8), "H": (64, 128, 256, 512)}
QUICK_SIZES: dict[str, Sequence[int]] = {"L": (256, 1024), "B": (1, 4), "H": (64, 128)}
AXES = {"L": "length", "B": "batch", "H": "features"}
WARM_UP = {"L": 16, "B": 1, "H": 8}
REPEATS, QUICK_REPEATS = 5, 2


class Cost(NamedTuple):
    """A cell of the paper's table: the formula, and its lowest and highest exponents in L, B and H."""

    formula: str
    L: tuple[float, float] | None  # None: the table does not say
    B: tuple[float, float] | None
    H: tuple[float, float] | None


NONE, ONE, TWO = (0.0, 0.0), (1.0, 1.0), (2.0, 2.0)
UP_TO_ONE, ONE_TO_TWO = (0.0, 1.0), (1.0, 2.0)
# What leads in a sum depends on the sizes, so that an exponent lies between those of its terms. ~ hides logarithms.
PAPER: dict[str, dict[str, Cost]] = {
    "parameters": {
        "convolution": Cost("L H", ONE, NONE, ONE),
        "recurrence": Cost("H^2", NONE, NONE, TWO),
        "attention": Cost("H^2", NONE, NONE, TWO),
        "s4": Cost("H^2", NONE, NONE, TWO),
    },
    "training": {
        "convolution": Cost("~L H (B + H)", ONE, UP_TO_ONE, ONE_TO_TWO),
        "recurrence": Cost("B L H^2", ONE, ONE, TWO),
        "attention": Cost("B (L^2 H + L H^2)", ONE_TO_TWO, ONE, ONE_TO_TWO),
        "s4": Cost("B H (~H + ~L) + B ~L H", UP_TO_ONE, ONE, ONE_TO_TWO),
    },
    "space": {
        "convolution": Cost("B L H", ONE, ONE, ONE),
        "recurrence": Cost("B L H", ONE, ONE, ONE),
        "attention": Cost("B (L^2 + H L)", ONE_TO_TWO, ONE, UP_TO_ONE),
        "s4": Cost("B L H", ONE, ONE, ONE),
    },
    "inference": {
        "convolution": Cost("L H^2", ONE, None, TWO),
        "recurrence": Cost("H^2", NONE, None, TWO),
        "attention": Cost("L^2 H + H^2 L", ONE_TO_TWO, None, ONE_TO_TWO),
        "s4": Cost("H^2", NONE, None, TWO),
    },
    "inference_space": dict.fromkeys(("convolution", "recurrence", "attention", "s4"), Cost("-", None, None, None)),
}
LABELS = {"convolution": "convolution", "recurrence": "LSTM", "attention": "attention", "s4": "S4"}
TITLES = {
    "parameters": "Parameters",
    "training": "Time of a training pass",
    "space": "Memory of a training pass",
    "inference": "Time of the next step after L steps",
    "inference_space": "Memory of the next step after L steps",
}
CAPTION = (
    "One layer: a depthwise convolution as long as the sequence followed by a linear layer, an LSTM, softmax "
    "attention of 4 heads that stores its matrix of weights, S4 with N = H states. One size grows, the others are "
    + ", ".join(f"{AXES[axis]} {size:,}" for axis, size in BASE.items())
    + "; an exponent is the slope of a line through the logarithms. It includes what does not grow (calls, caches, "
    "threads), so that small layers have smaller ones. Times: the fastest of several repeats; the layers take turns in "
    "one process. Memory: growth of the peak resident set in a fresh process. The next step: S4 and the LSTM from "
    "their state; the convolution as a product with all L inputs; attention over all of them again, as in the paper's "
    "table, which has no cache of keys and values and is for one sequence. Memory of the next step: the state, which "
    "is all L inputs for convolution and attention, and the tensors that the step allocates and holds at one time; the "
    "paper's table does not have it. ~ hides logarithms."
)


@BENCHES.register("complexity")
@dataclass(frozen=True)
class ComplexityBench(DrawnBench):
    """Exponents of time and memory in length, batch and width, for convolution, LSTM, attention and S4.

    Example: longwave bench complexity --quick
    """

    duration = "seven minutes"
    caption = CAPTION

    def measure(self, progress: Progress) -> Result:
        """A row per size and layer, and the exponents that they give."""
        sizes = QUICK_SIZES if self.quick else SIZES
        rows: list[dict[str, Any]] = []
        for case in cases(sizes):
            text = ", ".join(f"{AXES[axis]} {case[axis]:,}" for axis in AXES)
            progress(f"times at {text}")
            found = in_fresh_process(times, **case, repeats=QUICK_REPEATS if self.quick else REPEATS, device=self.where)
            for name in LABELS:
                row = {**case, "layer": name, **found[name]}
                if can_measure_memory(self.where) and not self.quick:
                    progress(f"memory of {LABELS[name]} at {text}")
                    row["space"] = in_fresh_process(memory, name=name, **case, device=self.where)
                rows.append(row)
        return {
            "base": BASE,
            "sizes": sizes,
            "rows": rows,
            "exponents": {
                what: {name: {axis: exponent(rows, sizes, what, name, axis) for axis in AXES} for name in LABELS}
                for what in PAPER
            },
        }

    def tables(self, result: Result) -> list[TextTable]:
        """Measured exponents beside the paper's, one table per quantity."""
        columns = ["layer", "paper"]
        for axis in AXES:
            columns += [f"{axis}", f"{axis}, paper"]
        tables = []
        for what, costs in PAPER.items():
            measured = result["exponents"][what]
            rows = []
            for name, cost in costs.items():
                cells = [LABELS[name], cost.formula]
                for axis in AXES:
                    value = measured[name][axis]
                    cells += ["-" if value is None else f"{value:.2f}", _range(getattr(cost, axis))]
                rows.append(cells)
            if any(value is not None for found in measured.values() for value in found.values()):
                title = f"{TITLES[what]}: exponents in length L, batch B and features H"
                tables.append(TextTable(title, columns, rows, text=("layer", "paper")))
        return tables

    def panels(self, result: Result) -> list[Panel]:
        """Time and memory of training and of the next step, over each size."""
        found = []
        for what, title in TITLES.items():
            if what == "parameters":
                continue
            quantity = MEMORY if what.endswith("space") else TIME
            for axis, label in AXES.items():
                lines: dict[str, Points] = {}
                for name, layer in LABELS.items():
                    measured = points(result["rows"], result["sizes"], what, name, axis)
                    lines[layer] = [(size, value / quantity.unit) for size, value in measured]
                found.append(scaling(title, label, quantity.symbol, lines))
        return found


def cases(sizes: dict[str, Sequence[int]]) -> list[dict[str, int]]:
    """The sizes to measure, of which one grows at a time; each once."""
    found = [{**BASE, axis: value} for axis, values in sizes.items() for value in values]
    return [case for k, case in enumerate(found) if case not in found[:k]]


def points(rows: Sequence[Result], sizes: dict[str, Sequence[int]], what: str, name: str, axis: str) -> Points:
    """A figure of a layer over one size, where the others are those of the base; without what was not measured."""
    along = [{**BASE, axis: value, "layer": name} for value in sizes[axis]]
    return [(row[axis], row[what]) for row in rows if row.get(what) and {k: row[k] for k in along[0]} in along]


def exponent(rows: Sequence[Result], sizes: dict[str, Sequence[int]], what: str, name: str, axis: str) -> float | None:
    """The exponent of a figure in a size; None if it was not measured."""
    found = points(rows, sizes, what, name, axis)
    return measure.exponent(found) if len(found) > 1 else None


def _range(ends: tuple[float, float] | None) -> str:
    if ends is None:
        return "-"
    return f"{ends[0]:g}" if ends[0] == ends[1] else f"{ends[0]:g} to {ends[1]:g}"


# What is measured


class GlobalConvolution(nn.Module):
    """A depthwise convolution with a free kernel as long as the sequence, and a linear layer over the features."""

    def __init__(self, H: int, L: int) -> None:
        super().__init__()
        self.K = nn.Parameter(torch.randn(H, L) / L)
        self.linear = nn.Linear(H, H)

    def forward(self, u: Tensor, need_state: bool = False) -> tuple[Tensor, None]:
        """y (B, L, H), and no state."""
        return self.linear(fft_conv(u, self.K)), None

    def last(self, u: Tensor) -> Tensor:
        """The last step of y alone, (B, H)."""
        y: Tensor = self.linear(torch.einsum("blh,hl->bh", u.flip(1), self.K))
        return y


def make_layer(name: str, L: int, H: int) -> nn.Module:
    """A layer of the table."""
    if name == "convolution":
        return GlobalConvolution(H, L)
    if name == "s4":
        return make_mixer("s4", H, d_state=H, length=L)
    return make_mixer({"recurrence": "lstm", "attention": "attention-stored"}[name], H)


def training_pass(layer: nn.Module, L: int, B: int, H: int) -> Callable[[], None]:
    """Forward and backward of a layer, where it is."""
    u = torch.randn(B, L, H, device=next(layer.parameters()).device, requires_grad=True)

    def both_ways() -> None:
        torch.autograd.grad(layer(u, need_state=False)[0].sum(), [u, *layer.parameters()])

    return both_ways


def next_step(name: str, layer: Any, L: int, B: int, H: int) -> tuple[Callable[[], object], int]:
    """The step after L - 1 others, and the bytes of the state that it starts from."""
    u = torch.randn(B, L, H, device=next(layer.parameters()).device)
    # The state of convolution and attention is what came before.
    state = u if name in ("convolution", "attention") else layer.initial_state(B)

    def run() -> object:
        with torch.no_grad():
            if name == "convolution":
                return layer.last(u)
            return layer(u, need_state=False) if name == "attention" else layer.step(u[:, -1], state)

    return run, measure.state_bytes(state)


def times(L: int, B: int, H: int, repeats: int, device: str = "cpu") -> dict[str, dict[str, float]]:
    """Parameters, seconds of a training pass and of the next step, and bytes of the latter, of each layer."""
    torch.manual_seed(0)
    layers = {name: make_layer(name, L, H).to(device) for name in LABELS}
    training = best_times({name: training_pass(layer, L, B, H) for name, layer in layers.items()}, repeats, device)
    steps = {name: next_step(name, layer.eval(), L, B, H) for name, layer in layers.items()}
    inference = best_times({name: step for name, (step, _) in steps.items()}, 10 * repeats, device)
    return {
        name: {
            "parameters": sum(p.numel() for p in layer.parameters()),
            "training": training[name],
            "inference": inference[name],
            "inference_space": steps[name][1] + measure.peak_of_tensors(steps[name][0], device),
        }
        for name, layer in layers.items()
    }


def memory(name: str, L: int, B: int, H: int, device: str = "cpu") -> int:
    """Bytes that a training pass needs."""
    torch.manual_seed(0)
    small, layer = (make_layer(name, *sizes).to(device) for sizes in ((WARM_UP["L"], WARM_UP["H"]), (L, H)))
    return live_growth_of(training_pass(small, **WARM_UP), training_pass(layer, L, B, H), device)
