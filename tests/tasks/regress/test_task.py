"""Regression: splits, units, masks, scores and baselines."""

import functools
import itertools
import json
import math

import numpy as np
import pytest
import torch
from constant_model import answering, mean_loss, scores
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import assert_resumes_to_the_bit

from longwave.tasks.base import add_up, batches
from longwave.tasks.regress.task import RegressConfig, RegressionInput, summaries
from longwave.tasks.sequences.data import from_arrays, save_npz


def make(count=40, lengths=(4,), channels=2, targets=1, missing=(), splits=None, seed=0, **options):
    """Targets k are (10^k)(mean of the sequence) + 5; those at the places `missing` are not known."""
    generator = np.random.default_rng(seed)
    x = [generator.standard_normal((lengths[k % len(lengths)], channels)) for k in range(count)]
    y = np.array([[10.0**k * row.mean() + 5 for k in range(targets)] for row in x])
    for place in missing:
        y[place] = np.nan
    return RegressConfig(**options).on(from_arrays(x, y[:, 0] if targets == 1 else y, splits, target_kind="targets"))


@functools.cache
def patchy():
    """Two lengths; a third of the second target and two of the first are not known."""
    missing = [(k, 1) for k in range(0, 40, 3)] + [(k, 0) for k in (1, 4)]
    return make(40, lengths=(4, 7), targets=2, missing=missing)


def reported(task, output, batch):
    sums = scores(task, output, batch)
    return task.reported({k: float(total) / count if count else math.nan for k, (total, count) in sums.items()})


# Splits


def test_splits_are_drawn_eighty_ten_ten_and_the_seed_alone_decides_them():
    first, same, other = (make(50, split_seed=seed) for seed in (0, 0, 1))
    starts = [set(split.starts.tolist()) for split in (first.train, first.valid, first.test)]
    assert [len(s) for s in starts] == [40, 5, 5]
    assert len(set.union(*starts)) == 50
    assert first.test.starts.tolist() == same.test.starts.tolist() != other.test.starts.tolist()


def test_given_splits_are_kept_and_a_missing_validation_set_is_taken_from_train():
    task = make(12, splits=["train", "test", "valid"] * 4)
    assert [split.starts.tolist() for split in (task.train, task.test, task.valid)] == [
        [4 * k for k in range(first, 12, 3)] for first in range(3)
    ]
    task = make(12, splits=["train"] * 10 + ["test"] * 2)
    assert (len(task.train), len(task.valid), len(task.test)) == (9, 1, 2)
    assert task.notes == ("no sequence is marked valid: 1 of the training set are held out for it",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 2}, "expected at least 3 sequences with a known y, for train, valid and test, got 2"),
        ({"count": 5, "missing": [0, 1, 2]}, "got 2"),
        ({"count": 3, "splits": ["test"] * 3}, "split: expected sequences in train, got none"),
        (
            {"count": 3, "targets": 2, "missing": [(0, 1)], "splits": ["train", "valid", "test"]},
            "target 'y1' has no known value in the training set",
        ),
    ],
)
def test_what_cannot_be_learnt_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_a_sequence_without_a_known_target_is_left_out_with_a_note():
    task = make(40, targets=2, missing=[3, 7, (8, 0)])
    assert len(task.train) + len(task.valid) + len(task.test) == 38
    assert task.notes == ("2 of 40 sequences have no known target and are left out",)
    assert [task.counts[split][1] for split in ("train", "valid", "test")] == [30, 4, 4]
    assert sum(task.counts[split][0] for split in task.counts) == 37


def test_a_target_that_is_never_tested_or_never_changes_is_noted():
    task = make(4, targets=2, missing=[(3, 1)], splits=["train", "train", "valid", "test"])
    assert task.notes == ("target 'y1' has no known value in test",)
    assert "mae_y1" not in reported(task, torch.zeros(1, 2), task.test.batch([0]))
    x = np.random.default_rng(0).standard_normal((20, 5))
    task = RegressConfig().on(from_arrays(x, np.full(20, 0.1), target_kind="targets"))
    assert task.notes == ("target 'y' is constant in the training set",)
    assert task.inputs.target_deviation == (1.0,)


def test_targets_are_needed_to_train():
    with pytest.raises(ValueError, match="y: expected a number for each sequence, got none"):
        RegressConfig().on(from_arrays(np.zeros((9, 3))))


# Units


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), size=st.floats(1e-6, 1e6), shift=st.floats(-1e3, 1e3))
def test_targets_come_back_in_their_units(seed, size, shift):
    generator = np.random.default_rng(seed)
    y = size * (generator.standard_normal((20, 2)) + shift)
    task = RegressConfig().on(from_arrays(generator.standard_normal((20, 3)), y, target_kind="targets"))
    restored = task.inputs.restore(task.train.rows["y"])
    order = task.train.starts // 3
    np.testing.assert_allclose(restored, y[order], rtol=1e-6, atol=1e-6 * size)


