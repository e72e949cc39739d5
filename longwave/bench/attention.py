"""S4 against Transformers of the same width, depth and number of parameters: the paper's tab:lra-benchmark."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from longwave import ops
from longwave.bench.base import BENCHES, DrawnBench, Points, Progress, Result, scaling
from longwave.bench.measure import best_times, can_measure_memory, in_fresh_process, live_growth_of, too_little_memory
from longwave.bench.numbers import MEMORY, TIME, over, three_digits
from longwave.core.text_table import TextTable
from longwave.layers import MIXERS, S4Config
from longwave.models import SequenceConfig, SequenceModel
from longwave.pictures.curves import Panel

WITH_KERNELS = ("s4", "s4-glu")
BASE = "attention-stored"  # the paper's Transformer, which is 1 in its table
LINEAR = "linear-attention"  # its closest rival in speed
LABELS = {
    "attention-stored": "Transformer, L x L stored",
    "attention": "Transformer, SDPA",
    "performer": "Performer",
    "linear-attention": "linear Transformer",
    "s4": "S4",
    "s4-glu": "S4 with GLU",
}
LAYERS, WIDTH, D_ATTENTION, HEADS, D_STATE = 4, 256, 128, 4, 256
VOCABULARY, CLASSES = 256, 2
BATCH, QUICK_BATCH = 32, 8  # 32 is the paper's
# Above these sizes, models that do the same work for each sequence are measured with fewer of them, and scaled.
MOST_STORED = 8 << 30  # bytes of a pass with stored matrices
MOST_TOKENS = 2**15
LENGTHS = (1024, 2048, 4096)
QUICK_LENGTHS = (512, 1024)
# length: row: speed and memory over those of the Transformer, on an A100 with batch 32
PAPER: dict[int, dict[str, tuple[float, float]]] = {
    1024: {"performer": (1.23, 0.43), "linear-attention": (1.58, 0.37), "s4": (1.58, 0.43)},
    4096: {"performer": (3.79, 0.086), "linear-attention": (5.35, 0.067), "s4": (5.19, 0.091)},
}
CAPTION = (
    f"A training pass, forward + backward, of a classifier of bytes: {LAYERS} layers, {WIDTH} features, {HEADS} "
    f"heads, queries, keys and values {D_ATTENTION} wide, no feed-forward sublayer. S4: N = {D_STATE}, one "
    f"(Lambda, P, B) per layer, length= given, a {WIDTH} x {WIDTH} matrix after it; so both sides have 600k "
    "parameters, as in the paper. With GLU that matrix is twice as wide. Attention is bidirectional, as in "
    "the Long Range Arena; S4 is causal, as follows from the paper's number of parameters. Attention has no positional "
    "encoding. S4 computes its kernels once for all sequences of a batch; the other models do the same work for each "
    "sequence, so that for large batches fewer sequences are measured, and time and memory are scaled, as the table "
    "shows. Speed and memory ratio are relative to the Transformer with the L x L matrix stored; / linear: time or "
    "memory over that of the linear Transformer. Times: the fastest of several repeats; the models take turns in one "
    "process. Memory: growth of the peak resident set during one pass, in a fresh process that returns freed memory at "
    "once, without parameters and input. paper: on an A100."
)


@BENCHES.register("attention")
@dataclass(frozen=True)
class AttentionBench(DrawnBench):
    """Time and memory of a training pass of S4 and of Transformers with as many parameters, with the paper's figures.

    Memory is not measured with --quick.

    Example: longwave bench attention --picture attention.png
    """

    batch: int | None = None
    """Sequences in a batch; None: 32, as in the paper, or 8 with --quick."""

    duration = "seven minutes"
    caption = CAPTION

    def check(self) -> None:
        super().check()
        if self.batch is not None and self.batch < 1:
            raise ValueError(f"batch: expected at least 1, got {self.batch}")

    def measure(self, progress: Progress) -> Result:
        """For each length and model: seconds, bytes, and both over the Transformer's."""
        batch = (QUICK_BATCH if self.quick else BATCH) if self.batch is None else self.batch
        rows: list[dict[str, Any]] = []
        counts = {name: sum(p.numel() for p in make_model(name, 64).parameters()) for name in LABELS}
        for L in QUICK_LENGTHS if self.quick else LENGTHS:
            batches = {name: measured_batch(name, L, batch) for name in LABELS}
            reasons = {
                name: too_little_memory(needed_bytes(name, L, count), self.where) for name, count in batches.items()
            }
            batches = {name: count for name, count in batches.items() if reasons[name] is None}
            progress(f"times at length {L:,}, batch {batch}")
            repeats = 5 if L * batch < 2**16 and not self.quick else 2
            seconds = in_fresh_process(times, batches=batches, L=L, repeats=repeats, device=self.where)
            memories: dict[str, int] = {}
            if can_measure_memory(self.where) and not self.quick:
                for name, count in batches.items():
                    progress(f"memory of {LABELS[name]} at length {L:,}")
                    memories[name] = in_fresh_process(memory, name=name, L=L, batch=count, device=self.where)
            rows += rows_at(L, batch, batches, counts, seconds, memories, reasons)
        sizes = {"layers": LAYERS, "d_model": WIDTH, "heads": HEADS, "d_attention": D_ATTENTION, "d_state": D_STATE}
        return {**sizes, "rows": rows}

    def tables(self, result: Result) -> list[TextTable]:
        sizes = f"{result['layers']} layers, {result['d_model']} features"
        tables = []
        kinds = (TIME, "speed", "speed", "time_over_linear"), (MEMORY, "memory", "memory ratio", "memory_over_linear")
        for quantity, ratio, relative, linear in kinds:
            if not any(quantity.field in row for row in result["rows"]):
                continue
            rows = []
            for row in result["rows"]:
                ours, paper = row.get(ratio), (row["paper"] or {}).get(ratio)
                whole, measured = row["batch"], row["measured_batch"]
                batch = str(whole) if measured in (0, whole) else f"{measured}, scaled to {whole}"
                cells = (f"{row['L']:,}", batch, LABELS[row["model"]], f"{row['parameters'] / 1e3:.0f}k")
                ratios = (three_digits(ours), three_digits(paper), over(ours, paper), three_digits(row.get(linear)))
                rows.append((*cells, quantity.text(row.get(quantity.field)), *ratios))
            title = f"Transformers and S4, {quantity.name} of a training pass: {sizes}"
            columns = (
                "length",
                "batch",
                "model",
                "parameters",
                quantity.name,
                relative,
                "paper",
                "ours / paper",
                "/ linear",
            )
            tables.append(TextTable(title, columns, rows, text=("model",), sections="length"))
        return tables

    def notes(self, result: Result) -> list[str]:
        """Add which models were not measured, and why."""
        skipped = [row for row in result["rows"] if "skipped" in row]
        reasons = [f"{LABELS[row['model']]} at length {row['L']:,}: {row['skipped']}" for row in skipped]
        return reasons + super().notes(result)

    def panels(self, result: Result) -> list[Panel]:
        """Time and memory for 1,000 tokens of a batch, over length."""
        found = []
        for quantity in (TIME, MEMORY):
            lines: dict[str, Points] = {label: [] for label in LABELS.values()}
            for row in result["rows"]:
                if quantity.field in row:
                    value = row[quantity.field] / quantity.unit / (row["batch"] * row["L"] / 1000)
                    lines[LABELS[row["model"]]].append((row["L"], value))
            title = f"{quantity.name.capitalize()} of a training pass"
            found.append(scaling(title, "length", f"{quantity.symbol} for 1,000 tokens", lines))
        return found


