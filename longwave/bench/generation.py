"""Tokens per second of models that generate: the speeds of the paper's tab:cifar-generation and tab:wt103."""

import importlib.util
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from longwave import ops
from longwave.bench import generators
from longwave.bench.base import BENCHES, DrawnBench, Progress, Result, scaling
from longwave.bench.generators import OurGenerator, make_generator, make_model
from longwave.bench.measure import best_times, in_fresh_process, seconds_of, state_bytes, too_little_memory
from longwave.bench.numbers import megabytes, milliseconds, over, three_digits
from longwave.core.text_table import TextTable
from longwave.pictures.curves import Panel

LABELS = {
    "attention": "attention",
    "linear-attention": "linear attention",
    "s4": "S4",
    "s4d": "S4D",
    "s4-feed-forward": "S4 + feed-forward",
    "gpt2": "GPT-2",
    "s4-paper": "S4, the paper's",
    "gpt2-paper": "GPT-2, the paper's",
    "unet-paper": "S4 U-Net, the paper's base",
    "unet-large-paper": "S4 U-Net, the paper's large",
    "gpt2-unet-paper": "GPT-2 of the base's size",
}
SMALL_MODELS = ("attention", "linear-attention", "s4", "s4d", "s4-feed-forward", "gpt2")
PAPER_MODELS = {
    "wikitext103": ("s4-paper", "gpt2-paper"),
    "cifar10": ("unet-paper", "unet-large-paper", "gpt2-unet-paper"),
}
# name: steps to generate, and vocabulary
SHAPES = {"cifar": (3072, 256), "words": (512, 33_278)}
QUICK_SHAPES = {"cifar": (768, 256)}
PAPER_SHAPES = {"wikitext103": (512, 267_735), "cifar10": (3072, 256)}
BATCHES, QUICK_BATCHES = (64, 1), (16, 1)
LARGE_UNET = 254_000_000  # parameters
POINTS = 9  # number of contexts at which a step is timed
# batch: turns of each model at a context, and steps in each turn
TURNS = {64: (2, 4), 16: (2, 4), 1: (4, 8)}
GROUP_TURNS = (2, 48)  # for the U-Net, whose work repeats every 48 steps, and the model beside it
# shape: tokens per second over those of the paper's Transformer, both with a cache or a state
PAPER = {
    "cifar": {"linear-attention": 56.0, "s4": 65.1},
    "words": {"s4": 60.0},
    "wikitext103": {"s4-paper": 60.0},
    "cifar10": {"unet-paper": 65.1, "unet-large-paper": 10.5},
}
WITHOUT_GPT2 = 'not measured: pip install "longwave[bench]" brings GPT-2'
PAPER_SPEED = "paper: speed over its Transformer on an A100, each model at the largest batch that fits into memory"
CAPTION = (
    f"{generators.LAYERS} layers, {generators.WIDTH} features, {generators.HEADS} heads, S4 and S4D with N = 64; "
    "greedy decoding. attention: ours, with a cache of keys and values. GPT-2: Hugging Face's, with its cache; it has "
    f"a feed-forward sublayer with {generators.FEED_FORWARD:,} hidden features besides attention, as has S4 + "
    f"feed-forward. Sampled, not generated in full: steps are timed at {POINTS} contexts, which are filled with random "
    "tokens; the models take turns, each time is the fastest of several consecutive steps, and the trapezoidal rule "
    "gives the seconds of all steps. State: the memory that a model holds between steps, as allocated. "
    f"{PAPER_SPEED}; ours / paper compares our speed over GPT-2 with it. cifar is compared with its CIFAR-10, words "
    "with its WikiText-103, whose models are far larger."
)
PAPER_CAPTION = (
    "The models of the experiments wikitext103, with embedding and adaptive softmax, cifar-density and "
    "cifar-density-large, U-Nets, whose step is a mean over a group of 48; beside them Hugging Face's GPT-2, with a "
    "cache, with "
    + ", and with ".join(
        f"{layers} layers, {width:,} features, {heads} heads and {hidden:,} hidden features"
        for layers, width, heads, hidden in generators.PAPER_SIZES.values()
    )
    + ", without embedding and softmax, as the paper compares them; random weights, greedy decoding. Sampled: a step "
    f"is timed at {POINTS} contexts. {PAPER_SPEED}."
)


