"""The experiments on audio: the paper's settings, sizes, and small ones that take a step."""

import dataclasses

import pytest
import torch

from longwave.experiments import EXPERIMENTS
from longwave.tasks.audio.clips import ClipTaskConfig

NAMES = [name for name, e in EXPERIMENTS.items() if isinstance(e.task, ClipTaskConfig) and name != "audio"]


def test_the_settings_of_35_words_are_the_authors():
    e = EXPERIMENTS.find("sc35-raw")
    assert (e.model.n_layers, e.model.d_model, e.model.norm, e.model.prenorm) == (6, 128, "batch", True)
    assert (e.model.dropout, e.model.glu, e.model.tie_dropout, e.model.decoder) == (0.0, True, True, "mean")
    assert (e.model.mixer.bidirectional, e.model.mixer.d_state, e.model.mixer.n_ssm) == (True, 64, 2)
    assert (e.optim.lr, e.optim.ssm_lr, e.optim.weight_decay, e.optim.schedule) == (0.01, 0.001, 0.05, "cosine")
    assert (e.optim.warmup, e.optim.decay_steps, e.optim.decay_norms) == (1_000, 200_000, False)
    assert (e.loop.batch_size, e.loop.epochs, e.task.data, e.task.features) == (16, 40, "sc35", "raw")


@pytest.mark.parametrize(
    ("name", "layers", "width", "norm", "prenorm", "dropout", "batch", "epochs", "patience"),
    [
        ("sc10-mfcc-original", 4, 256, "layer", False, 0.2, 100, 50, 5),
        ("sc10-raw-original", 6, 128, "batch", True, 0.1, 20, 150, 10),
    ],
)
def test_the_original_settings_are_those_of_the_paper_s_table(
    name, layers, width, norm, prenorm, dropout, batch, epochs, patience
):
    e = EXPERIMENTS.find(name)
    assert (e.model.n_layers, e.model.d_model, e.model.norm, e.model.prenorm) == (layers, width, norm, prenorm)
    assert (e.model.dropout, e.model.glu, e.model.mixer.bidirectional) == (dropout, False, False)
    assert (e.optim.lr, e.optim.weight_decay, e.optim.schedule) == (0.01, 0.0, "plateau")
    assert (e.optim.plateau_patience, e.loop.batch_size, e.loop.epochs) == (patience, batch, epochs)


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
