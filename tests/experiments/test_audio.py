"""The experiments on audio: the paper's settings, sizes, and small ones that take a step."""

import dataclasses

import pytest
import torch

from longwave.experiments import EXPERIMENTS
from longwave.tasks.audio.clips import ClipTaskConfig

NAMES = [name for name, e in EXPERIMENTS.items() if isinstance(e.task, ClipTaskConfig) and name != "audio"]


@pytest.mark.parametrize(
    ("name", "channels", "classes", "copies"),
    [
        ("sc35-raw", 1, 35, 2),
        ("sc10-raw", 1, 10, 2),
        ("sc10-raw-original", 1, 10, None),
        ("sc10-mfcc", 20, 10, 2),
        ("sc10-mfcc-original", 20, 10, None),
    ],
)
def test_paper_size_models_have_as_many_parameters_as_their_sizes_say(name, channels, classes, copies):
    """Counted without memory; `copies` are distinct Lambda, P and B, where they are not of one feature each."""
    e = EXPERIMENTS.find(name)
    with torch.device("meta"):
        model = e.model.resolve(e.task.on_random_data(rows=1).spec).build()
    layers, width, ways = e.model.n_layers, e.model.d_model, 1 if copies is None else 2
    ssm = 2 * width + (copies or width) * 32 * 6 + width * 32 * 2 * ways  # dt, D; Lambda, P, B; C
    expected = layers * (ssm + (width + 1) * width * ways + 2 * width) + 2 * width * e.model.prenorm
    expected += (channels + 1) * width + (width + 1) * classes
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.parametrize(
    ("name", "mixer", "heads", "width", "layers", "epochs", "batch"),
    [
        ("sc10-mfcc-transformer", "attention", 8, 128, 4, 150, 100),
        ("sc10-mfcc-performer", "performer", 8, 128, 4, 150, 100),
        ("sc10-raw-performer", "performer", 4, 128, 4, 100, 16),
        ("sc10-mfcc-exp-rnn", "exp-rnn", None, 512, 1, 200, 100),
        ("sc10-mfcc-lipschitz-rnn", "lipschitz-rnn", None, 512, 1, 150, 100),
    ],
)
def test_baselines_have_the_sizes_of_the_paper(name, mixer, heads, width, layers, epochs, batch):
    """Of its appendix, "Speech Commands"; where it swept, the larger of two."""
    e = EXPERIMENTS.find(name)
    assert (e.model.mixer.kind, getattr(e.model.mixer, "heads", None)) == (mixer, heads)
    assert (e.model.d_model, e.model.n_layers, e.loop.epochs, e.loop.batch_size) == (width, layers, epochs, batch)
    assert (e.optim.lr, e.model.prenorm) == (0.001, heads is not None)
    assert e.model.dropout == (0.1 if heads == 8 else 0)
    e.model.resolve(e.task.on_random_data(rows=1).spec)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("-small") or name == "fsdd"])
def test_small_settings_fit_their_task_and_take_a_step(name):
    """On a hundredth of a second or so of noise, where the length of clips is free."""
    e = EXPERIMENTS.find(name)
    task = e.task.on_random_data(rows=2)
    model = e.model.resolve(task.spec).build()
    assert sum(p.numel() for p in model.parameters()) < 1_200_000
    batch = task.train.batch([0, 1])
    if task.inputs.features == "raw":
        batch = {**batch, "x": batch["x"][:, :200]}
        batch = batch | ({"lengths": torch.tensor([200, 150])} if "lengths" in batch else {})
    outcome = task.outcome(model, batch)
    outcome.loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", ["fsdd", "audio"])
def test_what_is_scaled_by_one_number_is_causal_so_that_it_can_stream(name):
    config = EXPERIMENTS.find(name).model
    assert config.streams
    model = dataclasses.replace(config, output_size=10).build().eval()
    model.step(torch.zeros(1, 1), model.initial_state(1))
