"""The settings of Pathfinder and Path-X."""

import pytest
import torch
from pathfinder_files import write_pathfinder

from longwave.experiments import EXPERIMENTS


@pytest.mark.parametrize(
    ("name", "length", "rate", "dropout", "batch", "epochs", "patience"),
    [
        ("lra-pathfinder", 1024, 0.004, 0.0, 64, 200, None),
        ("lra-pathx", 16384, 0.001, 0.0, 16, 50, None),
        ("lra-pathfinder-original", 1024, 0.004, 0.1, 100, 200, 10),
        ("lra-pathx-original", 16384, 0.0005, 0.0, 32, 100, 20),
    ],
)
def test_the_paper_s_settings_are_those_of_its_tables(name, length, rate, dropout, batch, epochs, patience):
    """With as many parameters as the sizes say, counted without memory."""
    e = EXPERIMENTS.find(name)
    updated = patience is None
    layers, width, states = 6, 256, 64
    assert (e.model.n_layers, e.model.d_model, e.model.norm, e.model.prenorm) == (layers, width, "batch", True)
    assert (e.model.glu, e.model.mixer.bidirectional, e.model.mixer.d_state) == (updated, updated, states)
    assert (e.model.dropout, e.model.decoder) == (dropout, "mean")
    assert (e.model.mixer.dt_min, e.model.mixer.dt_max) == (0.0001 if name == "lra-pathx" else 0.001, 0.1)
    assert (e.optim.lr, e.optim.ssm_lr, e.loop.batch_size, e.loop.epochs) == (rate, min(rate, 0.001), batch, epochs)
    assert (e.model.mixer.dt_transform, e.task.centred) == (("softplus", False) if updated else ("exp", True))
    assert e.model.dropout_after == (("mixer", "activation", "linear") if updated else ("activation", "linear"))
    assert e.optim.c_lr == (0.001 if rate > 0.0005 else None)  # or the common rate, which is lower
    if updated:
        assert (e.optim.schedule, e.optim.weight_decay, e.optim.decay_norms) == ("cosine", 0.05, False)
        assert e.optim.warmup == 50_000
        assert epochs * 160_000 / batch == 500_000
    else:
        assert (e.optim.schedule, e.optim.weight_decay, e.optim.plateau_patience) == ("plateau", 0.0, patience)
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
