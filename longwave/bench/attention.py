"""S4 against Transformers of the same width, depth and number of parameters: the paper's tab:lra-benchmark."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import torch
from torch import nn

from longwave import kernels
from longwave.bench.measure import (
    best_times,
    can_measure_memory,
    in_fresh_process,
    live_growth_of,
    machine,
    too_little_memory,
)
from longwave.bench.picture import Panel
from longwave.models import ModelConfig, SequenceModel

Row = Literal["attention-stored", "attention", "performer", "linear-attention", "s4", "s4-glu"]
ROWS: tuple[Row, ...] = get_args(Row)
WITH_KERNELS = ("s4", "s4-glu")
BASE: Row = "attention-stored"  # the paper's Transformer, which is 1 in its table
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
# Models that do the same work for every row of a batch are measured with fewer rows, and scaled, where it is larger.
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
    f"(Lambda, P, B) a layer, length= given, a {WIDTH} x {WIDTH} matrix behind it; so both sides have the 600k "
    "parameters that the paper names. With GLU that matrix is twice as wide. Attention looks both ways, as in "
    "the Long Range Arena; S4 one way, as the paper's number of parameters says. No positions are added to what "
    "attention sees. S4 computes its kernels once for all rows of a batch; the others do the same work for each row, "
    "so that of large batches fewer rows are measured, and time and memory scaled, as the table says. Speed and memory "
    "are over those of the Transformer with the L x L matrix "
    "stored. Times: the fastest of several repeats, in turn in one process. Memory: growth of the peak resident "
    "set during one pass, in a process of its own that gives freed memory back at once; parameters and input "
    "come on top. The paper: on an A100."
)


def run(quick: bool, progress: Callable[[str], None], batch: int | None = None) -> dict[str, Any]:
    """For each length and model: seconds, bytes, and both over the Transformer's."""
    batch = (QUICK_BATCH if quick else BATCH) if batch is None else batch
    if batch < 1:
        raise ValueError(f"batch: expected at least 1, got {batch}")
    rows: list[dict[str, Any]] = []
    counts = {name: sum(p.numel() for p in make_model(name, 64).parameters()) for name in ROWS}
    for L in QUICK_LENGTHS if quick else LENGTHS:
        batches = {name: measured_batch(name, L, batch) for name in ROWS}
        reasons = {name: too_little_memory(needed_bytes(name, L, count)) for name, count in batches.items()}
        batches = {name: count for name, count in batches.items() if reasons[name] is None}
        progress(f"times at length {L:,}, batch {batch}")
        repeats = 5 if L * batch < 2**16 and not quick else 2
        seconds = in_fresh_process(times, batches=batches, L=L, repeats=repeats)
        sizes: dict[Row, int] = {}
        if can_measure_memory() and not quick:
            for name, count in batches.items():
                progress(f"memory of {LABELS[name]} at length {L:,}")
                sizes[name] = in_fresh_process(memory, name=name, L=L, batch=count)
        rows += rows_at(L, batch, batches, counts, seconds, sizes, reasons)
    return {
        "bench": "attention",
        "layers": LAYERS,
        "d_model": WIDTH,
        "heads": HEADS,
        "d_attention": D_ATTENTION,
        "d_state": D_STATE,
        "caption": CAPTION,
        "machine": machine(),
        "rows": rows,
    }


