"""What a sweep runs: grids, random draws, names; and what is refused before anything is."""

import pytest

from longwave.experiments import EXPERIMENTS
from longwave.sweeps.plan import Range, parse_values, plan

SMALL = EXPERIMENTS.find("smnist-small")
CLASSIFY = EXPERIMENTS.find("classify")


def test_values_are_read_as_what_they_look_like():
    assert parse_values("a", "1, 0.5,true,none,legs") == (1, 0.5, True, None, "legs")
    assert parse_values("a", "log:1e-4:0.01") == Range("log", 1e-4, 0.01)
    assert parse_values("a", "int:2:6") == Range("int", 2, 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,1", "each of them once"),
        ("1,", "expected comma-separated values"),
        ("log:0:1", "numbers above 0, the lower one first"),
        ("uniform:2:1", "the lower one first"),
        ("int:1.5:3", "whole numbers"),
        ("log:1", "or a range: uniform:LOW:HIGH"),
    ],
)
def test_values_that_are_none_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_values("optim.lr", text)


def test_a_grid_has_every_combination_with_every_seed():
    members = plan([SMALL], {"optim.lr": (0.1, 0.2), "model.n-layers": (1, 2)}, seeds=(3, 4))
    found = {(m.experiment.optim.lr, m.experiment.model.n_layers, m.experiment.loop.seed) for m in members}
    assert found == {(lr, n, seed) for lr in (0.1, 0.2) for n in (1, 2) for seed in (3, 4)}
    assert members[0].name == "lr=0.1,n-layers=1-seed3"
    assert members[0].values == {"optim.lr": 0.1, "model.n-layers": 1}
    assert len({m.row for m in members}) == 4


def test_several_experiments_are_told_apart_by_their_names():
    members = plan([SMALL, EXPERIMENTS.find("pmnist-small")], {})
    assert [m.name for m in members] == ["smnist-small-seed0", "pmnist-small-seed0"]
    assert members[1].values == {"experiment": "pmnist-small"}
    (alone,) = plan([SMALL], {})
    assert (alone.name, alone.values) == ("smnist-small-seed0", {"experiment": "smnist-small"})


def test_a_kind_is_a_setting_like_others_and_comes_before_its_own():
    members = plan([SMALL], {"model.mixer.heads": (2,), "model.mixer.kind": ("attention",)})
    assert members[0].experiment.model.mixer.heads == 2
    assert members[0].experiment.model.d_model == SMALL.model.d_model


def test_draws_lie_in_their_ranges_and_follow_from_the_seed_and_their_number():
    settings = {
        "optim.lr": Range("log", 1e-4, 1e-2),
        "model.dropout": Range("uniform", 0.1, 0.3),
        "model.n-layers": Range("int", 1, 3),
        "model.norm": ("layer", "batch"),
    }
    members = plan([SMALL], settings, draws=40)
    rates = [m.experiment.optim.lr for m in members]
    assert all(1e-4 <= rate <= 1e-2 for rate in rates)
    assert 10 < sum(rate < 1e-3 for rate in rates) < 30  # half of them, on a logarithmic scale
    assert {m.experiment.model.n_layers for m in members} == {1, 2, 3}
    assert {m.experiment.model.norm for m in members} == {"layer", "batch"}
    assert plan([SMALL], settings, draws=15) == members[:15]
    assert plan([SMALL], settings, draws=1, draw_seed=1) != members[:1]


def test_draws_from_lists_are_all_different():
    members = plan([SMALL], {"model.n-layers": (1, 2), "model.norm": ("layer", "batch")}, draws=4)
    assert len({m.row for m in members}) == 4
    with pytest.raises(ValueError, match="only 4 combinations; leave --draws out"):
        plan([SMALL], {"model.n-layers": (1, 2), "model.norm": ("layer", "batch")}, draws=5)


def test_a_setting_of_custom_data_needs_no_part():
    (one,) = plan([CLASSIFY], {"smoothing": (0.1,)})
    assert one.experiment.task.smoothing == 0.1
    assert one.name == "smoothing=0.1-seed0"


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ({"optim.rate": (1,)}, {}, "optim.rate: unknown setting 'rate'; expected one of method, lr, "),
        ({"optim": (1,)}, {}, "optim: expected optim followed by the name of a setting"),
        ({"optim.lr.x": (1,)}, {}, "optim.lr.x: expected lr alone"),
        ({"optim.lr": ("fast",)}, {}, "optim.lr: expected a number, got 'fast'"),
        ({"model.input-size": (1,)}, {}, "unknown setting 'input_size'"),
        ({"model.mixer.kind": ("s5",)}, {}, "unknown mixer 's5'"),
        ({"optim.lr": Range("log", 1, 2)}, {}, "a range needs --draws N; expected values, or --draws"),
        ({}, {"draws": 3}, "and settings to draw"),
        ({"optim.lr": (1,)}, {"draws": 0}, "expected at least 1"),
        ({"loop.seed": (1, 2)}, {}, "--seeds: expected each seed once"),
        ({}, {"seeds": (1, 1)}, "--seeds: expected each seed once"),
        ({"optim.lr": (1,), "--optim.lr": (2,)}, {}, "expected each setting once"),
    ],
)
def test_what_cannot_be_planned_is_refused(settings, options, message):
    with pytest.raises(ValueError, match=message):
        plan([SMALL], settings, **options)
