"""Tagging: splits, masks, padding, scores and baselines."""

import functools
import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from constant_model import answering, mean_loss
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import assert_resumes_to_the_bit, make_experiment, make_run

from longwave.core.random import shuffled
from longwave.experiments import EXPERIMENTS
from longwave.layers import S4Config
from longwave.models import SequenceConfig
from longwave.tasks.base import add_up
from longwave.tasks.sequences.data import from_arrays, save_npz
from longwave.tasks.sequences.task import NO_TAG
from longwave.tasks.tag.task import TagConfig, TaggingInput

HELD = int(shuffled(30, seed=0)[0])  # the first of 30 that is drawn, which is for validation


def make(count=40, lengths=(6,), channels=1, classes="ab", unknown=0.2, splits=None, seed=0, rare=(), **options):
    """Class k has the mean 3 k; a share `unknown` of the steps has no label, and sequences in `rare` the class z."""
    generator = np.random.default_rng(seed)
    x, y = [], []
    for k in range(count):
        codes = generator.integers(len(classes), size=lengths[k % len(lengths)])
        tags = np.array(list(classes))[codes]
        tags[generator.random(len(tags)) < unknown] = ""
        if k in rare:
            tags[0] = "z"
        x.append(3 * codes[:, None] + generator.standard_normal((len(codes), channels)))
        y.append(tags)
    return TagConfig(**options).on(from_arrays(x, y, splits, target_kind="tags"))


@functools.cache
def ragged():
    """Rows with unequal numbers of steps and of labels, three classes."""
    return make(40, lengths=(3, 9, 5, 1), classes="abc", unknown=0.4)


def reported(task, sums):
    return task.reported({name: float(total) / count for name, (total, count) in sums.items()})


# Splits


def test_whole_sequences_are_drawn_eighty_ten_ten():
    task = make(50)
    starts = [set(split.starts.tolist()) for split in (task.train, task.valid, task.test)]
    assert [len(s) for s in starts] == [40, 5, 5]
    assert len(set.union(*starts)) == 50
    other = make(50, split_seed=1)
    assert task.test.starts.tolist() != other.test.starts.tolist()


def test_a_sequence_without_a_labelled_step_is_left_out_with_a_note():
    y = np.full((12, 3), "a")
    y[:, 1], y[[2, 5]] = "b", ""
    task = TagConfig().on(from_arrays(np.zeros((12, 3)), y, target_kind="tags"))
    assert len(task.train) + len(task.valid) + len(task.test) == 10
    assert task.notes[0] == "2 of 12 sequences have no labelled step and are left out"
    assert {split: sum(counts) for split, counts in task.counts.items()} == {"train": 24, "valid": 3, "test": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": "a"}, "expected two or more classes, got only 'a'"),
        ({"unknown": 1.1}, "expected two or more classes, got none"),
        ({"count": 2}, "expected at least 3 sequences with a known y"),
        (
            {"count": 9, "splits": ["train", "valid", "test"] * 3, "rare": (1,)},
            "class 'z' is in valid but not in train, so it cannot be learnt: .* leave it out$",
        ),
        ({"count": 30, "rare": (HELD,)}, "class 'z' is in valid but .* another --split-seed draws other splits"),
    ],
)
def test_what_cannot_be_learnt_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_a_rare_class_is_noted_with_what_can_be_done():
    task = make(40, rare=(0,), splits=["train"] * 30 + ["valid"] * 5 + ["test"] * 5)
    assert task.notes[0] == "class 'z' is not in valid and test"
    assert "class 'z' has 1 training steps" in task.notes[1]
    assert "--balance" in task.notes[1]


def test_tags_are_needed_to_train():
    with pytest.raises(ValueError, match="y: expected a label for each step, got none"):
        TagConfig().on(from_arrays(np.zeros((9, 3))))


# Batches and masks


def test_rows_are_padded_with_steps_that_do_not_count():
    task = ragged()
    batch = task.train.batch(range(12))
    for k in range(12):
        alone = task.train.batch([k])
        length = int(alone["lengths"][0])
        assert torch.equal(batch["y"][k, :length], alone["y"][0])
        assert (batch["y"][k, length:] == NO_TAG).all()
    assert task.count(batch) == sum(task.count(task.train.batch([k])) for k in range(12))
    assert task.count(batch) < int(batch["lengths"].sum())


@settings(max_examples=25)
@given(seed=st.integers(0, 1000))
def test_the_outputs_of_steps_without_a_label_change_nothing(seed):
    task = ragged()
    batch = task.train.batch(range(8))
    generator = torch.Generator().manual_seed(seed)
    shape = (*batch["y"].shape, 3)
    output = torch.randn(shape, generator=generator, dtype=torch.float64)
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    known = (batch["y"] != NO_TAG).unsqueeze(-1)
    outputs = [output.requires_grad_(), torch.where(known, output, noise).detach().requires_grad_()]
    found = [task.outcome(answering(one), batch) for one in outputs]
    assert found[0].loss == found[1].loss
    assert found[0].scores == found[1].scores
    gradient = torch.autograd.grad(found[0].loss, outputs[0])[0]
    assert (gradient[~known.expand(shape)] == 0).all()
    assert (gradient[known.expand(shape)] != 0).all()


