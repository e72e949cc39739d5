"""Adaptive embedding and softmax: one distribution over all words, tied ends, and a loss that works out few logits."""

import copy
import math

import pytest
import torch
from mixer_settings import sequence_config
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from longwave.models import SequenceModel, adaptive
from longwave.models.adaptive import NO_TOKEN, AdaptiveEmbedding, AdaptiveSoftmax

VOCABULARY, CUTOFFS, D = 50, (10, 20, 40), 64
EDGES = [0, 9, 10, 19, 20, 39, 40, 49]  # first and last word of each bin
CLOSE = 1e-12  # measured 2e-15 in float64


@pytest.fixture(autouse=True)
def _in_float64():
    torch.set_default_dtype(torch.float64)


def make(dropout=0.0):
    """Both ends, with values that no part could do without."""
    embedding = AdaptiveEmbedding(VOCABULARY, D, CUTOFFS, dropout)
    softmax = AdaptiveSoftmax(embedding, dropout)
    with torch.no_grad():
        for p in softmax.parameters():
            p.normal_(std=0.3)
    return embedding, softmax


def gradients(loss, *sources):
    """Of tensors, or of the parameters of modules; 0 where there is none."""
    tensors = [t for source in sources for t in ([source] if isinstance(source, torch.Tensor) else source.parameters())]
    return torch.autograd.grad(loss, tensors, retain_graph=True, materialize_grads=True)


def close(value, truth):
    torch.testing.assert_close(value, truth, rtol=CLOSE, atol=CLOSE)


def test_a_word_is_the_projection_of_its_own_vector():
    """Word by word, at the edges of the bins and in any order and shape."""
    embedding, _ = make()
    tokens = torch.tensor([EDGES, EDGES[::-1]])
    found = embedding(tokens)
    assert found.shape == (2, 8, D)
    for place, token in ((place, int(tokens[place])) for place in [(0, k) for k in range(8)] + [(1, 3)]):
        i = sum(token >= cutoff for cutoff in CUTOFFS)
        vector = embedding.vectors[i][token - (0, *CUTOFFS)[i]]
        assert len(vector) == D // 4**i
        close(found[place], math.sqrt(D) * embedding.projections[i] @ vector)
    assert embedding(tokens[0, 0]).shape == (D,)


def test_the_bins_of_wikitext_103_begin_at_its_cutoffs():
    """At every edge of the paper's model, with fewer features."""
    cutoffs, edges = (19_997, 39_997, 199_997), [0, 19_996, 19_997, 39_996, 39_997, 199_996, 199_997, 267_734]
    embedding = AdaptiveEmbedding(267_735, 64, cutoffs)
    assert embedding.sizes == [19_997, 20_000, 160_000, 67_738]
    assert embedding.bins(torch.tensor(edges)).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    with torch.no_grad():
        for found, (i, row) in zip(
            embedding(torch.tensor(edges)), [(i, row) for i in range(4) for row in (0, -1)], strict=True
        ):
            close(found, 8 * embedding.projections[i] @ embedding.vectors[i][row])


@pytest.mark.parametrize("token", [-1, VOCABULARY])
def test_a_token_outside_the_vocabulary_is_refused(token):
    with pytest.raises(IndexError, match="out of range"):
        make()[0](torch.tensor([token]))


def test_probabilities_sum_to_1():
    _, softmax = make()
    chances = softmax(torch.randn(2, 3, D))[0].exp()
    assert chances.shape == (2, 3, VOCABULARY)
    close(chances.sum(-1), torch.ones(2, 3))


def test_values_copied_into_torch_s_own_give_the_same():
    """torch.nn.AdaptiveLogSoftmaxWithLoss has no projection for the first bin, no biases of words, and is not tied."""
    embedding, softmax = make()
    theirs = nn.AdaptiveLogSoftmaxWithLoss(D, VOCABULARY, list(CUTOFFS), div_value=4, head_bias=True)
    with torch.no_grad():
        softmax.projection.copy_(torch.eye(D))
        for bias in softmax.biases:
            bias.zero_()
        theirs.head.weight.copy_(torch.cat((embedding.vectors[0], softmax.clusters.weight)))
        theirs.head.bias.copy_(torch.cat((softmax.biases[0], softmax.clusters.bias)))
        for i, tail in enumerate(theirs.tail, 1):
            tail[0].weight.copy_(embedding.projections[i].T)
            tail[1].weight.copy_(embedding.vectors[i])
    x, y = torch.randn(40, D), torch.randint(VOCABULARY, (40,))
    close(softmax(x)[0], theirs.log_prob(x))
    output, loss = theirs(x, y)
    close(softmax.nll(x, y), -output)
    close(softmax.nll(x, y).mean(), loss)