def test_targets_are_standardised_by_the_known_ones_of_the_training_set():
    task = make(60, targets=3, missing=[(k, k % 3) for k in range(0, 60, 4)])
    y, known = task.train.rows["y"].astype(np.float64), task.train.rows["known"]
    for k in range(3):
        assert y[known[:, k], k].mean() == pytest.approx(0, abs=1e-6)
        assert y[known[:, k], k].std() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("size", [1e200, 1e300])
def test_targets_too_large_to_be_standardised_are_refused(size):
    y = size * np.random.default_rng(0).standard_normal(30)
    with pytest.raises(ValueError, match=r"y: target 'y': values up to .* are too large to be standardised"):
        RegressConfig().on(from_arrays(np.zeros((30, 4)), y, target_kind="targets"))


# Loss and scores


def test_scores_are_those_of_their_definitions():
    task = make(40)
    batch = task.test.batch(range(4))
    output = torch.randn(4, 1)
    inputs = task.inputs
    true, found = inputs.restore(batch["y"].numpy())[:, 0], inputs.restore(output.numpy())[:, 0]
    expected = {
        "mse": float((output - batch["y"]).square().mean()),
        "mae": np.abs(found - true).mean(),
        "rmse": np.sqrt(np.square(found - true).mean()),
        "r2": 1 - np.square(found - true).sum() / np.square(true - true.mean()).sum(),
    }
    assert reported(task, output, batch) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ValueError, match=r"output: expected \(4, 1\), a number for each target, got \(4, 2\)"):
        mean_loss(task, torch.zeros(4, 2), batch)


def test_r2_is_left_out_where_the_truth_does_not_vary():
    task = make(40)
    assert "r2" not in reported(task, torch.zeros(1, 1), task.test.batch([0]))
    assert "r2" not in reported(task, torch.zeros(3, 1), task.test.batch([1, 1, 1]))


def test_several_targets_have_their_own_errors_unless_they_are_many():
    task = make(40, targets=2)
    assert list(reported(task, torch.zeros(4, 2), task.test.batch(range(4)))) == [
        *("mse", "mae_y0", "rmse_y0", "mae_y1", "rmse_y1", "r2")
    ]
    task = make(40, targets=7)
    assert list(reported(task, torch.zeros(4, 7), task.test.batch(range(4)))) == ["mse", "r2"]


@settings(max_examples=25)
@given(seed=st.integers(0, 1000))
def test_what_stands_where_a_target_is_missing_changes_nothing(seed):
    task = patchy()
    batch = task.train.batch(range(12))
    generator = torch.Generator().manual_seed(seed)
    output = torch.randn(12, 2, generator=generator, dtype=torch.float64).requires_grad_()
    noise = torch.randn(12, 2, generator=generator)
    other = {**batch, "y": torch.where(batch["known"], batch["y"], noise)}
    losses = [task.outcome(answering(output), b).loss for b in (batch, other)]
    gradients = [torch.autograd.grad(loss, output)[0] for loss in losses]
    assert losses[0] == losses[1]
    assert torch.equal(*gradients)
    assert (gradients[0][~batch["known"]] == 0).all()
    assert (gradients[0][batch["known"]] != 0).all()
    assert task.count(batch) == int(batch["known"].sum()) < 24


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(1, 29), max_size=4))
def test_loss_and_scores_of_parts_add_up_to_those_of_the_whole(cuts):
    """With unequal numbers of known targets, and a part where one of them is never known."""
    task = patchy()
    batch = task.train.batch(range(30))
    output = torch.randn(30, 2, dtype=torch.float64)
    edges = [0, *sorted(set(cuts)), 30]
    parts = [slice(*pair) for pair in itertools.pairwise(edges)]
    sums, loss, count = {}, 0.0, 0
    for part in parts:
        rows = {name: values[part] for name, values in batch.items()}
        outcome = task.outcome(answering(output[part]), rows)
        sums, loss, count = add_up(sums, outcome.scores), loss + outcome.loss, count + task.count(rows)
    torch.testing.assert_close(loss / count, mean_loss(task, output, batch))
    whole = scores(task, output, batch)
    assert {name: n for name, (_, n) in sums.items()} == {name: n for name, (_, n) in whole.items()}
    for name, (total, _) in whole.items():
        torch.testing.assert_close(sums[name][0], total)