@BENCHES.register("generation")
@dataclass(frozen=True)
class GenerationBench(DrawnBench):
    """Tokens per second of S4, attention and GPT-2 in generation, over the length of the context, beside the paper's.

    --quick generates bytes only, no words. --paper-size measures the paper's models of WikiText-103 (250 million
    parameters) and CIFAR-10 (U-Nets of 61 and 254 million), beside a GPT-2 of the size of the first and one of the
    second, all with random weights; a batch of 1 takes a few minutes and 5 GB.

    Examples:
        longwave bench generation --picture generation.png
        longwave bench generation --paper-size --batches 1 16
    """

    paper_size: bool = False
    """Measure the paper's WikiText-103 and CIFAR-10 models instead, next to GPT-2s of their sizes."""
    batches: tuple[int, ...] = ()
    """Batch sizes; by default 64 and 1."""

    duration = "five minutes"

    def check(self) -> None:
        super().check()
        if any(batch < 1 for batch in self.batches):
            raise ValueError(f"batches: expected numbers from 1 on, got {self.batches}")

    def measure(self, progress: Progress) -> Result:
        """A table per shape and batch; with batch 1 also a step of S4 over its bare matrix products."""
        missing = [] if importlib.util.find_spec("transformers") else [name for name in LABELS if "gpt2" in name]
        shapes = PAPER_SHAPES if self.paper_size else QUICK_SHAPES if self.quick else SHAPES
        tables = []
        for shape, (steps, vocabulary) in shapes.items():
            ours = PAPER_MODELS.get(shape, SMALL_MODELS)
            small = generators.LAYERS, generators.WIDTH, generators.HEADS
            layers, width, heads = generators.PAPER_SIZES[shape][:3] if self.paper_size else small
            for batch in self.batches or (QUICK_BATCHES if self.quick else BATCHES):
                case = {"steps": steps, "vocabulary": vocabulary, "batch": batch}
                table: dict[str, Any] = {"shape": shape, **case, "layers": layers, "d_model": width, "heads": heads}
                table["missing"] = [name for name in ours if name in missing]
                tables.append(table)
                large = 4 * LARGE_UNET if "unet-large-paper" in ours else 0
                reason = too_little_memory(needed_bytes(steps, batch, layers, width) + large, self.where)
                if reason is not None:
                    table["skipped"] = reason
                    continue
                progress(f"{shape}: {steps:,} steps, batch {batch}")
                turns, burst = GROUP_TURNS if shape == "cifar10" else TURNS.get(batch, (2, 4))
                names = [name for name in ours if name not in missing]
                options = {"points": POINTS, "turns": turns, "burst": burst, "device": self.where}
                measured = in_fresh_process(time_models, names=names, **case, **options)
                table["models"] = compare(measured, steps, batch, PAPER[shape] if batch > 1 and not self.quick else {})
                if batch == 1 and not self.paper_size:
                    progress(f"{shape}: a step of S4 and its matrix products")
                    table["products"] = in_fresh_process(
                        time_products, vocabulary=vocabulary, repeats=50 if self.quick else 300, device=self.where
                    )
        return {"caption": PAPER_CAPTION if self.paper_size else CAPTION, "tables": tables}

    def tables(self, result: Result) -> list[TextTable]:
        columns = ["model", "first step", "last step", "tokens per second", "x attention", "x GPT-2", "paper"]
        columns += ["ours / paper", "state, first step", "state, last step"]
        tables = []
        for case in result["tables"]:
            rows = [
                (
                    LABELS[model],
                    milliseconds(row["step_seconds"][0]),
                    milliseconds(row["step_seconds"][-1]),
                    f"{row['tokens_per_second']:,.0f}",
                    three_digits(row.get("times_attention")),
                    three_digits(row.get("times_gpt2")),
                    three_digits(row["paper_times_transformer"]),
                    over(row.get("times_gpt2"), row["paper_times_transformer"]),
                    megabytes(row["state_bytes_first"]),
                    megabytes(row["state_bytes_last"]),
                )
                for model, row in case.get("models", {}).items()
            ]
            title = f"Generation, {case['shape']}: {case['steps']:,} steps, vocabulary {case['vocabulary']:,}, "
            tables.append(TextTable(title + f"batch {case['batch']}", columns, rows, _notes(case), text=("model",)))
        return tables

    def panels(self, result: Result) -> list[Panel]:
        """Tokens per second over context, one panel per shape and batch."""
        found = []
        for case in result["tables"]:
            if "skipped" in case:
                continue
            lines = {
                LABELS[name]: [
                    (context, case["batch"] / seconds)
                    for context, seconds in zip(row["contexts"], row["step_seconds"], strict=True)
                ]
                for name, row in case["models"].items()
            }
            title = f"{case['shape']}: vocabulary {case['vocabulary']:,}, batch {case['batch']}"
            found.append(scaling(title, "context", "tokens per second", lines))
        return found


def _notes(case: dict[str, Any]) -> list[str]:
    """The lines below the table of a shape and batch."""
    if "skipped" in case:
        return [case["skipped"]]
    counts = (f"{LABELS[model]} {row['parameters']:,}" for model, row in case["models"].items())
    notes = [f"parameters: {'; '.join(counts)}", *(f"{LABELS[model]}: {WITHOUT_GPT2}" for model in case["missing"])]
    if case["shape"] == "cifar10":
        images = (f"{LABELS[m]} {row['tokens_per_second'] / case['steps']:.3g}" for m, row in case["models"].items())
        notes.append(f"images per second: {'; '.join(images)}")
    if "products" in case:
        products = case["products"]
        notes.append(
            f"a step of S4: {milliseconds(products['step_seconds'])} = {products['step_over_products']:.1f} times its "
            f"bare matrix products ({milliseconds(products['products_seconds'])})"
        )
    return notes