def test_the_loss_is_that_of_the_log_probabilities():
    """Values and gradients, at the edges of the bins, with and without words that do not count."""
    embedding, softmax = make()
    x, y = torch.randn(2, 8, D, requires_grad=True), torch.tensor([EDGES, EDGES[::-1]])
    y[1, 2:5] = NO_TOKEN
    known = y != NO_TOKEN
    truth = -softmax(x)[0].gather(-1, y.clamp(min=0).unsqueeze(-1)).squeeze(-1) * known
    found = softmax.nll(x, y)
    close(found, truth)
    weights = torch.rand(2, 8)
    close(
        gradients((found * weights).sum(), x, embedding, softmax),
        gradients((truth * weights).sum(), x, embedding, softmax),
    )


@pytest.mark.parametrize("bound", [1, 7 * 13, 10_000])  # bin 0 has ten words and three clusters, a tail at most 20
def test_in_parts_the_loss_and_its_gradients_are_the_same(bound, monkeypatch):
    embedding, softmax = make()
    x, y = torch.randn(16, D, requires_grad=True), torch.randint(VOCABULARY, (16,))
    whole = softmax.nll(x, y)
    truth = gradients(whole.sum(), x, embedding, softmax)
    monkeypatch.setattr(adaptive, "LOGITS_AT_ONCE", bound)
    sizes = spied(monkeypatch)
    parts = softmax.nll(x, y)
    forward = len(sizes)
    assert max(sizes) <= max(bound, 20)  # a row of a tail at the least
    close(parts, whole)
    close(gradients(parts.sum(), x, embedding, softmax), truth)
    assert len(sizes) == forward * (1 if bound == 10_000 else 2)  # worked out again, unless all fit at once


def spied(monkeypatch):
    """The number of logits of each matrix of them, as they are worked out."""
    sizes, wide = [], adaptive.wide
    monkeypatch.setattr(adaptive, "wide", lambda logits: sizes.append(logits.numel()) or wide(logits))
    return sizes


class Largest(TorchDispatchMode):
    """Numbers of the largest tensor that was made, in the forward and in the backward pass."""

    numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        made = function(*arguments, **(options or {}))
        tensors = [t for t in torch.utils._pytree.tree_leaves(made) if isinstance(t, torch.Tensor)]
        self.numbers = max([self.numbers, *(t.numel() for t in tensors)])
        return made


@pytest.mark.parametrize("words", [(20, 1000), (0, 1000)], ids=["of the last tail", "of all bins"])
def test_no_matrix_of_the_loss_is_larger_than_the_bound_whichever_bins_the_targets_are_in(words, monkeypatch):
    """The last tail has 80 times as many words as bin 0 with its clusters has logits."""
    bound, tokens = 4000, 60  # more numbers than the input has, and each parameter
    embedding = AdaptiveEmbedding(1000, 16, (10, 20))
    softmax = AdaptiveSoftmax(embedding)
    x, y = torch.randn(tokens, 16, requires_grad=True), torch.randint(*words, (tokens,))
    truth = softmax.nll(x, y)
    slopes = gradients(truth.sum(), x, embedding, softmax)
    monkeypatch.setattr(adaptive, "LOGITS_AT_ONCE", bound)
    with Largest() as largest:
        found = softmax.nll(x, y)
        again = gradients(found.sum(), x, embedding, softmax)
    assert 0.5 * bound < largest.numbers <= bound
    close(found, truth)
    close(again, slopes)
    with Largest() as largest, torch.no_grad():
        close(softmax.nll(x, y), truth)
    assert largest.numbers <= bound


def test_in_parts_the_backward_pass_drops_what_the_forward_pass_dropped(monkeypatch):
    """Else the gradient would not be that of the loss, which the same seed makes a function of x."""
    _, softmax = make(dropout=0.5)
    monkeypatch.setattr(adaptive, "LOGITS_AT_ONCE", 4 * 13)
    x, y = torch.randn(12, D, requires_grad=True), torch.zeros(12, dtype=torch.long)
    torch.manual_seed(3)
    loss = softmax.nll(x, y).sum()
    (slope,) = torch.autograd.grad(loss, x)
    step, direction = 1e-6, torch.randn(12, D)
    torch.manual_seed(3)
    moved = softmax.nll(x + step * direction, y).sum()
    assert float(((moved - loss) / step).detach()) == pytest.approx(float((slope * direction).sum()), rel=1e-4)


