"""Tokens per second of the model of WikiText-103 with weights of 32, 16 and 8 bits, beside GPT-2 with torch's own."""

import copy
import importlib.util
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from longwave import ops
from longwave.bench import generators
from longwave.bench.base import BENCHES, Bench, Progress, Result, table
from longwave.bench.generators import gpt2_config
from longwave.bench.measure import best_times, in_fresh_process, machine, too_little_memory
from longwave.bench.numbers import milliseconds, three_digits
from longwave.core.text_table import TextTable
from longwave.experiments import EXPERIMENTS
from longwave.models import Recurrence
from longwave.models.pretrained import load_model
from longwave.models.weights import read
from longwave.ops import WEIGHT_TYPES

EXPERIMENT = "wikitext103"
CONTEXTS, QUICK_CONTEXTS = (512, 3072, 8192), (512,)
BATCHES, QUICK_BATCHES = (1, 16), (1,)
REPEATS = 10
LOADS, QUICK_LOADS = 3, 1
READ = 64  # tokens that ours has read; what it costs to go on is the same after any number of them
WITHOUT_GPT2 = 'GPT-2: not measured: pip install "longwave[bench]" brings it'


@BENCHES.register("weights")
@dataclass(frozen=True)
class WeightsBench(Bench):
    """Tokens per second of the model of WikiText-103 by the type of its weights, and of GPT-2; and its time to load.

    It needs about 7 GB with the default contexts and batch 1; what does not fit into memory is left out.

    Example: longwave bench weights --contexts 512 3072 --batches 1
    """

    cpu_only = "the compiled steps are for the CPU"

    contexts: tuple[int, ...] = ()
    """Tokens before the timed one; by default 512, 3072 and 8192, with --quick 512."""
    batches: tuple[int, ...] = ()
    """Batch sizes; by default 1 and 16, with --quick 1."""

    duration = "five minutes"
    caption = (
        "S4: the experiment wikitext103, with embedding and adaptive softmax, greedy decoding; a step takes the same "
        f"time after any context, and is timed after {READ} tokens. GPT-2: Hugging Face's of the same shape, without "
        "embedding and softmax, with a cache that is filled with random keys and values: in float32, in bfloat16 "
        "(model.to), and with torch's dynamic int8 quantisation of its linear layers. Random weights, one "
        "thread. All rows of a table take turns; processor time, which other work on a busy machine does not add to, "
        "the fastest of several steps. x float32: over the same model in float32; x GPT-2: over GPT-2 with the same "
        "type of weights. load_model: from a file that the system has in memory, on the meta device; built and drawn: "
        "with a model whose weights are drawn first, and then replaced"
    )

    def check(self) -> None:
        super().check()
        for name in ("contexts", "batches"):
            if any(value < 1 for value in getattr(self, name)):
                raise ValueError(f"{name}: expected numbers from 1 on, got {getattr(self, name)}")

    def measure(self, progress: Progress) -> Result:
        """A table per batch and context."""
        tables = []
        for batch in self.batches or (QUICK_BATCHES if self.quick else BATCHES):
            for context in self.contexts or (QUICK_CONTEXTS if self.quick else CONTEXTS):
                case = {"batch": batch, "context": context}
                reason = too_little_memory(needed_bytes(**case))
                if reason is not None:
                    tables.append({**case, "rows": [], "skipped": reason})
                    continue
                progress(f"batch {batch}, context {context:,}")
                tables.append({**case, "rows": in_fresh_process(time_tokens, **case)})
        loading: Result = {"rows": []}
        reason = too_little_memory(needed_bytes(batch=0, context=0))
        if reason is not None:
            loading["skipped"] = reason
        else:
            progress("loading")
            loading = in_fresh_process(time_loading, repeats=QUICK_LOADS if self.quick else LOADS)
        return {"machine": machine() | {"threads": 1}, "tables": tables, "loading": loading}

    def tables(self, result: Result) -> list[TextTable]:
        columns: dict[str, Callable[[Any], str]] = {
            "model": lambda row: row["model"],
            "weights": lambda row: row["weights"],
            "time": lambda row: milliseconds(row["seconds"]),
            "tokens per second": lambda row: three_digits(row["tokens_per_second"]),
            "x float32": lambda row: three_digits(row["times_float32"]),
            "x GPT-2": lambda row: three_digits(row["times_gpt2"]),
        }
        found = []
        for case in result["tables"]:
            notes = [case["skipped"]] if "skipped" in case else []
            if case["rows"] and all(row["model"] == "S4" for row in case["rows"]):
                notes.append(WITHOUT_GPT2)
            title = f"A token at batch {case['batch']}, context {case['context']:,}"
            found.append(table(title, case["rows"], columns, notes=notes, text=("model", "weights")))
        loading = result["loading"]
        columns = {
            "way": lambda row: row["way"],
            "time": lambda row: milliseconds(row["seconds"]),
            "over built and drawn": lambda row: three_digits(row["over_drawn"]),
        }
        notes = [loading["skipped"]] if "skipped" in loading else []
        found.append(table("Loading the model from its file", loading["rows"], columns, notes=notes, text=("way",)))
        return found


