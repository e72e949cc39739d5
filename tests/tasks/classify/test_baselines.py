"""Baselines of classification, against definitions that are slow."""

import itertools

import numpy as np
import pytest
import torch
from pairwise import in_pairs

from longwave.tasks.classify import baselines as sequence_baselines
from longwave.tasks.classify.baselines import (
    BAND,
    ConvolutionClassifier,
    Examples,
    NearestNeighbour,
    dtw,
    fitted,
)
from longwave.tasks.classify.task import ClassifyConfig
from longwave.tasks.sequences.data import from_arrays


def sequences(n=6, L=20, channels=1, lengths=None, seed=0):
    x = torch.randn(n, L, channels, generator=torch.Generator().manual_seed(seed))
    lengths = torch.full((n,), L) if lengths is None else torch.tensor(lengths)
    x[torch.arange(L) >= lengths.unsqueeze(1)] = 0
    return Examples(x, lengths, torch.arange(n) % 2)


def slow_dtw(a, b, band):
    """Cell by cell, as it is defined."""
    L = len(a)
    cost = np.full((L, L), np.inf)
    for i, j in itertools.product(range(L), range(L)):
        if abs(i - j) <= band:
            before = [cost[p, q] for p, q in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) if p >= 0 and q >= 0]
            cost[i, j] = ((a[i] - b[j]) ** 2).sum() + (min(before) if before else 0)
    return cost[-1, -1]


@in_pairs(by="L", L=[1, 2, 7, 12], band=[1, 3, 20], channels=[1, 2])
def test_dtw_is_that_of_the_definition(L, band, channels):
    a, b = sequences(3, L, channels, seed=1).x, sequences(4, L, channels, seed=2).x
    truth = [[slow_dtw(x, y, band) for y in b.double().numpy()] for x in a.double().numpy()]
    torch.testing.assert_close(dtw(a, b, band), torch.tensor(truth, dtype=torch.float32), rtol=1e-5, atol=1e-5)


def test_the_nearest_neighbour_forgives_a_shift_and_plain_distance_does_not(monkeypatch):
    """A peak that comes two steps late, against a flat line that is nearer in plain distance."""
    peak = torch.zeros(3, 40, 1)
    peak[0, 20], peak[1, 22] = 5.0, 5.0
    train, new = (
        Examples(peak[[0, 2]], torch.full((2,), 40), torch.tensor([0, 1])),
        Examples(peak[1:2], torch.tensor([40]), torch.tensor([0])),
    )
    assert BAND * 40 > 2
    aligned = NearestNeighbour(train, 1)
    assert (aligned.name, aligned(new).tolist()) == ("1-NN (DTW)", [0])
    monkeypatch.setattr(sequence_baselines, "MOST_CELLS", 0)
    plain = NearestNeighbour(train, 1)
    assert (plain.name, plain(new).tolist()) == ("1-NN (Euclidean)", [1])


def test_sequences_of_other_lengths_are_stretched():
    line = torch.linspace(0, 1, 5).view(1, 5, 1)
    short = Examples(torch.cat((line[:, ::2], torch.zeros(1, 2, 1)), 1), torch.tensor([3]), torch.tensor([0]))
    torch.testing.assert_close(short.stretched(5), line)
    assert short.stretched(1).shape == (1, 1, 1)


def test_frequencies_are_told_apart_by_convolutions_and_not_by_the_prior():
    time = np.arange(60)
    generator = np.random.default_rng(0)
    x = [np.sin(time * (0.3 + 0.4 * (k % 2)) + generator.uniform(0, 6)) for k in range(60)]
    task = ClassifyConfig().on(from_arrays(np.array(x), [str(k % 2) for k in range(60)]))
    found = task.baselines()
    assert list(found) == ["class prior", "1-NN (DTW)", "random convolutions"]
    assert found["class prior"]["test"]["accuracy"] == 0.5
    assert found["random convolutions"]["test"]["accuracy"] == 1.0


def test_balanced_accuracy_is_the_mean_recall():
    task = ClassifyConfig(balance=True).on(from_arrays(np.zeros((40, 5)) + np.arange(5), ["a"] * 30 + ["b"] * 10))
    right = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    assert task.accuracies(*right) == {"accuracy": 0.75, "balanced_accuracy": pytest.approx((2 / 3 + 1) / 2)}


def test_of_many_examples_some_are_drawn_and_what_would_take_too_long_is_left_out(monkeypatch):
    task = ClassifyConfig().on(
        from_arrays(np.random.default_rng(0).normal(size=(40, 10)), [str(k % 2) for k in range(40)])
    )
    monkeypatch.setattr(sequence_baselines, "MOST_EXAMPLES", 8)
    nearest, convolutions = fitted(task.train, 5, 2)
    assert len(nearest.labels) == len(convolutions.labels) == 8
    monkeypatch.setattr(sequence_baselines, "MOST_COMPARISONS", 100)
    assert [type(classifier) for classifier in fitted(task.train, 5, 2)] == [NearestNeighbour]


def test_constant_sequences_break_nothing():
    data = Examples(torch.ones(6, 10, 1), torch.full((6,), 10), torch.arange(6) % 2)
    assert ConvolutionClassifier(data, 2)(data).shape == (6,)
