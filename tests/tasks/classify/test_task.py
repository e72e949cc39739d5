"""Classification: splits, batches, loss and scores of custom sequences."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from constant_model import mean_loss, scores
from torch import nn

from longwave.models import ClassifierConfig, SequenceConfig
from longwave.models.classifier import Classifier
from longwave.tasks.classify.holdout import with_holdout
from longwave.tasks.classify.task import ClassifierInput, ClassifyConfig
from longwave.tasks.sequences.data import from_arrays


def make(counts, lengths=(4,), channels=2, parts=None, seed=0, **options):
    """A task of so many sequences of each class; class k has the mean k."""
    generator = np.random.default_rng(seed)
    labels = [name for name, count in counts.items() for _ in range(count)]
    x = []
    for k, name in enumerate(labels):
        x.append(generator.standard_normal((lengths[k % len(lengths)], channels)) + list(counts).index(name))
    return ClassifyConfig(**options).on(from_arrays(x, labels, parts))


# Parts


def test_each_class_is_drawn_eighty_ten_ten_and_no_sequence_twice():
    task = make({"a": 50, "b": 20, "c": 3})
    assert task.counts == {"train": (40, 16, 1), "valid": (5, 2, 1), "test": (5, 2, 1)}
    starts = [set(split.starts.tolist()) for split in (task.train, task.valid, task.test)]
    assert [len(s) for s in starts] == [57, 8, 8]
    assert len(set.union(*starts)) == 73


def test_the_seed_of_the_split_alone_decides_it():
    first, same, other = (make({"a": 30, "b": 30}, split_seed=seed) for seed in (0, 0, 1))
    assert first.test.starts.tolist() == same.test.starts.tolist() != other.test.starts.tolist()


def test_given_parts_are_kept():
    parts = ["train", "test", "valid"] * 4
    task = make({"a": 6, "b": 6}, parts=parts)
    assert [split.starts.tolist() for split in (task.train, task.test, task.valid)] == [
        [4 * k for k in range(first, 12, 3)] for first in range(3)
    ]
    assert task.notes == ()


def test_without_a_valid_part_some_of_train_are_taken_and_a_note_says_so():
    task = make({"a": 20, "b": 10}, parts=["train"] * 18 + ["test"] * 2 + ["train"] * 8 + ["test"] * 2)
    assert task.counts == {"train": (16, 7), "valid": (2, 1), "test": (2, 2)}
    assert task.notes == ("no sequence is marked valid: 3 of the training set are held out for it",)


@pytest.mark.parametrize(
    ("counts", "parts", "message"),
    [
        ({"a": 9}, None, "expected two or more classes, got only 'a'"),
        (
            {"a": 9, "b": 2},
            None,
            "class 'b' has 2 sequences, too few for one in each split; expected at least 3 per class",
        ),
        ({"a": 9, "b": 1}, None, "class 'b' has 1 sequence, too few"),
        ({"a": 2, "b": 2}, ["test"] * 4, "split: expected sequences in train, got none"),
        ({"a": 3, "b": 2}, ["train", "valid", "test", "test", "valid"], "'b' is in valid and test but not in train"),
        ({"a": 2, "b": 2}, ["train", "test"] * 2, "there is no validation set, and train is too small"),
    ],
)
def test_what_cannot_be_split_is_refused(counts, parts, message):
    with pytest.raises(ValueError, match=message):
        make(counts, parts=parts)


def test_a_class_that_is_never_tested_is_noted():
    task = make({"a": 3, "b": 2}, parts=["train", "valid", "test", "train", "valid"])
    assert task.notes == ("class 'b' is not in test",)


def test_labels_are_needed_to_train():
    with pytest.raises(ValueError, match="y: expected a label for each sequence, got none"):
        ClassifyConfig().on(from_arrays(np.zeros((9, 3))))


# Batches


def test_sequences_of_one_length_need_no_lengths():
    task = make({"a": 10, "b": 10})
    batch = task.train.batch([3, 0])
    assert set(batch) == {"x", "y"}
    assert batch["x"].shape == (2, 4, 2)
    assert task.inputs.length == 4


def test_sequences_of_unequal_length_are_padded_to_the_longest_of_the_batch():
    task = make({"a": 10, "b": 10}, lengths=(4, 7, 2))
    everything = task.train.batch(range(len(task.train)))
    assert task.inputs.length is None
    for index in range(len(task.train)):
        alone = task.train.batch([index])
        length = alone["lengths"].item()
        assert alone["x"].shape == (1, length, 2)
        torch.testing.assert_close(everything["x"][index, :length], alone["x"][0])
        assert (everything["x"][index, length:] == 0).all()
    assert everything["x"].shape[1] == everything["lengths"].max()


def test_a_batch_of_a_ragged_set_has_lengths_even_if_they_happen_to_agree():
    task = make({"a": 10, "b": 10}, lengths=(4, 7))
    batch = task.train.batch([0, 0])
    assert batch["lengths"].unique().numel() == 1


def test_channels_are_standardised_by_the_steps_of_the_train_part_alone():
    task = make({"a": 30, "b": 20}, lengths=(4, 9), channels=3)
    batch = task.train.batch(range(len(task.train)))
    steps = torch.cat([x[:length] for x, length in zip(batch["x"], batch["lengths"], strict=True)]).double()
    torch.testing.assert_close(steps.mean(0), torch.zeros(3, dtype=torch.float64), atol=1e-6, rtol=0)
    torch.testing.assert_close(steps.std(0, correction=0), torch.ones(3, dtype=torch.float64), atol=1e-6, rtol=0)


def test_a_channel_that_does_not_change_is_divided_by_one_and_noted():
    x = np.random.default_rng(0).standard_normal((20, 5, 2))
    x[..., 1] = 0.1  # which has no exact sum
    task = ClassifyConfig().on(from_arrays(x, ["a", "b"] * 10))
    assert task.inputs.deviation[1] == 1
    assert task.notes == ("channel 1 is constant in the training set",)
    assert task.train.batch([0])["x"][0, :, 1].abs().max() < 1e-12


# Loss and scores


@pytest.mark.parametrize("balance", [False, True])
def test_the_loss_of_parts_of_a_batch_adds_up_to_that_of_the_whole(balance):
    task = make({"a": 40, "b": 10, "c": 5}, balance=balance)
    batch = task.train.batch(range(len(task.train)))
    output = torch.randn(len(task.train), 3, dtype=torch.float64)
    whole = mean_loss(task, output, batch)
    parts = [({k: v[s] for k, v in batch.items()}, output[s]) for s in (slice(0, 20), slice(20, None))]
    total = sum(mean_loss(task, o, b) * task.count(b) for b, o in parts) / task.count(batch)
    torch.testing.assert_close(total, whole)


def test_balance_makes_every_class_count_alike():
    task = make({"a": 40, "b": 10}, balance=True)
    batch = task.train.batch(range(len(task.train)))
    output = torch.randn(len(task.train), 2, dtype=torch.float64)
    losses = nn.functional.cross_entropy(output, batch["y"], reduction="none")
    means = [losses[batch["y"] == k].mean() for k in (0, 1)]
    torch.testing.assert_close(mean_loss(task, output, batch), (means[0] + means[1]) / 2)
    assert make({"a": 40, "b": 10}).weights is None


def test_scores_are_accuracy_and_cross_entropy():
    task = make({"a": 10, "b": 10})
    output = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]])
    batch = {"x": torch.zeros(3, 4, 2), "y": torch.tensor([0, 1, 1])}
    found = scores(task, output, batch)
    assert (found["accuracy"][0].item(), found["accuracy"][1]) == (2, 3)
    expected = math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-1)) + math.log(1 + math.exp(3))
    assert found["loss"][0].item() == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"output: expected \(3, 2\), a logit for each class, got \(3, 3\)"):
        mean_loss(task, torch.zeros(3, 3), batch)


def test_with_balance_the_mean_recall_is_a_score_and_chooses_the_weights():
    task = make({"a": 40, "b": 10}, balance=True)
    assert (task.goal, make({"a": 40, "b": 10}).goal) == ("balanced_accuracy", "accuracy")
    always_a = torch.tensor([[1.0, 0.0]]).expand(len(task.test), 2)
    total = count = 0.0
    for indices in (range(2), range(2, len(task.test))):  # in batches, as a run adds it up
        part = scores(task, always_a[: len(indices)], task.test.batch(indices))["balanced_accuracy"]
        total, count = total + float(part[0]), count + part[1]
    assert total / count == pytest.approx(0.5, abs=1e-12)
    assert task.baselines()["class prior"]["test"]["balanced_accuracy"] == 0.5
    assert "balanced_accuracy" not in make({"a": 40, "b": 10}).baselines()["class prior"]["test"]


@pytest.mark.parametrize("size", [1e200, 1e300])
def test_values_too_large_to_be_standardised_are_refused(size):
    x = size * np.random.default_rng(0).standard_normal((30, 4, 1))
    with pytest.raises(ValueError, match="are too large to be standardised"):
        ClassifyConfig().on(from_arrays(x, ["a", "b", "c"] * 10))


def test_one_value_far_from_all_others_is_refused():
    x = np.random.default_rng(0).standard_normal((30, 4, 1))
    inputs = ClassifyConfig().on(from_arrays(x, ["a", "b", "c"] * 10)).inputs
    x[3, 2] = 1e60
    with pytest.raises(ValueError, match=r"column 0: values up to 1e\+60 are too far from the training set"):
        inputs.standardise(x)


def test_the_class_prior_is_what_a_model_has_to_beat():
    task = make({"a": 30, "b": 10})
    prior = task.baselines()["class prior"]["test"]
    assert prior["accuracy"] == 0.75
    assert prior["loss"] == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))


def test_a_rare_class_is_noted_with_what_can_be_done():
    assert make({"a": 40, "b": 10}).notes == ()
    (note,) = make({"a": 400, "b": 10}).notes
    assert "class 'b' has 8 training examples and 'a' has 320" in note
    assert "--balance" in note
    (note,) = make({"a": 400, "b": 10}, balance=True).notes
    assert "--balance" not in note


def test_a_model_must_have_a_logit_for_each_class():
    spec = make({"a": 10, "b": 10, "c": 10}, lengths=(4, 7)).spec
    assert (spec.input_size, spec.output_size, spec.length, spec.image_size) == (2, 3, None, None)
    assert spec.decoders == ("mean", "last")
    assert make({"a": 10, "b": 10}).spec.length == 4


def test_what_a_classifier_must_know_survives_json():
    task = make({"10": 10, "9": 10}, lengths=(4, 7))
    assert task.inputs.classes == ("9", "10")
    assert ClassifierInput.from_dict(json.loads(json.dumps(task.inputs.to_dict()))) == task.inputs
    described = task.describe()
    assert described["counts"] == {"train": [8, 8], "valid": [1, 1], "test": [1, 1]}
    assert described["digest"] != make({"10": 10, "9": 10}, lengths=(4, 7), seed=1).describe()["digest"]


# Settings


def test_custom_sequences_need_one_file(tmp_path):
    for config, given in ((ClassifyConfig(), "neither"), (ClassifyConfig(npz=tmp_path, csv=tmp_path), "both")):
        with pytest.raises(ValueError, match=f"classify: expected --npz FILE or --csv FILE, got {given}"):
            config.build()


def test_arrays_beside_a_run_are_found_wherever_its_folder_is(tmp_path):
    x, labels = np.random.default_rng(0).standard_normal((20, 5)), ["a", "b"] * 10
    config, expected, data = ClassifyConfig(split_seed=3).on_arrays(tmp_path / "run", x, labels)
    (tmp_path / "moved").mkdir()
    for name, content in data.items():
        (tmp_path / "moved" / name).write_bytes(content)
    assert config.in_folder(tmp_path / "moved").build().fingerprint == expected.fingerprint
    own = ClassifyConfig(npz=tmp_path / "mine.npz")
    assert own.in_folder(tmp_path / "moved") is own


# Small sets


def three_classes(count=60, **settings):
    x, y = np.random.default_rng(0).normal(size=(count, 8)), [str(k % 3) for k in range(count)]
    return ClassifyConfig().on(from_arrays(x, y, **settings))


def test_a_small_set_is_trained_on_whole_and_a_third_validates_a_holdout_model():
    before = three_classes()
    task, model, n_selection_examples, calibrate = before.for_model(ClassifierConfig())
    assert model.holdout_model
    assert n_selection_examples == 0
    assert calibrate is Classifier.calibrate
    assert len(task.train) == len(before.train) + len(before.valid)
    assert len(task.test) == len(before.test)
    assert task.counts["valid"] == (6, 6, 6)
    assert task.counts["train"] == (18, 18, 18)
    held = task.train.rows["held"]
    assert held.sum() == len(task.valid) == 18
    rows = task.train.batch(np.flatnonzero(held))
    valid = task.valid.batch(range(18))
    assert torch.equal(rows["x"], valid["x"])
    assert valid["held"].all()
    assert "held" not in task.test.batch(range(2))
    assert (
        "trained on all 54, and the validation score is that of a holdout model, trained without 18 of them"
        in task.notes[-1]
    )


def test_a_validation_set_that_was_given_or_is_large_stays_as_it_is():
    split = ["train"] * 40 + ["valid"] * 10 + ["test"] * 10
    for task in (three_classes(split=split), three_classes(count=3000)):
        adapted = task.for_model(ClassifierConfig())
        assert adapted.task is task
        assert adapted.n_selection_examples == len(task.valid)
        assert not adapted.model.holdout_model


def test_a_model_without_a_holdout_model_is_validated_on_sequences_that_it_is_not_trained_on():
    task, model = three_classes(), SequenceConfig()
    assert task.for_model(model) == (task, model, len(task.valid), None)


def test_a_class_of_one_sequence_is_kept_for_training():
    split = ["train"] * 20 + ["test"] * 4
    labels = ["a"] * 10 + ["b"] * 9 + ["c"] + ["a", "b", "a", "c"]
    task = ClassifyConfig().on(from_arrays(np.random.default_rng(0).normal(size=(24, 8)), labels, split=split))
    task = with_holdout(task)
    assert task.counts["train"] == (10, 9, 1)
    assert task.counts["valid"] == (3, 3, 0)


def test_balanced_classes_weigh_the_same_after_a_holdout_model_was_added():
    labels = ["a"] * 40 + ["b"] * 10
    task = ClassifyConfig(balance=True).on(from_arrays(np.random.default_rng(0).normal(size=(50, 8)), labels))
    task = with_holdout(task)
    for split in (task.train, task.valid):
        weight, y = split.rows["weight"], split.rows["y"]
        assert weight[y == 0].sum() == pytest.approx(weight[y == 1].sum())
        assert weight.mean() == pytest.approx(1)
    assert task.weights == pytest.approx((40 / 64, 40 / 16))


def test_baselines_do_not_know_the_sequences_that_validate_them():
    """Labels at random: a neighbour that is itself would be right every time."""
    x = np.random.default_rng(1).normal(size=(90, 12))
    task = with_holdout(ClassifyConfig().on(from_arrays(x, [str(k * 7 % 11 % 2) for k in range(90)])))
    found = task.baselines()
    assert found["1-NN (DTW)"]["valid"]["accuracy"] < 0.8
    assert found["random convolutions"]["valid"]["accuracy"] < 0.8


def test_smoothing_is_in_the_loss_and_not_in_the_scores():
    plain = ClassifyConfig().on(from_arrays(np.zeros((30, 4)) + np.arange(4), [str(k % 3) for k in range(30)]))
    smooth = dataclasses.replace(plain, smoothing=0.2)
    batch, logits = plain.train.batch(range(6)), torch.randn(6, 3)
    one, other = (task.outcome(lambda x, **_: (logits, None), batch) for task in (plain, smooth))
    uniform = -logits.log_softmax(-1).mean(-1).sum()
    torch.testing.assert_close(other.loss, 0.8 * one.loss + 0.2 * uniform)
    assert one.scores["loss"][0] == other.scores["loss"][0]
    with pytest.raises(ValueError, match="smoothing: expected a share of at least 0 and below 1, got 1"):
        ClassifyConfig(smoothing=1.0)
