import math

import pytest
import torch
from dense import error, gradients
from pairwise import in_pairs

from longwave.layers import Attention, LinearAttention
from longwave.layers.linear_attention import EluFeatures, RandomFeatures

H = 8
feature_maps = pytest.mark.parametrize("feature_map", ["elu", "random"])
both_ways = pytest.mark.parametrize("bidirectional", [False, True], ids=["causal", "bidirectional"])


def make(feature_map, dtype=torch.float64, **options):
    torch.set_default_dtype(dtype)
    layer = LinearAttention(H, feature_map=feature_map, **{"heads": 2, "features": 24} | options)
    torch.set_default_dtype(torch.float32)
    return layer


def signal(batch=2, L=20, seed=1, dtype=torch.float64):
    return torch.randn(batch, L, H, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def quadratic(layer, u):
    """y by the full matrix of weights phi(q_i) . phi(k_j), each row divided by its sum."""
    q, k, v = layer.heads(u, 0)
    (q, _), (k, scale) = layer.feature_map(q), layer.feature_map(k)
    weights = q @ k.mT * (1 if scale is None else scale.exp().unsqueeze(-2))
    weights = weights if layer.bidirectional else weights.tril()
    return layer.heads.merge(weights / weights.sum(-1, keepdim=True) @ v)


@in_pairs(feature_map=["elu", "random"], bidirectional=[False, True], L=[1, 20, 128, 300])
def test_it_is_the_quadratic_formula(feature_map, bidirectional, L):
    layer, u = make(feature_map, bidirectional=bidirectional), signal(2, L).requires_grad_()
    assert error(layer(u)[0], quadratic(layer, u)) < 1e-12
    inputs = [u, *layer.parameters()]
    grads = gradients(layer(u)[0], inputs), gradients(quadratic(layer, u), inputs)
    for value, true in zip(*grads, strict=True):
        if true.abs().max() > 1e-12:  # one step's weights have nothing to decide
            assert error(value, true) < 1e-10


@feature_maps
@both_ways
def test_no_state_is_stored_for_each_step(feature_map, bidirectional):
    """What the backward pass keeps grows by the step, not by the step and the size of a state."""
    layer, sizes = make(feature_map, torch.float32, heads=1, features=8, bidirectional=bidirectional), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
        layer(torch.randn(1, 4096, H), need_state=False)
    assert max(sizes) <= 4096 * 3 * H  # queries, keys and values; the states would be three times that


@in_pairs(feature_map=["elu", "random"], bidirectional=[False, True], size=[1e-3, 1.0, 30.0, 1e3])
def test_float32_stays_finite_whatever_the_size_of_the_input(feature_map, bidirectional, size):
    layer = make(feature_map, torch.float32, bidirectional=bidirectional)
    u = (size * signal(2, 150, dtype=torch.float32)).requires_grad_()
    y, _ = layer(u)
    y.square().mean().backward()
    assert torch.isfinite(y).all()
    assert all(torch.isfinite(p.grad).all() for p in (u, *layer.parameters()))


@feature_maps
def test_large_keys_to_come_change_no_bit_of_what_was(feature_map):
    layer, u = make(feature_map, torch.float32), signal(2, 100, dtype=torch.float32)
    later = u.clone()
    later[:, 60:] *= 1e3
    assert torch.equal(layer(later)[0][:, :60], layer(u)[0][:, :60])


@feature_maps
def test_padding_does_not_drown_the_features_of_long_keys(feature_map):
    """exp(w . k - |k|^2 / 2) is tiny for a long key, beside which the zeros in the padding look large."""
    layer, u = make(feature_map), 100 * signal(2, 12)
    _, state = layer(u[:, :8], lengths=torch.tensor([5, 8]))
    expected, _ = layer(torch.cat((u[:1, :5], u[:1, 8:]), dim=1))
    assert error(layer(u[:, 8:], state)[0][0], expected[0, 5:]) < 1e-12


def test_elu_features_keep_their_digits_far_below_zero():
    """By elu(x) + 1 as it stands, exp(-18) would be 0 in float32; 1e-6 is added to every feature."""
    features, _ = EluFeatures()(torch.tensor([-18.0, -10.0, 0.0, 2.0]))
    expected = [math.exp(-18) + 1e-6, math.exp(-10) + 1e-6, 1.0, 3.0]
    torch.testing.assert_close(features, torch.tensor(expected), rtol=2e-6, atol=0)


# Random features


def test_directions_are_orthogonal_in_groups_and_as_long_as_gaussian_ones():
    W = RandomFeatures(16, 800).directions.double()
    for group in W.split(16):
        gram = group @ group.T
        assert (gram - torch.diag(torch.diagonal(gram))).abs().max() < 1e-4
    # |w|^2 is chi-square with 16 degrees: mean 16, variance 32; five standard deviations of the mean of 800
    assert W.square().sum(-1).mean() == pytest.approx(16, abs=5 * math.sqrt(32 / 800))
    assert RandomFeatures(16, 5).directions.shape == (5, 16)


def kernel_estimate(features, q, k):
    """phi(q) . phi(k) for each pair of rows."""
    (q, q_scale), (k, k_scale) = features(q), features(k)
    return (q * k).mean(-1) * (q_scale + k_scale).exp()


def test_the_kernel_is_estimated_without_bias_within_the_bound_of_its_variance():
    """For Gaussian w, the relative variance of the mean of m features is (exp(|q' + k'|^2) - 1) / m at most."""
    d, m, draws = 8, 64, 400
    generator = torch.Generator().manual_seed(0)
    q, k = (0.4 * torch.randn(50, d, generator=generator, dtype=torch.float64) for _ in range(2))
    torch.set_default_dtype(torch.float64)
    estimates = torch.stack([kernel_estimate(RandomFeatures(d, m), q, k) for _ in range(draws)])
    relative = estimates / ((q * k).sum(-1) / math.sqrt(d)).exp()
    variance = (((q + k).square().sum(-1) / math.sqrt(d)).exp() - 1) / m
    bias = (relative.mean(0) - 1).abs() / (variance / draws).sqrt()
    assert bias.max() < 4
    assert relative.var(0).mean() < variance.mean()


@both_ways
def test_more_features_come_closer_to_softmax_attention(bidirectional):
    """At 1 / sqrt(m): from 64 to 1,024 features the error falls by about 4, for queries and keys that are not long."""
    softmax = Attention(H, heads=2, bidirectional=bidirectional).double()
    u = 0.3 * signal(1, 24)
    truth, errors = softmax(u)[0], {}
    for m in (64, 1024):
        found = []
        for seed in range(16):
            torch.manual_seed(seed)
            layer = make("random", features=m, bidirectional=bidirectional)
            layer.heads.load_state_dict(softmax.heads.state_dict())
            found.append((layer(u)[0] - truth).square().mean())
        errors[m] = (torch.stack(found).mean() / truth.square().mean()).sqrt().item()
    assert errors[1024] < 4e-3
    assert 3 < errors[64] / errors[1024] < 5


def test_the_features_are_kept_with_the_weights_and_are_not_trained():
    layer = make("random")
    assert "feature_map.directions" in layer.state_dict()
    assert not any("directions" in name for name, _ in layer.named_parameters())


@pytest.mark.usefixtures("unchecked")
def test_settings_that_make_no_layer_are_refused():
    with pytest.raises(ValueError, match=r"^features: expected a whole number, at least 1, got 0$"):
        make("random", features=0)
    with pytest.raises(ValueError, match=r"^feature_map: expected one of elu, random, got 'relu'$"):
        make("relu")


def test_the_printed_layer_shows_its_settings():
    assert "d_model=8, bidirectional=False, features=24" in repr(make("random"))
