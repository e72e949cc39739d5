"""The settings of Pathfinder and Path-X."""

import pytest
import torch
from pathfinder_files import write_pathfinder

from longwave.experiments import EXPERIMENTS


@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("lra-pathfinder", 1024),
        ("lra-pathx", 16384),
        ("lra-pathfinder-original", 1024),
        ("lra-pathx-original", 16384),
    ],
)
def test_the_paper_s_models_have_as_many_parameters_as_their_sizes_say(name, length):
    """Counted without memory; test_paper_settings.py has the settings."""
    e = EXPERIMENTS.find(name)
    layers, width, states, updated = 6, 256, 64, not name.endswith("original")
    assert e.task.centred != updated
    if updated:  # the authors' steps, with 160,000 images in an epoch
        assert e.loop.epochs * 160_000 / e.loop.batch_size == 500_000
    with torch.device("meta"):
        model = e.model.resolve(e.task.on_random_data(rows=1).spec).build()
    assert model.config.mixer.length == length
    half, sides = states // 2, 2 if updated else 1
    ssm = width * (2 + half * 6 + half * 2 * sides)  # dt, D; Lambda, P, B; C
    linear = (width + 1) * width * sides  # with GLU, twice as wide
    expected = layers * (ssm + linear + 2 * width) + 2 * width + 2 * width + (width + 1) * 2
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.parametrize(("name", "size"), [("lra-pathfinder-small", 32), ("lra-pathx-small", 128)])
def test_small_settings_fit_their_task_and_take_a_step(name, size, tmp_path):
    write_pathfinder(tmp_path, {0: 10, 1: 10}, size)
    e = EXPERIMENTS.find(name)
    task = e.task.build(tmp_path)
    model = e.model.resolve(task.spec).build()
    assert sum(p.numel() for p in model.parameters()) < 150_000
    outcome = task.outcome(model, task.train.batch([0, 1]))
    outcome.loss.backward()
    assert outcome.loss.item() / 2 == pytest.approx(0.69, abs=0.4)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