def rows_at(
    L: int,
    batch: int,
    measured: dict[Row, int],
    counts: dict[Row, int],
    seconds: dict[Row, float],
    sizes: dict[Row, int],
    reasons: Mapping[Row, str | None] | None = None,
) -> list[dict[str, Any]]:
    """The rows of one length, from what was measured: speed and memory over the Transformer's, and the paper's.

    `measured` says how many rows of the batch `seconds` and `sizes` stand for; they are scaled to all of them.
    """
    seconds = {name: value * batch / measured[name] for name, value in seconds.items()}
    sizes = {name: value * batch // measured[name] for name, value in sizes.items()}
    rows = []
    for name, count in counts.items():
        speed, memory_ratio = PAPER.get(L, {}).get(name, (None, None))
        row: dict[str, Any] = {"L": L, "batch": batch, "model": name, "parameters": count}
        row["measured_batch"] = measured.get(name, 0)
        row["paper"] = None if speed is None else {"speed": speed, "memory": memory_ratio}
        if name not in seconds:
            row["skipped"] = (reasons or {}).get(name)
        else:
            row["seconds"] = seconds[name]
            if BASE in seconds:
                row["speed"] = seconds[BASE] / seconds[name]
            if name in sizes:
                row["memory_bytes"] = sizes[name]
            if name in sizes and BASE in sizes:
                row["memory"] = sizes[name] / sizes[BASE]
        rows.append(row)
    return rows


def measured_batch(name: Row, L: int, batch: int) -> int:
    """How many rows of a batch to measure."""
    if name in WITH_KERNELS:
        return batch
    while batch > 1 and (batch * L > MOST_TOKENS or (name == BASE and needed_bytes(name, L, batch) > MOST_STORED)):
        batch = -(-batch // 2)
    return batch


def needed_bytes(name: Row, L: int, batch: int) -> int:
    """About what a training pass takes.

    A dozen arrays of all features in each layer; with stored matrices also scores and weights of each layer, and a
    gradient or two on the way back.
    """
    features = 4 * batch * L * WIDTH * 12 * LAYERS
    return features + (4 * batch * HEADS * L * L * (2 * LAYERS + 3) if name == BASE else 0)


def make_model(name: Row, L: int) -> SequenceModel:
    """The model of a row, for sequences of L bytes."""
    is_s4 = name in WITH_KERNELS
    config = ModelConfig(
        d_model=WIDTH,
        n_layers=LAYERS,
        mixer="s4" if name == "s4-glu" else name,
        d_state=D_STATE,
        n_ssm=1,
        length=L if is_s4 else None,
        bidirectional=not is_s4,
        heads=HEADS,
        d_attention=D_ATTENTION,
        rotary=False,
        glu=name == "s4-glu",
        vocabulary=VOCABULARY,
        output_size=CLASSES,
    )
    return SequenceModel(config).train()


def training_pass(name: Row, L: int, batch: int) -> Callable[[], None]:
    """Forward and backward of a fresh model on random bytes."""
    model, tokens = make_model(name, L), torch.randint(VOCABULARY, (batch, L))
    classes = torch.randint(CLASSES, (batch,))

    def both_ways() -> None:
        nn.functional.cross_entropy(model(tokens)[0], classes).backward()
        model.zero_grad()

    return both_ways


def times(batches: dict[Row, int], L: int, repeats: int) -> dict[str, float]:
    """Seconds of a training pass of each model, with its batch."""
    torch.manual_seed(0)
    kernels.native.keep_memory()  # as training does, for all
    return best_times({name: training_pass(name, L, batch) for name, batch in batches.items()}, repeats)


def memory(name: Row, L: int, batch: int) -> int:
    """Bytes that a training pass needs."""
    return live_growth_of(training_pass(name, 64, 1), training_pass(name, L, batch))


def panels(result: dict[str, Any]) -> list[Panel]:
    """Time and memory for 1,000 tokens of a batch, over length."""
    found = []
    for title, field, label, unit in (
        ("Time of a training pass", "seconds", "ms for 1,000 tokens", 1e-3),
        ("Memory of a training pass", "memory_bytes", "MB for 1,000 tokens", 1e6),
    ):
        lines = {
            LABELS[name]: [
                (row["L"], row[field] / unit / (row["batch"] * row["L"] / 1000))
                for row in result["rows"]
                if row["model"] == name and field in row
            ]
            for name in ROWS
        }
        found.append(Panel(title, "length", label, lines, {}))
    return found
