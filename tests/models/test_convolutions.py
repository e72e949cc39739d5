"""Random convolutions and the ridge regression on them, against definitions that are slow."""

import numpy as np
import pytest
import torch

from longwave.models import convolutions
from longwave.models.convolutions import KERNELS, RandomConvolutions, fit_ridge


def sequences(n=6, L=20, channels=1, lengths=None, seed=0):
    x = torch.randn(n, L, channels, generator=torch.Generator().manual_seed(seed))
    lengths = torch.full((n,), L) if lengths is None else torch.tensor(lengths)
    x[torch.arange(L) >= lengths.unsqueeze(1)] = 0
    return x, lengths


def started(n=4, L=30, channels=1, most=1000):
    """Convolutions that started from other sequences than a test looks at: a bias may be one of their outputs."""
    found = RandomConvolutions(channels, L, most)
    found.start(*sequences(n, L, channels, seed=9))
    return found


def test_features_are_those_of_the_definition():
    """Each output by an explicit kernel: weights 2 at three of nine taps, else -1."""
    x, _ = sequences(5, 30)
    found = started()
    assert found.dilations[0] == 1
    assert found.dilations[-1] * 8 <= 29
    features = found(x).unflatten(1, found.biases.shape)
    for d, k in ((0, 0), (len(found.dilations) - 1, 83), (0, 40)):
        weight = torch.full((1, 1, 9), -1.0)
        weight[0, 0, KERNELS[k]] = 2.0
        dilation = found.dilations[d]
        output = torch.nn.functional.conv1d(x.mT, weight, padding=4 * dilation, dilation=dilation)[:, 0]
        for b, bias in enumerate(found.biases[d, k]):
            torch.testing.assert_close(features[:, d, k, b], (output > bias).float().mean(1))


def test_a_convolution_sees_the_sum_of_its_channels():
    x, _ = sequences(5, 30, channels=3)
    found = started(channels=3)
    assert set(found.chosen.sum(-1).unique().tolist()) == {1, 2, 3}  # some see one, some all
    alone = RandomConvolutions(1, 30, 1000)
    alone.biases.copy_(found.biases)
    features = found(x).unflatten(1, found.biases.shape)
    d, k = (int(i) for i in (found.chosen.sum(-1) == 2).nonzero()[0])
    summed = (x * found.chosen[d, k]).sum(-1, keepdim=True)
    torch.testing.assert_close(features[:, d, k], alone(summed).unflatten(1, found.biases.shape)[:, d, k])


def test_features_are_the_same_to_the_bit_in_every_batch(monkeypatch):
    x, lengths = sequences(7, 30, 2, lengths=[30, 12, 7, 21, 30, 1, 29])
    found = started(channels=2)
    whole = found(x, lengths)
    assert torch.equal(whole, torch.cat([found(x[k : k + 1], lengths[k : k + 1]) for k in range(7)]))
    assert torch.equal(whole[1], found(x[1:2, :12])[0])  # and without padding
    x[1, 12:] = torch.nan
    assert torch.equal(whole[1], found(x, lengths)[1])  # or whatever it is
    x[1, 12:] = 0
    monkeypatch.setattr(convolutions, "TOGETHER", 84 * 30 * 3)
    assert torch.equal(whole, found(x, lengths))


@pytest.mark.parametrize("L", [1, 2, 9])
def test_short_sequences_have_features(L):
    x, _ = sequences(4, L)
    features = started(L=L)(x)
    assert torch.isfinite(features).all()
    assert features.shape[1] >= 84


def slow_left_out(x, y, penalty):
    """Each example by a ridge regression with an intercept that is solved without it."""
    found = []
    for i in range(len(x)):
        keep = [j for j in range(len(x)) if j != i]
        mean, offset = x[keep].mean(0), y[keep].mean(0)
        X = x[keep] - mean
        gram = X.T @ X + penalty * torch.eye(x.shape[1], dtype=x.dtype)
        found.append((x[i] - mean) @ torch.linalg.solve(gram, X.T @ (y[keep] - offset)) + offset)
    return torch.stack(found)


@pytest.mark.parametrize(("n", "features"), [(12, 5), (10, 40)])
def test_the_penalty_is_the_one_with_the_least_error_when_each_example_is_left_out(n, features):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, features, generator=generator, dtype=torch.float64)
    y = x[:, :2] + 0.5 * torch.randn(n, 2, generator=generator, dtype=torch.float64)
    x = (x - x.mean(0)) / x.std(0, correction=0)
    penalties = convolutions.PENALTIES * features
    left_out = [slow_left_out(x, y, penalty) for penalty in penalties]
    errors = [float((found - y).square().mean()) for found in left_out]
    best = int(np.argmin(errors))
    assert 0 < best < len(errors) - 1  # else any rule would have found it
    ridge = fit_ridge(x, y)
    torch.testing.assert_close(ridge.left_out, left_out[best])
    gram = x.T @ x + penalties[best] * torch.eye(features, dtype=torch.float64)
    weight = torch.linalg.solve(gram, x.T @ (y - y.mean(0)))
    torch.testing.assert_close(ridge(x), x @ weight + y.mean(0))


def test_labels_at_random_are_not_predicted_when_left_out():
    """With more features than examples, centred rows give each other away unless the intercept is fitted anew."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 400, generator=generator, dtype=torch.float64)
    y = torch.arange(40) % 2
    targets = 2 * torch.nn.functional.one_hot(y, 2).double() - 1
    right = (fit_ridge(x, targets).left_out.argmax(1) == y).double().mean()
    assert right < 0.7


def test_constant_features_break_nothing():
    ridge = fit_ridge(torch.ones(6, 4), torch.eye(2, dtype=torch.float64).repeat(3, 1))
    torch.testing.assert_close(ridge(torch.ones(1, 4)), torch.full((1, 2), 0.5, dtype=torch.float64))
    assert torch.isfinite(ridge.left_out).all()


def test_a_weight_of_two_equals_a_row_given_twice():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(24, 60, generator=generator)
    targets = 2 * torch.nn.functional.one_hot(torch.arange(24) % 3, 3).double() - 1
    counts = torch.randint(1, 4, (24,), generator=generator)
    weighted = fit_ridge(x, targets, counts)
    repeated = fit_ridge(x.repeat_interleave(counts, 0), targets.repeat_interleave(counts, 0))
    torch.testing.assert_close(weighted.weight, repeated.weight, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(weighted.offset, repeated.offset, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(weighted.left_out.repeat_interleave(counts, 0), repeated.left_out, rtol=1e-8, atol=1e-9)
    assert (weighted.weight != fit_ridge(x, targets).weight).any()
