"""Sequences at other sampling rates: what is dropped or made between, and what is drawn in training."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from image_files import write_mnist

import longwave
from longwave import runs
from longwave.experiments import EXPERIMENTS
from longwave.layers import S4Config
from longwave.models import SequenceConfig, SequenceModel
from longwave.tasks.base import call
from longwave.tasks.classify import task as classification
from longwave.tasks.images.task import ImageConfig
from longwave.tasks.rates import AtDrawnRates, AtRate, ratio, sampled
from longwave.tasks.sequences.data import from_arrays
from longwave.tasks.tag import task as tagging
from longwave.train.folder import RunFolder
from longwave.train.loop import Interrupted, Run

RATES = (0.5, 1.0, 2.0)


def tones(count=30, length=64, unequal=False):
    """Sines of a low and of a high frequency."""
    draw = np.random.default_rng(0)
    labels = ["low" if k % 2 else "high" for k in range(count)]
    x = []
    for label in labels:
        steps = np.arange(length - (int(draw.integers(9)) if unequal else 0))
        x.append(np.sin(steps * (0.2 if label == "low" else 0.5) + draw.uniform(0, 6)))
    return x, labels


def make_task(unequal=False, rates=()):
    return classification.ClassifyConfig(rates=rates).on(from_arrays(*tones(unequal=unequal)))


def test_a_whole_rate_keeps_every_so_many_samples():
    x = torch.arange(7.0).reshape(1, 7, 1)
    assert sampled(x, None, Fraction(3))[0].flatten().tolist() == [0, 3, 6]
    x, lengths = sampled(x.repeat(3, 1, 1), torch.tensor([7, 6, 1]), Fraction(2))
    assert lengths.tolist() == [4, 3, 1]
    assert x.shape == (3, 4, 1)


@given(
    rate=st.sampled_from([0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 0.4]),
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    antialias=st.booleans(),
)
@settings(max_examples=40)
def test_lengths_are_those_of_the_new_rate_and_padding_is_no_signal(rate, lengths, antialias):
    x = torch.randn(len(lengths), max(lengths), 2)
    count = torch.tensor(lengths)
    y, short = sampled(x, count, ratio(rate), antialias)
    assert short.tolist() == [math.ceil(length / ratio(rate)) for length in lengths]
    assert y.shape == (len(lengths), int(short.max()), 2)
    for row, length, new in zip(range(len(x)), lengths, short.tolist(), strict=True):
        alone, _ = sampled(x[row : row + 1, :length], None, ratio(rate), antialias)
        torch.testing.assert_close(y[row, :new], alone[0])
        assert rate == 1 or not y[row, new:].any() or rate == int(rate)


def test_finer_samples_lie_on_the_curve_and_a_level_stays_where_it_is():
    """To 2 %, in the middle of a sine of 16 samples a period: the ripple of scipy's filter."""
    time = torch.arange(200.0)
    x = torch.sin(time * 2 * math.pi / 16).reshape(1, -1, 1)
    fine, _ = sampled(x, None, Fraction(1, 2))
    expected = torch.sin(torch.arange(400.0) / 2 * 2 * math.pi / 16)
    torch.testing.assert_close(fine[0, 50:350, 0], expected[50:350], rtol=0, atol=0.02)
    level = torch.full((1, 9, 1), 3.0)
    for rate in (Fraction(1, 3), Fraction(3, 2)):
        expected = torch.full((1, math.ceil(9 / rate), 1), 3.0)
        torch.testing.assert_close(sampled(level, None, rate)[0], expected, rtol=2e-3, atol=0)


def test_dropping_folds_a_high_tone_down_and_the_filter_removes_it():
    x = torch.sin(torch.arange(400.0) * 2.8).reshape(1, -1, 1)  # above half of the new frequency, which is pi / 2
    dropped, _ = sampled(x, None, Fraction(2))
    filtered, _ = sampled(x, None, Fraction(2), antialias=True)
    assert dropped[0, 50:150].std() > 0.6
    assert filtered[0, 50:150].std() < 0.02