@pytest.mark.parametrize("bidirectional", [True, False])
def test_padding_changes_nothing_of_what_a_model_learns(bidirectional):
    task = ragged()
    config = SequenceConfig(
        d_model=4, n_layers=1, mixer=S4Config(d_state=4, bidirectional=bidirectional), decoder="sequence"
    )
    model = config.resolve(task.spec).build().eval()
    whole = task.outcome(model, task.train.batch(range(8))).loss
    alone = sum(task.outcome(model, task.train.batch([k])).loss for k in range(8))
    torch.testing.assert_close(whole, alone, rtol=1e-5, atol=1e-5)


def test_a_batch_in_parts_has_the_gradient_of_the_whole_though_rows_have_unequal_numbers_of_labels(tmp_path):
    task = ragged()
    gradients = []
    for accumulate in (1, 3):
        experiment = make_experiment(model={"decoder": "sequence", "dropout": 0.0}, optim={"accumulate": accumulate})
        folder = tmp_path / str(accumulate)
        run = make_run(folder, replace(experiment, model=experiment.model.resolve(task.spec)), task, quiet=True)
        run.optimizer.step = run.optimizer.zero_grad = lambda: None
        loss = run.step(task.train.batch(range(10)))
        gradients.append(torch.cat([p.grad.flatten() for p in run.model.parameters() if p.grad is not None]))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)
    assert math.isfinite(loss)
    assert gradients[0].abs().max() > 1e-3


def test_a_run_that_was_stopped_goes_on_to_the_bit(tmp_path):
    assert_resumes_to_the_bit(tmp_path, ragged(), decoder="sequence")


# Loss and scores


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(1, 19), max_size=4))
def test_loss_and_scores_of_parts_add_up_to_those_of_the_whole(cuts):
    task = ragged()
    batch = task.train.batch(range(20))
    output = torch.randn(*batch["y"].shape, 3, dtype=torch.float64)
    edges = [0, *sorted(set(cuts)), 20]
    sums, loss, count = {}, 0.0, 0
    for pair in itertools.pairwise(edges):
        rows = {name: values[slice(*pair)] for name, values in batch.items()}
        outcome = task.outcome(answering(output[slice(*pair)]), rows)
        sums, loss, count = add_up(sums, outcome.scores), loss + outcome.loss, count + task.count(rows)
    torch.testing.assert_close(loss / count, mean_loss(task, output, batch))
    whole = reported(task, task.outcome(answering(output), batch).scores)
    assert reported(task, sums) == pytest.approx(whole, rel=1e-12)


def test_scores_are_those_of_their_definitions():
    task = make(classes="abcd")
    y = torch.tensor([[0, 0, 0, 1, NO_TAG, 2], [2, 1, 0, NO_TAG, NO_TAG, NO_TAG]])
    found = torch.tensor([[0, 0, 1, 1, 3, 0], [2, 0, 0, 3, 3, 3]])
    output = 2.0 * torch.nn.functional.one_hot(found, 4)
    scores = reported(task, task.outcome(answering(output), {"x": output, "y": y}).scores)
    # Class: hits, found, there. 0: 3, 5, 4. 1: 1, 2, 2. 2: 1, 1, 2. 3 is neither there nor found at a labelled step.
    assert scores["macro_f1"] == pytest.approx((6 / 9 + 2 / 4 + 2 / 3) / 3)
    assert scores["accuracy"] == pytest.approx(5 / 8)
    right, wrong = math.log(1 + 3 * math.exp(-2)), math.log(3 + math.exp(2))
    assert scores["loss"] == pytest.approx((5 * right + 3 * wrong) / 8)
    with pytest.raises(ValueError, match=r"output: expected \(2, 6, 4\), a logit for each class at each step, got"):
        task.outcome(answering(output[:, 0]), {"x": output, "y": y})


def test_balance_makes_every_class_count_alike_and_f1_choose_the_weights():
    task = make(60, classes="aaab", balance=True)
    assert (task.goal, make().goal) == ("macro_f1", "accuracy")
    batch = task.train.batch(range(len(task.train)))
    output = torch.randn(*batch["y"].shape, 2, dtype=torch.float64)
    losses = torch.nn.functional.cross_entropy(output.flatten(0, 1), batch["y"].flatten(), reduction="none")
    means = [losses[batch["y"].flatten() == k].mean() for k in (0, 1)]
    torch.testing.assert_close(mean_loss(task, output, batch), (means[0] + means[1]) / 2)


# Baselines