def needed_bytes(steps: int, batch: int, layers: int, width: int) -> int:
    """About what weights and caches need: those of GPT-2, ours, and ours again while it is doubled; and the rest."""
    return 4 * (2 * 4 * batch * steps * width * layers) + 4 * 24 * width**2 * layers + 2**30


def compare(
    measured: dict[str, dict[str, Any]], steps: int, batch: int, paper: Mapping[str, float]
) -> dict[str, dict[str, Any]]:
    """The measurements with the seconds of all steps and tokens per second, over those of attention and of GPT-2."""
    rows = {name: dict(row) for name, row in measured.items()}
    for row in rows.values():
        row["seconds"] = integral(row["contexts"], row["step_seconds"], steps)
        row["tokens_per_second"] = batch * steps / row["seconds"]
    for name, row in rows.items():
        for other in rows:
            if other == "attention" or other.startswith("gpt2"):
                kind = other.removesuffix("-paper").removesuffix("-unet")
                row[f"times_{kind}"] = row["tokens_per_second"] / rows[other]["tokens_per_second"]
        row["paper_times_transformer"] = paper.get(name)
    return rows


def integral(contexts: Sequence[int], seconds: Sequence[float], steps: int) -> float:
    """Seconds of all steps by the trapezoidal rule; after the last context a step takes as long as there."""
    points = [*zip(contexts, seconds, strict=True), (steps, seconds[-1])]
    return sum((end - start) * (first + last) / 2 for (start, first), (end, last) in itertools.pairwise(points))


def sampled_contexts(steps: int, points: int, timed: int) -> list[int]:
    """`points` contexts spread evenly over `steps`, each with room for the `timed` steps there."""
    if steps < points * timed:
        raise ValueError(f"steps: {points} contexts with {timed} timed steps each need {points * timed}, got {steps}")
    return [round(k * (steps - timed) / (points - 1)) for k in range(points)]


@torch.no_grad()
def time_models(
    names: list[str], steps: int, vocabulary: int, batch: int, points: int, turns: int, burst: int, device: str = "cpu"
) -> dict[str, dict[str, Any]]:
    """For each model: contexts, the seconds of a step there, bytes of its state after one step and after all."""
    torch.manual_seed(0)
    ops.keep_memory()  # for all alike
    models = {name: make_generator(name, steps, vocabulary, batch, device) for name in names}
    contexts = sampled_contexts(steps, points, turns * burst)
    rows: dict[str, dict[str, Any]] = {}
    for name, generator in models.items():
        parameters = sum(p.numel() for p in generator.model.parameters())
        rows[name] = {"parameters": parameters, "contexts": contexts, "step_seconds": []}
    read = 0
    for context in contexts:
        prompt = torch.randint(vocabulary, (batch, context - read), device=device)
        for generator in models.values():
            if context > read:
                generator.read(prompt)
        best = dict.fromkeys(names, float("inf"))
        for _ in range(turns):
            for name, generator in models.items():
                # A few consecutive steps: for the first, the processor's caches hold the data of the other models.
                for _ in range(burst // generator.period):
                    best[name] = min(best[name], seconds_of(partial(_group, generator), device) / generator.period)
                    if "state_bytes_first" not in rows[name]:
                        rows[name]["state_bytes_first"] = state_bytes(generator.state)
        for name in names:
            rows[name]["step_seconds"].append(best[name])
        read = context + turns * burst
    for name, generator in models.items():
        rows[name]["state_bytes_last"] = state_bytes(generator.state)
    return rows


def _group(generator: Any) -> None:
    for _ in range(generator.period):
        generator.step()


@torch.no_grad()
def time_products(vocabulary: int, repeats: int, device: str = "cpu") -> dict[str, float]:
    """Seconds of a step of S4 at batch 1, and of its linear layers alone; looking up a token is no product."""
    torch.manual_seed(0)
    ops.keep_memory()
    generator = OurGenerator(make_model("s4", vocabulary).to(device), 1)
    layers = [module for module in generator.model.modules() if isinstance(module, nn.Linear)]
    inputs = [torch.randn(1, layer.in_features, device=device) for layer in layers]

    def products() -> None:
        for x, layer in zip(inputs, layers, strict=True):
            nn.functional.linear(x, layer.weight, layer.bias)

    seconds = best_times({"step": generator.step, "products": products}, repeats, device)
    ratio = seconds["step"] / seconds["products"]
    return {"step_seconds": seconds["step"], "products_seconds": seconds["products"], "step_over_products": ratio}
