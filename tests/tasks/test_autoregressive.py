"""Next-token prediction: windows that hold every token once, and scores that do not depend on how they are cut."""

import json
import math

import numpy as np
import pytest
import torch
from constant_model import mean_loss, scores
from hypothesis import given
from hypothesis import strategies as st

from longwave.layers import MIXERS
from longwave.models import SequenceConfig, SequenceModel
from longwave.tasks.autoregressive import PADDING, START, AutoregressiveTask, TokenWindows

SIZE = 6


def make_task(tokens: int = 23, length: int = 5) -> AutoregressiveTask:
    generator = np.random.default_rng(0)
    parts = {part: generator.integers(0, SIZE, tokens, dtype=np.uint8) for part in ("train", "valid", "test")}
    windows = {part: TokenWindows(values, length) for part, values in parts.items()}
    return AutoregressiveTask(name="dice", **windows, vocabulary=SIZE, unit="throw")


def make_model(mixer="s4", **settings) -> SequenceModel:
    mixed = MIXERS[mixer](**settings)
    config = SequenceConfig(d_model=4, n_layers=1, mixer=mixed, decoder="sequence", vocabulary=SIZE, output_size=SIZE)
    return SequenceModel(config).double().eval()


def mean_scores(task, model, split, size):
    """As the training loop takes them."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    with torch.no_grad():
        for start in range(0, len(split), size):
            batch = split.batch(range(start, min(start + size, len(split))))
            sums = task.outcome(model, batch).scores["loss"]
            total, count = total + sums[0], count + sums[1]
    return task.reported({"loss": float(total / count)}), count


@given(tokens=st.integers(1, 40), length=st.integers(1, 12), start=st.integers(0, 5))
def test_windows_hold_every_token_once_and_show_only_those_before_it(tokens, length, start):
    values = np.arange(1, tokens + start + 1)
    windows = TokenWindows(values, length, start=start)
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


@pytest.mark.parametrize(("mixer", "settings"), [("s4", {"d_state": 4}), ("attention", {"heads": 2})])
def test_scores_are_exact_whatever_the_batches_and_the_padding(mixer, settings):
    """Beside the sum over windows one at a time, the last of them as short as it is."""
    task = make_task()
    model = make_model(mixer, **settings)
    losses = []
    for k in range(0, 23, 5):
        window = torch.from_numpy(task.test.tokens[k : k + 5]).long()
        x = torch.cat((torch.tensor([START]), window[:-1]))
        with torch.no_grad():
            chances = model(x[None])[0][0].log_softmax(-1)
        losses += [-float(row[token]) for row, token in zip(chances, window, strict=True)]
    for size in (1, 2, 5, 9):
        means, count = mean_scores(task, model, task.test, size)
        assert count == len(losses) == 23
        assert means["loss"] == pytest.approx(sum(losses) / 23, rel=1e-12)
        assert means["bits_per_throw"] == pytest.approx(sum(losses) / 23 / math.log(2), rel=1e-12)


def test_a_model_that_knows_nothing_needs_the_bits_of_the_vocabulary():
    task = make_task()
    batch = task.test.batch(range(3))
    output = torch.zeros(3, 5, SIZE)
    assert float(mean_loss(task, output, batch)) == pytest.approx(math.log(SIZE))
    total, count = scores(task, output, batch)["loss"]
    assert task.reported({"loss": float(total / count)})["bits_per_throw"] == pytest.approx(math.log2(SIZE))


def test_the_loss_is_the_mean_over_tokens_that_are_there():
    task = make_task()
    batch, output = task.test.batch([3, 4]), torch.randn(2, 5, SIZE)
    total, count = scores(task, output, batch)["loss"]
    assert count == task.count(batch) == 8  # 5 and the last 3
    assert float(mean_loss(task, output, batch)) == pytest.approx(float(total / count), rel=1e-6)


def test_the_unigram_baseline_is_scored_as_by_hand():
    task = make_task()
    train, test = task.train.tokens.tolist(), task.test.tokens.tolist()
    losses = [-math.log((train.count(token) + 1) / (len(train) + SIZE)) for token in test]
    unigram = task.baselines()["unigram"]
    assert unigram["test"]["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-12)
    assert set(unigram) == {"valid", "test"}


def test_an_output_of_another_shape_is_refused():
    task = make_task()
    batch = task.test.batch([0, 1])
    for shape in ((2, SIZE), (2, 5, SIZE + 1)):
        with pytest.raises(ValueError, match=r"output: expected \(2, 5, 6\), a logit per token at each step, got"):
            mean_loss(task, torch.zeros(shape), batch)


def test_a_model_must_be_causal_with_a_logit_for_each_token_at_every_step():
    spec = make_task().spec
    assert (spec.vocabulary, spec.output_size, spec.length, spec.decoders) == (SIZE, SIZE, 5, ("sequence",))
    assert spec.is_causal


def test_a_digest_knows_the_tokens_again():
    task, other = make_task(), make_task(tokens=24)
    assert task.fingerprint == make_task().fingerprint
    assert task.fingerprint["digest"] != other.fingerprint["digest"]


def test_facts_for_the_report_are_plain_values():
    facts = make_task().describe()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["tokens"] == {"train": 23, "valid": 23, "test": 23}
    assert facts["examples"] == {"train": 5, "valid": 5, "test": 5}