def test_the_model_is_told_of_the_rate():
    task = make_task(unequal=True)
    model = SequenceModel(d_model=8, n_layers=1, input_size=1, output_size=2, mixer=S4Config(d_state=4)).eval()
    batch = task.at_rate(task.test, 2.0).batch([0, 1])
    assert set(batch) == {"x", "y", "lengths", "rate"}
    plain = task.test.batch([0, 1])
    expected = model(plain["x"][:, ::2], lengths=(plain["lengths"] + 1) // 2, rate=2.0)[0]
    torch.testing.assert_close(call(model, batch), expected)
    assert task.at_rate(task.test, 2.0).lengths is task.test.lengths


def test_what_has_no_sampling_rate_is_refused_with_the_reason(own_folder):
    tags = tagging.TagConfig().on(from_arrays([np.arange(9.0)] * 6, [["a", "b", "a"] * 3] * 6, target_kind="tags"))
    with pytest.raises(ValueError, match=r"^rate: the sampling rate of tag cannot be changed"):
        tags.at_rate(tags.test, 2)
    write_mnist(own_folder / "data", train=30, test=10)
    pmnist = ImageConfig(data="pmnist").build()
    with pytest.raises(ValueError, match="the pixels of pmnist are in a random order"):
        pmnist.at_rate(pmnist.test, 2)
    smnist = ImageConfig(data="smnist", rates=(2.0,), augment=True).build()
    assert smnist.at_rate(smnist.test, 2).batch([0])["x"].shape == (1, 392, 1)
    assert smnist.train_at(0, 0).batch([0])["x"].shape == (1, 392, 1)
    with pytest.raises(ValueError, match=r"^rates: the pixels of pmnist"):
        ImageConfig(data="pmnist", rates=(2.0,))
    with pytest.raises(ValueError, match=r"^rate: expected a number from 1/64 to 64 .*, got 0"):
        smnist.at_rate(smnist.test, 0)
    with pytest.raises(ValueError, match=r"^rates: expected a number from 1/64 to 64 .*, got -1"):
        classification.ClassifyConfig(rates=(1.0, -1.0))


# Training at several rates


def test_every_batch_has_one_rate_that_follows_from_seed_epoch_and_batch_alone():
    task = make_task(rates=RATES)
    split = task.train_at(3, 1)
    batches = [list(range(start, start + 4)) for start in range(0, 20, 4)]
    drawn = [split.rate(batch) for batch in batches]
    assert drawn == [AtDrawnRates(task.train, RATES, 3, 1).rate(batch) for batch in batches]
    assert drawn != [task.train_at(4, 1).rate(batch) for batch in batches]
    assert drawn != [task.train_at(3, 2).rate(batch) for batch in batches]
    many = [float(split.rate([k])) for k in range(300)]
    assert all(60 < many.count(rate) < 140 for rate in RATES)
    for batch, rate in zip(batches, drawn, strict=True):
        parts = [split.batch_within(batch[rank::2], batch) for rank in (0, 1)]  # of two processes
        whole = split.batch(batch)
        assert whole["rate"].tolist() == [float(rate)] * 4
        assert torch.equal(torch.cat([part["x"] for part in parts]), torch.cat([whole["x"][0::2], whole["x"][1::2]]))
        assert torch.equal(whole["x"], AtRate(task.train, rate).batch(batch)["x"])


def experiment(**changes):
    settings = EXPERIMENTS["classify"]
    mixer = S4Config(d_state=4)
    return dataclasses.replace(
        settings,
        task=dataclasses.replace(settings.task, rates=RATES),
        model=SequenceConfig(d_model=8, n_layers=1, mixer=mixer, dropout=0.2),
        loop=dataclasses.replace(settings.loop, epochs=2, batch_size=4),
        **changes,
    )


@pytest.mark.usefixtures("own_folder", "_few_features", "_pages_are_not_rendered")
def test_a_run_at_several_rates_resumes_to_the_bit(monkeypatch):
    seen = []
    step = Run.step

    def watched(run, batch, is_ours=True):
        seen.append((float(batch["rate"][0]), batch["x"].shape[1]))
        if len(seen) == stop:
            run._interrupted = True
        return step(run, batch, is_ours)

    monkeypatch.setattr(Run, "step", watched)
    stop = -1
    longwave.train_classifier(*tones(), "whole", experiment=experiment(), quiet=True, device="cpu")
    assert {rate for rate, _ in seen} == set(RATES)
    assert all(length == 64 / rate for rate, length in seen)
    truth, seen[:] = list(seen), []
    stop = 4
    with pytest.raises(Interrupted):
        longwave.train_classifier(*tones(), "cut", experiment=experiment(), quiet=True, device="cpu")
    runs.resume("cut", quiet=True, device="cpu")
    assert seen == truth
    for name, weights in RunFolder.open("whole").load_best().state_dict().items():
        assert torch.equal(weights, RunFolder.open("cut").load_best().state_dict()[name])


@pytest.mark.usefixtures("own_folder")
def test_a_model_without_a_time_between_steps_is_not_trained_at_several_rates():
    with pytest.raises(
        ValueError, match=r"^rates: the model of classify \(S4 \+ random convolutions\) has no notion of the time"
    ):
        longwave.train_classifier(
            *tones(), "run", experiment=dataclasses.replace(experiment(), model=EXPERIMENTS["classify"].model)
        )
    with pytest.raises(ValueError, match=r"^rates: the model of classify \(LSTM\) has no notion"):
        longwave.train_classifier(
            *tones(), "run", experiment=dataclasses.replace(experiment(), model=SequenceConfig.by_keyword(mixer="lstm"))
        )
