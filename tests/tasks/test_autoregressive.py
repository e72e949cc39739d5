"""Tasks of the next token: windows that hold every token once, and scores that do not depend on how they are cut."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from longwave.models import ModelConfig, SequenceModel
from longwave.tasks.autoregressive import PADDING, START, AutoregressiveTask, Windows

SIZE = 6


def make_task(tokens: int = 23, length: int = 5) -> AutoregressiveTask:
    generator = np.random.default_rng(0)
    parts = {part: generator.integers(0, SIZE, tokens, dtype=np.uint8) for part in ("train", "valid", "test")}
    windows = {part: Windows(values, length) for part, values in parts.items()}
    return AutoregressiveTask(name="dice", **windows, input_size=1, output_size=SIZE, unit="throw")


def make_model(**settings) -> SequenceModel:
    config = ModelConfig(d_model=4, n_layers=1, d_state=4, decoder="sequence", vocabulary=SIZE, output_size=SIZE)
    return SequenceModel(dataclasses.replace(config, **settings)).double().eval()


def mean_scores(task, model, split, size):
    """As the training loop takes them."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    with torch.no_grad():
        for start in range(0, len(split), size):
            batch = split.batch(range(start, min(start + size, len(split))))
            sums = task.scores(model(batch["x"])[0], batch)["loss"]
            total, count = total + sums[0], count + sums[1]
    return task.reported({"loss": float(total / count)}), count


@given(tokens=st.integers(1, 40), length=st.integers(1, 12), start=st.integers(0, 5))
def test_windows_hold_every_token_once_and_show_only_those_before_it(tokens, length, start):
    values = np.arange(1, tokens + start + 1)
    windows = Windows(values, length, start=start)
    batch = windows.batch(range(len(windows)))
    assert batch["x"].shape == batch["y"].shape == (math.ceil(tokens / length), length)
    assert batch["y"][batch["y"] != PADDING].tolist() == values[start:].tolist()
    assert batch["x"][:, 0].tolist() == [START] * len(windows)
    shown, told = batch["x"][:, 1:], batch["y"][:, :-1]
    assert torch.equal(shown[told != PADDING], told[told != PADDING])


def test_a_batch_depends_on_its_indices_alone():
    windows = make_task().test
    whole, some = windows.batch(range(len(windows))), windows.batch([4, 1])
    for name in ("x", "y"):
        assert torch.equal(some[name], whole[name][[4, 1]])
        assert some[name].dtype == torch.long


@pytest.mark.parametrize("mixer", ["s4", "attention"])
def test_scores_are_exact_whatever_the_batches_and_the_padding(mixer):
    """Beside the sum over windows one at a time, the last of them as short as it is."""
    task = make_task()
    model = make_model(mixer=mixer, heads=2)
    losses = []
    for k in range(0, 23, 5):
        window = torch.from_numpy(task.test.tokens[k : k + 5]).long()
        x = torch.cat((torch.tensor([START]), window[:-1]))
        with torch.no_grad():
            chances = model(x[None])[0][0].log_softmax(-1)
        losses += [-float(row[token]) for row, token in zip(chances, window, strict=True)]
    for size in (1, 2, 5, 9):
        scores, count = mean_scores(task, model, task.test, size)
        assert count == len(losses) == 23
        assert scores["loss"] == pytest.approx(sum(losses) / 23, rel=1e-12)
        assert scores["bits_per_throw"] == pytest.approx(sum(losses) / 23 / math.log(2), rel=1e-12)


def test_a_model_that_knows_nothing_needs_the_bits_of_the_vocabulary():
    task = make_task()
    batch = task.test.batch(range(3))
    output = torch.zeros(3, 5, SIZE)
    assert float(task.loss(output, batch)) == pytest.approx(math.log(SIZE))
    total, count = task.scores(output, batch)["loss"]
    assert task.reported({"loss": float(total / count)})["bits_per_throw"] == pytest.approx(math.log2(SIZE))


def test_the_loss_is_the_mean_over_tokens_that_are_there():
    task = make_task()
    batch, output = task.test.batch([3, 4]), torch.randn(2, 5, SIZE)
    total, count = task.scores(output, batch)["loss"]
    assert count == 8  # 5 and the last 3
    assert float(task.loss(output, batch)) == pytest.approx(float(total / count), rel=1e-6)


def test_frequencies_are_scored_as_by_hand():
    task = make_task()
    train, test = task.train.tokens.tolist(), task.test.tokens.tolist()
    losses = [-math.log((train.count(token) + 1) / (len(train) + SIZE)) for token in test]
    assert task.frequencies()["test"]["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-12)
    assert set(task.frequencies()) == {"valid", "test"}


def test_an_output_of_another_shape_is_refused():
    task = make_task()
    batch = task.test.batch([0, 1])
    for shape in ((2, SIZE), (2, 5, SIZE + 1)):
        with pytest.raises(ValueError, match=r"output: expected \(2, 5, 6\), a logit for each token at each step, got"):
            task.loss(torch.zeros(shape), batch)


def test_facts_for_the_report_are_plain_values():
    facts = make_task().describe()
    assert facts["tokens"] == {"train": 23, "valid": 23, "test": 23}
    assert facts["examples"] == {"train": 5, "valid": 5, "test": 5}