def test_the_class_prior_always_says_the_commonest_class():
    task = make(60, classes="aaab")
    found = task.baselines()["class prior"]["test"]
    counts, trained = np.array(task.counts["test"]), np.array(task.counts["train"])
    share = counts[0] / counts.sum()
    assert found["accuracy"] == pytest.approx(share)
    assert found["macro_f1"] == pytest.approx(2 * share / (1 + share) / 2)
    assert found["loss"] == pytest.approx(-(counts @ np.log(trained / trained.sum())) / counts.sum())


def test_a_ridge_on_a_window_finds_what_is_linear_in_its_values():
    task = make(60, lengths=(6, 9, 1), channels=2)
    found = task.baselines()
    assert list(found) == ["class prior", "ridge on 9 steps"]
    assert found["ridge on 9 steps"]["test"]["accuracy"] > 0.95  # the means of the classes are 3 deviations apart
    assert "loss" not in found["ridge on 9 steps"]["test"]


def test_with_many_channels_the_ridge_sees_fewer_steps_or_is_left_out():
    assert "ridge on 1 steps" in make(9, channels=300).baselines()
    assert list(make(9, channels=600).baselines()) == ["class prior"]


# Settings


def test_tags_of_every_kind_become_names_and_missing_ones_are_known():
    x = np.zeros((2, 3))
    for y, expected in (
        ([["a", "", "b"], ["nan", "c ", "a"]], ["a", "", "b", "", "c", "a"]),
        ([[1, -1, 0], [2, 2, -1]], ["1", "", "0", "2", "2", ""]),
        ([[1.0, np.nan, 0], [2, 2, -1]], ["1", "", "0", "2", "2", ""]),
        ([["-1", "1", "0"], ["a", "1.0", ""]], ["-1", "1", "0", "a", "1", ""]),
        (np.array([["a", None, "b"], [np.nan, 3, "a"]], object), ["a", "", "b", "", "3", "a"]),
    ):
        assert from_arrays(x, y, target_kind="tags").tags.tolist() == expected
    assert from_arrays([x[0], x[1][:2]], [["a", "b", ""], [1, -1]], target_kind="tags").tags.tolist() == [
        *"ab",
        "",
        "1",
        "",
    ]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((2, 3)), [0.5, 1], "y: expected a class, a name or a whole number, got 0.5"),
        (np.zeros((2, 3)), [[1, 0], [1, 0]], r"y: expected a label for each step of x, \(n, length\) = \(2, 3\), got"),
        (np.zeros((2, 3)), [1, 0], r"got shape \(2,\)"),
        (np.zeros((2, 3)), np.zeros((2, 3), complex), "y: expected names or whole numbers, got complex128"),
        ([np.zeros(2), np.zeros(3)], [[1, 0], [1, 0]], r"y\[1\]: y: expected a label for each step of x"),
        ([np.zeros(2), np.zeros(3)], [[1, 0]], "y: expected labels for each of 2 sequences, got 1"),
    ],
)
def test_labels_that_are_not_one_for_each_step_are_refused(x, y, message):
    with pytest.raises(ValueError, match=message):
        from_arrays(x, y, target_kind="tags")


@pytest.mark.parametrize("lengths", [(4,), (4, 2, 7)])
def test_tags_survive_the_way_through_a_file(tmp_path, lengths):
    x = [np.arange(float(n)) for n in lengths]
    y = [["a", "", "b", "a", "c", "", "b"][:n] for n in lengths]
    save_npz(tmp_path / "a.npz", from_arrays(x, y, target_kind="tags"))
    read = TagConfig(npz=tmp_path / "a.npz").read()
    assert read.tags.tolist() == list(itertools.chain(*y))
    assert read.lengths.tolist() == list(lengths)


def test_what_a_model_must_know_survives_json_and_a_model_may_look_ahead_or_stream():
    task = ragged()
    assert TaggingInput.from_dict(json.loads(json.dumps(task.inputs.to_dict()))) == task.inputs
    assert not EXPERIMENTS["tag"].model.resolve(task.spec).streams
    causal = SequenceConfig(mixer=S4Config(), decoder="sequence").resolve(task.spec)
    assert (causal.streams, causal.output_size) == (True, 3)
    with pytest.raises(ValueError, match="decoder: this task needs sequence, got mean"):
        SequenceConfig().resolve(task.spec)


def test_a_fingerprint_tells_other_values_tags_and_splits_apart():
    x, y = np.random.default_rng(0).standard_normal((12, 4)), [["a", "b", "a", "b"]] * 12
    splits = ["train"] * 8 + ["valid"] * 2 + ["test"] * 2
    changed = [["b", "a", "a", "b"], *y[1:]]
    cases = [(x, y, splits), (x + 1, y, splits), (x, changed, splits), (x, y, [*splits[2:], *splits[:2]])]
    digests = [TagConfig().on(from_arrays(*case, target_kind="tags")).fingerprint["digest"] for case in cases]
    assert len(set(digests)) == 4