def needed_bytes(batch: int, context: int) -> int:
    """About what all models, their packed weights and the caches need, one in float32 and one in bfloat16."""
    layers, width, _, hidden = generators.PAPER_SIZES[EXPERIMENT]
    weights = 4 * layers * width * (4 * width + 2 * hidden)
    cache = 4 * 2 * layers * width * batch * context
    return 5 * weights + 3 * cache // 2 + 2**30


@torch.no_grad()
def time_tokens(batch: int, context: int) -> list[dict[str, Any]]:
    """Seconds of a step of each model with each type of weights."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ops.keep_memory()
    steps: dict[tuple[str, str], Callable[[], Any]] = ours(batch)
    if importlib.util.find_spec("transformers"):
        steps |= gpt2(batch, context)
    best = best_times(steps, REPEATS, clock=time.process_time)
    rows = []
    for (model, weights), seconds in best.items():
        rows.append(
            {
                "model": model,
                "weights": weights,
                "seconds": seconds,
                "tokens_per_second": batch / seconds,
                "times_float32": best[model, "float32"] / seconds,
                "times_gpt2": best["GPT-2", weights] / seconds if ("GPT-2", weights) in best else None,
            }
        )
    return rows


def time_loading(repeats: int) -> Result:
    """Seconds of loading the experiment's model, as `load_model` does it and with weights that are drawn first."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = experiment_model()
    config = model.config

    def drawn() -> None:
        config.build().load_state_dict(read(Path(folder, "model.safetensors")), assign=True)

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        del model
        ways = {"built and drawn": drawn, "load_model": lambda: load_model(folder)}
        seconds = best_times(ways, repeats, clock=time.process_time)
    over = seconds["built and drawn"]
    return {"rows": [{"way": way, "seconds": s, "over_drawn": s / over} for way, s in seconds.items()]}


def experiment_model() -> Any:
    """The experiment's model with random weights."""
    experiment = EXPERIMENTS.find(EXPERIMENT)
    return experiment.model.resolve(experiment.task.on_random_data(rows=1).spec).build().eval()


def ours(batch: int) -> dict[tuple[str, str], Callable[[], Any]]:
    """A step of the experiment's model by each type of weights that there are compiled steps for."""
    model = experiment_model()
    tokens = torch.randint(model.config.vocabulary, (batch, READ))
    state = model.features(tokens)[1], None
    kinds = WEIGHT_TYPES if Recurrence(model, batch).is_compiled else WEIGHT_TYPES[:1]

    def stepper(steps: Recurrence) -> Callable[[], Any]:
        return lambda: steps(tokens[:, 0]).argmax(-1)

    return {("S4", kind): stepper(Recurrence(model, batch, state, weights=kind)) for kind in kinds}


def gpt2(batch: int, context: int) -> dict[tuple[str, str], Callable[[], Any]]:
    """A step of GPT-2 with each type of weights that torch has for it."""
    from transformers import GPT2Model

    layers, width, heads, hidden = generators.PAPER_SIZES[EXPERIMENT]
    model: Any = GPT2Model(gpt2_config(1, context + 1, layers, width, heads, hidden)).eval()
    models = {"float32": model, "bfloat16": half(model), "int8": whole_numbers(model)}
    types = {name: torch.bfloat16 if name == "bfloat16" else torch.float32 for name in models}
    caches = {dtype: filled_cache(batch, context, (layers, width, heads), dtype) for dtype in set(types.values())}

    def stepper(model: Any, dtype: torch.dtype) -> Callable[[], Any]:
        cache, features = caches[dtype], torch.randn(batch, 1, width, dtype=dtype)

        def step() -> Any:
            y = model(inputs_embeds=features, past_key_values=cache, use_cache=True)
            cache.crop(-1)  # the token again: each step has the same context
            return y

        return step

    return {("GPT-2", name): stepper(one, types[name]) for name, one in models.items()}


def half(model: nn.Module) -> nn.Module:
    """A copy in bfloat16."""
    return copy.deepcopy(model).to(torch.bfloat16)


def whole_numbers(model: nn.Module) -> nn.Module:
    """A copy with torch's dynamic quantisation; GPT-2's linear layers, which store W^T, are made torch's own first."""
    from torch.ao.quantization import quantize_dynamic
    from transformers.pytorch_utils import Conv1D

    found = copy.deepcopy(model)
    for module in list(found.modules()):
        for name, layer in list(module.named_children()):
            if isinstance(layer, Conv1D):
                inputs, outputs = layer.weight.shape
                linear = nn.Linear(inputs, outputs)
                linear.weight.data, linear.bias.data = layer.weight.data.T.contiguous(), layer.bias.data
                setattr(module, name, linear)
    quantised: nn.Module = quantize_dynamic(found, {nn.Linear}, dtype=torch.qint8)
    return quantised


def filled_cache(batch: int, context: int, shape: tuple[int, int, int], dtype: torch.dtype) -> Any:
    """Hugging Face's cache with random keys and values of `context` tokens."""
    from transformers import DynamicCache

    layers, width, heads = shape
    cache = DynamicCache()
    for layer in range(layers):
        keys, values = (torch.randn(batch, heads, context, width // heads).to(dtype) for _ in range(2))
        cache.update(keys, values, layer)
    return cache