def rows_at(
    L: int,
    batch: int,
    measured: dict[str, int],
    counts: dict[str, int],
    seconds: dict[str, float],
    sizes: dict[str, int],
    reasons: Mapping[str, str | None] | None = None,
) -> list[dict[str, Any]]:
    """The rows of one length: speed and memory over the Transformer's, the paper's, and over the linear Transformer.

    `seconds` and `sizes` were measured with `measured` sequences, and are scaled to the whole batch.
    """
    seconds = {name: value * batch / measured[name] for name, value in seconds.items()}
    sizes = {name: value * batch // measured[name] for name, value in sizes.items()}
    rows = []
    for name, count in counts.items():
        paper = dict(zip(("speed", "memory"), PAPER.get(L, {}).get(name, ()), strict=False)) or None
        row: dict[str, Any] = {"L": L, "batch": batch, "model": name, "parameters": count, "paper": paper}
        row["measured_batch"] = measured.get(name, 0)
        if name not in seconds:
            row["skipped"] = (reasons or {}).get(name)
        else:
            row["seconds"] = seconds[name]
            row |= {"speed": seconds[BASE] / seconds[name]} if BASE in seconds else {}
            row |= {"time_over_linear": seconds[name] / seconds[LINEAR]} if LINEAR in seconds else {}
        if name in sizes:
            row["memory_bytes"] = sizes[name]
            row |= {"memory": sizes[name] / sizes[BASE]} if BASE in sizes else {}
            row |= {"memory_over_linear": sizes[name] / sizes[LINEAR]} if LINEAR in sizes else {}
        rows.append(row)
    return rows


def measured_batch(name: str, L: int, batch: int) -> int:
    """Number of sequences of a batch to measure."""
    if name in WITH_KERNELS:
        return batch
    while batch > 1 and (batch * L > MOST_TOKENS or (name == BASE and needed_bytes(name, L, batch) > MOST_STORED)):
        batch = -(-batch // 2)
    return batch


def needed_bytes(name: str, L: int, batch: int) -> int:
    """The approximate memory of a training pass.

    A dozen arrays of all features in each layer; with stored matrices also scores and weights of each layer, and a
    gradient or two on the way back.
    """
    features = 4 * batch * L * WIDTH * 12 * LAYERS
    return features + (4 * batch * HEADS * L * L * (2 * LAYERS + 3) if name == BASE else 0)


def make_model(name: str, L: int) -> SequenceModel:
    """The model of a row, for sequences of L bytes."""
    attention = {"heads": HEADS, "d_attention": D_ATTENTION, "rotary": False, "bidirectional": True}
    s4 = S4Config(d_state=D_STATE, n_ssm=1, length=L)
    config = SequenceConfig(
        d_model=WIDTH,
        n_layers=LAYERS,
        mixer=s4 if name in WITH_KERNELS else MIXERS[name].from_dict(attention),
        glu=name == "s4-glu",
        vocabulary=VOCABULARY,
        output_size=CLASSES,
    )
    return config.build().train()


def training_pass(name: str, L: int, batch: int, device: str = "cpu") -> Callable[[], None]:
    """Forward and backward of a fresh model on random bytes."""
    model, tokens = make_model(name, L).to(device), torch.randint(VOCABULARY, (batch, L), device=device)
    classes = torch.randint(CLASSES, (batch,), device=device)

    def both_ways() -> None:
        nn.functional.cross_entropy(model(tokens)[0], classes).backward()
        model.zero_grad()

    return both_ways


def times(batches: dict[str, int], L: int, repeats: int, device: str = "cpu") -> dict[str, float]:
    """Seconds of a training pass of each model, with its batch."""
    torch.manual_seed(0)
    ops.keep_memory()  # as training does, for all
    passes = {name: training_pass(name, L, batch, device) for name, batch in batches.items()}
    return best_times(passes, repeats, device)


def memory(name: str, L: int, batch: int, device: str = "cpu") -> int:
    """Bytes that a training pass needs."""
    return live_growth_of(training_pass(name, 64, 1, device), training_pass(name, L, batch, device), device)
