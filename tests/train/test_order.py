"""The order of the examples: once an epoch, by seed and epoch alone, and with little padding if that is asked for."""

import numpy as np
import pytest
import torch
from tiny import assert_resumes_to_the_bit, make_experiment, make_run, make_task
from token_files import write_reviews

from longwave.tasks.tokens.task import TokensConfig
from longwave.train.loading import epoch_batches, evaluation_batches

COUNT, SIZE = 1003, 8
LENGTHS = np.random.default_rng(0).geometric(1 / 300, COUNT).tolist()


def padded(batches):
    """Steps that are computed, padding included."""
    return sum(max(LENGTHS[k] for k in batch) * len(batch) for batch in batches)


@pytest.mark.parametrize("bucket", [0, 1, 10, 1000])
def test_every_example_comes_once_an_epoch_in_batches_of_the_size(bucket):
    for epoch in range(3):
        batches = epoch_batches(COUNT, SIZE, 5, epoch, LENGTHS, bucket)
        assert sorted(k for batch in batches for k in batch) == list(range(COUNT))
        assert sorted(map(len, batches)) == [COUNT % SIZE] + [SIZE] * (COUNT // SIZE)


@pytest.mark.parametrize("bucket", [0, 10])
def test_the_order_follows_from_seed_and_epoch(bucket):
    torch.rand(3)  # what was drawn before does not matter
    first = epoch_batches(COUNT, SIZE, 5, 1, LENGTHS, bucket)
    assert epoch_batches(COUNT, SIZE, 5, 1, LENGTHS, bucket) == first
    assert epoch_batches(COUNT, SIZE, 5, 2, LENGTHS, bucket) != first
    assert epoch_batches(COUNT, SIZE, 6, 1, LENGTHS, bucket) != first


def test_without_a_bucket_the_order_is_that_of_older_runs():
    assert epoch_batches(10, 4, 3, 1) == [[1, 9, 5, 6], [4, 3, 8, 0], [2, 7]]


def test_a_bucket_saves_most_of_the_padding():
    true = sum(LENGTHS)
    plain, some, many = (padded(epoch_batches(COUNT, SIZE, 0, 0, LENGTHS, bucket)) for bucket in (0, 10, 100))
    assert plain > 2.2 * true
    assert some < 1.35 * true
    assert many < 1.1 * true


def test_long_and_short_batches_come_in_no_order():
    """Else an epoch would begin with the short examples."""
    batches = epoch_batches(COUNT, SIZE, 0, 0, LENGTHS, 1000)
    longest = [max(LENGTHS[k] for k in batch) for batch in batches]
    assert abs(np.corrcoef(range(len(longest)), longest)[0, 1]) < 0.3


def test_examples_are_not_always_with_the_same_others():
    first, second = (epoch_batches(COUNT, SIZE, 0, epoch, LENGTHS, 10) for epoch in (0, 1))
    with_zero = [{*next(batch for batch in batches if 0 in batch)} for batches in (first, second)]
    assert len(with_zero[0] & with_zero[1]) < SIZE // 2


def test_evaluation_has_every_example_once_in_order_or_by_length():
    assert evaluation_batches(5, 2) == [[0, 1], [2, 3], [4]]
    assert evaluation_batches(5, 2, [3, 1, 2, 1, 9]) == [[1, 3], [2, 0], [4]]


def test_a_run_with_a_bucket_goes_on_to_the_bit(tmp_path):
    write_reviews(tmp_path, count=20)
    task = TokensConfig("imdb", length=60).build(tmp_path)
    assert_resumes_to_the_bit(tmp_path, task, bucket=2, norm="batch")


def test_scores_do_not_depend_on_the_bucket(tmp_path):
    write_reviews(tmp_path)
    task = TokensConfig("imdb", length=60).build(tmp_path)
    scores = []
    for bucket in (0, 3):
        experiment = make_experiment(
            model={"vocabulary": task.vocabulary.size, "output_size": 2}, loop={"bucket": bucket}
        )
        scores.append(make_run(tmp_path / str(bucket), experiment, task, quiet=True).evaluate(task.test))
    assert scores[0] == pytest.approx(scores[1], rel=1e-6)


def test_a_bucket_without_lengths_is_refused_before_training(tmp_path):
    with pytest.raises(
        ValueError, match=r"loop\.bucket: the examples of tiny have no lengths of their own; expected 0"
    ):
        make_run(tmp_path, make_experiment(loop={"bucket": 2}), make_task(), quiet=True)