def test_names_of_targets_do_not_become_styles_of_a_terminal():
    y = np.random.default_rng(0).standard_normal((20, 2))
    task = RegressConfig().on(from_arrays(np.zeros((20, 3)), y, target_kind="targets", names=["flux [/s]", "b"]))
    assert "mae_flux (/s)" in reported(task, torch.zeros(2, 2), task.test.batch(range(2)))
    assert task.inputs.targets[0] == "flux [/s]"


def test_a_run_that_was_stopped_goes_on_to_the_bit(tmp_path):
    assert_resumes_to_the_bit(tmp_path, patchy())


# Baselines


def test_the_mean_of_the_training_set_explains_nothing_and_ridge_finds_what_is_linear():
    task = make(60, lengths=(6,))
    found = task.baselines()
    assert list(found) == ["mean of training set", "ridge on summary", "ridge on all steps"]
    y = task.inputs.restore(task.test.rows["y"])
    assert found["mean of training set"]["test"]["mae"] == pytest.approx(
        np.abs(y - task.inputs.target_mean).mean(), rel=1e-5
    )
    for name in ("ridge on summary", "ridge on all steps"):  # the target is the mean of the sequence
        assert found[name]["test"]["r2"] > 0.999
        assert found[name]["valid"]["mse"] < 0.001


def test_sequences_of_unequal_length_have_no_ridge_on_all_steps():
    task = make(60, lengths=(6, 9, 1), missing=[2, 5])
    assert list(task.baselines()) == ["mean of training set", "ridge on summary"]


def test_padding_is_no_part_of_a_summary():
    task = make(60, lengths=(6, 9, 1))
    together = summaries(task.train.batch(range(10)))
    alone = np.concatenate([summaries(task.train.batch([k])) for k in range(10)])
    np.testing.assert_allclose(together, alone)


# Settings


def test_what_a_model_must_know_survives_json():
    task = make(40, lengths=(4, 7), targets=2)
    assert (task.spec.input_size, task.spec.output_size, task.spec.length) == (2, 2, None)
    assert task.spec.decoders == ("mean", "last")
    assert RegressionInput.from_dict(json.loads(json.dumps(task.inputs.to_dict()))) == task.inputs


def test_a_fingerprint_tells_other_values_targets_and_splits_apart():
    generator = np.random.default_rng(0)
    x, y = generator.standard_normal((12, 5)), generator.standard_normal(12)
    splits = ["train"] * 8 + ["valid"] * 2 + ["test"] * 2
    swapped = [*splits[2:], *splits[:2]]
    missing = np.where(np.arange(12) == 3, np.nan, y)
    cases = [(x, y, splits), (x + 1, y, splits), (x, -y, splits), (x, missing, splits), (x, y, swapped)]
    digests = [RegressConfig().on(from_arrays(*case, target_kind="targets")).fingerprint["digest"] for case in cases]
    assert len(set(digests)) == 5


def test_targets_come_from_columns_of_a_csv_file(tmp_path):
    rows = [f"{k},{k + 1},{k + 2},{'' if k == 4 else 2 * k},{10 - k}" for k in range(20)]
    (tmp_path / "my.csv").write_text("t0,t1,t2,yield,moisture\n" + "\n".join(rows) + "\n")
    task = RegressConfig(csv=tmp_path / "my.csv", target=("yield", "moisture")).build()
    assert task.inputs.targets == ("yield", "moisture")
    assert (task.inputs.length, task.inputs.channels) == (3, 1)
    assert sum(task.counts[split][0] for split in task.counts) == 19
    with pytest.raises(ValueError, match="target: no column 'target'; expected one of t0, t1"):
        RegressConfig(csv=tmp_path / "my.csv").build()
    with pytest.raises(ValueError, match="regress: expected --npz FILE or --csv FILE, got neither"):
        RegressConfig().build()


def test_names_and_missing_targets_survive_the_way_through_a_file(tmp_path):
    y = np.array([[1.5, np.nan], [2.0, 3.0], [np.nan, np.nan], [0.1, -7.0]])
    given = from_arrays(np.zeros((4, 3)), y, target_kind="targets", names=["a", "b"])
    save_npz(tmp_path / "a.npz", given)
    read = RegressConfig(npz=tmp_path / "a.npz").read()
    np.testing.assert_array_equal(read.targets, y)
    assert read.target_names == ("a", "b")


def test_batches_do_not_depend_on_what_else_is_in_them():
    task = make(40, lengths=(4, 7, 2), targets=2)
    whole = next(batches(task.train, 100))
    for k in (0, 5, 11):
        alone = task.train.batch([k])
        assert torch.equal(alone["y"][0], whole["y"][k])
        assert torch.equal(alone["x"][0], whole["x"][k, : int(alone["lengths"][0])])