def test_a_bin_without_targets_has_a_gradient_of_zero():
    """And not none: processes that train together must agree on what has one."""
    embedding, softmax = make()
    tokens = torch.tensor([3, 9, 12])
    loss = softmax.nll(embedding(tokens), tokens).sum()
    parameters = [*embedding.parameters(), *softmax.parameters()]
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    assert all(g is not None and g.isfinite().all() for g in found)
    names = [name for module in (embedding, softmax) for name, _ in module.named_parameters()]
    still = {name for name, g in zip(names, found, strict=True) if not g.any()}
    assert still == {f"{part}.{i}" for part in ("vectors", "projections", "biases") for i in (2, 3)}


def test_without_any_word_there_is_no_loss_and_a_gradient_of_zero():
    embedding, softmax = make()
    found = softmax.nll(embedding(torch.zeros(2, 3, dtype=torch.long)), torch.full((2, 3), NO_TOKEN))
    assert torch.equal(found, torch.zeros(2, 3))
    assert not any(g.any() for g in gradients(found.sum(), embedding, softmax))


def test_tied_matrices_are_one_tensor_with_gradients_from_both_ends():
    """The gradient of a model is the sum of those of its two ends with matrices of their own."""
    embedding, softmax = make()
    other = copy.deepcopy(embedding)
    untied = copy.deepcopy(softmax)
    untied._shared = (other,)
    tokens, y = torch.tensor(EDGES), torch.tensor(EDGES[::-1])
    tied = gradients(softmax.nll(embedding(tokens), y).sum(), embedding)
    apart = untied.nll(embedding(tokens), y).sum()
    for both, first, last in zip(tied, gradients(apart, embedding), gradients(apart, other), strict=True):
        close(both, first + last)
    assert [name for name, _ in softmax.named_parameters() if name.startswith(("vectors", "projections"))] == []


def test_a_copy_of_a_model_shares_with_itself_alone():
    model = SequenceModel(sequence_config(d_model=16, n_layers=1, **HEAD))
    twin = copy.deepcopy(model)
    assert twin.decoder.embedding is twin.encoder.values
    assert twin.decoder.embedding is not model.encoder.values


HEAD = {"decoder": "sequence", "vocabulary": VOCABULARY, "output_size": VOCABULARY, "cutoffs": (10, 30)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cutoffs": (10, 10)}, r"cutoffs: expected rising numbers between 0 and the vocabulary of 50, got \(10, 10\)"),
        ({"cutoffs": (50,)}, "cutoffs: expected rising numbers"),
        ({"cutoffs": (0, 3)}, "cutoffs: expected rising numbers"),
        ({"cutoffs": (5, 10, 20)}, r"cutoffs: 3 of them need at least 64 features \(d_model\), got 16"),
        ({"decoder": "mean"}, "cutoffs: .* expected decoder sequence, .* got decoder mean, 50 tokens and 50 outputs"),
        ({"output_size": 3}, "cutoffs: .* 50 tokens and 3 outputs"),
        ({"vocabulary": 0}, "cutoffs: .* 0 tokens and 50 outputs"),
    ],
)
def test_cut_offs_that_make_no_bins_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        SequenceModel(sequence_config(**{"d_model": 16, "n_layers": 1, **HEAD, **change}))


def test_both_ends_drop_in_training_and_nothing_in_evaluation():
    """A quarter of the vectors' numbers, and a quarter of what the softmax projects to."""
    embedding, softmax = make(dropout=0.25)
    seen = []
    for module in (embedding, softmax):
        module.dropout.register_forward_hook(lambda module, args, out: seen.append((out == 0).double().mean()))
    tokens = torch.randint(VOCABULARY, (4000,))
    for training, share in ((True, 0.25), (False, 0.0)):
        seen.clear()
        embedding.train(training)
        softmax.train(training)
        embedding(tokens)
        softmax.nll(torch.randn(4000, D), tokens)
        assert len(seen) == 8  # four bins at each end
        assert [float(zeros) for zeros in seen] == pytest.approx([share] * 8, abs=0.06 * bool(share))


def test_the_start_is_a_uniform_choice_of_the_first_bin_but_for_small_biases():
    """U and the clusters start at 0, as the authors', and learn: their gradient is not 0."""
    embedding = AdaptiveEmbedding(VOCABULARY, D, CUTOFFS)
    softmax = AdaptiveSoftmax(embedding)
    x, y = torch.randn(30, D), torch.randint(10, (30,))
    assert float(softmax.nll(x, y).mean().detach()) == pytest.approx(math.log(13), abs=0.2)
    (slope,) = gradients(softmax.nll(x, y).sum(), softmax.projection)
    assert slope.abs().max() > 0.1
    for vectors, width in zip(embedding.vectors, (64, 16, 4, 1), strict=True):
        assert vectors.std().item() == pytest.approx(0.5 / math.sqrt(width), rel=0.5)
