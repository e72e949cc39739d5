"""Benches at sizes that take no time."""

import dataclasses
import json

import pytest

from longwave.bench import (
    accuracy,
    attention,
    compare,
    complexity,
    export,
    generation,
    generators,
    kernel,
    layer,
    lssl,
    measure,
    step,
    stream,
    train,
    unet,
    weights,
)
from longwave.experiments import EXPERIMENTS


class TinyExperiments:
    """The experiments, with a task, a model and a batch that take no time."""

    def find(self, name):
        found = EXPERIMENTS.find(name)
        model = dataclasses.replace(found.model, d_model=4, n_layers=1)
        if any(field.name == "cutoffs" for field in dataclasses.fields(model)):
            model = dataclasses.replace(model, cutoffs=model.cutoffs[:1])
        task = dataclasses.replace(found.task, length=12) if hasattr(found.task, "length") else found.task
        return dataclasses.replace(found, task=task, model=model, loop=dataclasses.replace(found.loop, batch_size=5))


TINY = {
    accuracy: {"LENGTHS": ((17, 3), (32, 3)), "N": 8},
    attention: {"WIDTH": 8, "D_ATTENTION": 8, "D_STATE": 8, "LAYERS": 1, "LENGTHS": (16, 32)},
    compare: {},  # which reads what the fixture below writes
    complexity: {
        **{"BASE": {"L": 16, "B": 2, "H": 8}, "SIZES": {"L": (16, 32), "B": (1, 2), "H": (8, 16)}, "REPEATS": 1},
        **{"QUICK_SIZES": {"L": (8, 16), "B": (2, 4), "H": (8, 16)}, "QUICK_REPEATS": 1},
    },
    export: {
        **{"LAYERS": 1, "D_MODEL": 4, "D_STATE": 4, "STREAMED": 16, "BLOCKS": (8,)},
        **{"WHOLE": {"transforms": (16,)}},
    },
    generation: {
        **{"POINTS": 3, "BATCHES": (2, 1)},
        **{"SHAPES": {"cifar": (40, 16), "words": (40, 30)}, "TURNS": {2: (1, 2), 1: (2, 2)}},
        **{"PAPER_SHAPES": {"wikitext103": (40, 267_735), "cifar10": (200, 256)}, "GROUP_TURNS": (1, 48)},
    },
    generators: {"WIDTH": 8, "LAYERS": 1, "FEED_FORWARD": 16, "EXPERIMENTS": TinyExperiments()},
    kernel: {
        "H": 2,
        "N": 8,
        "LENGTHS": (16, 32),
        "NODES_H": 2,
        "NODES_LENGTHS": (64,),
        "NODES_STATES": (4,),
        "STATES_LENGTH": 64,
        "SYSTEMS_LENGTH": 128,
    },
    layer: {
        "H": 2,
        "N": 8,
        "SHAPES": ((2, 16), (1, 32)),
        "GROWTH_EXPONENTS": range(4, 7),
        "STEPS": (10, 20),
        "TURNS": 1,
    },
    lssl: {"L": 32, "DIMENSIONS": (8, 16)},
    step: {"EXPERIMENTS": TinyExperiments()},
    stream: {
        **{
            "MODELS": {"tiny": (1, 8, "s4"), "tiny S4D": (1, 8, "s4d")},
            "D_STATE": 4,
            "CHUNKS": (0.001, 0.02),
            "HOP": 160,
            "WINDOW": 1600,
            "RATE": 8000,
        },
        **{"HOUR": 4, "STEPS": 20_000},
    },
    unet: {"EXPERIMENTS": TinyExperiments(), "DRAWN": 5, "REPEATS": 1},
    weights: {"EXPERIMENTS": TinyExperiments(), "CONTEXTS": (8,), "BATCHES": (1, 2), "READ": 4},
    train: {"BATCH": 2, "L": 16, "H": 4, "LAYERS": 1},
}


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """What would run in a process of its own runs in this one, at a tiny size; memory is always 5 MB."""

    def in_this_process(function, **case):
        return json.loads(json.dumps(function(**case)))

    def five_megabytes(warm_up, run, device):
        warm_up()
        run()
        return 5_000_000

    monkeypatch.chdir(tmp_path)  # with what `compare` reads
    machine = measure.machine()
    for name, seconds in (("old", 2.0), ("new", 1.0)):
        result = {"bench": "toy", "machine": machine, "rows": [{"model": "S4", "L": 8, "seconds": seconds}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(result))
    stand_ins = {
        "in_fresh_process": in_this_process,
        "growth_of": five_megabytes,
        "live_growth_of": five_megabytes,
        "can_measure_memory": lambda device="cpu": True,
    }
    for module, sizes in TINY.items():
        for name, value in (stand_ins | sizes).items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(kernel.ops, "keep_memory", lambda: None)
    monkeypatch.setattr(generation.importlib.util, "find_spec", lambda name: None)
