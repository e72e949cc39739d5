"""Adaptive embedding and softmax for large vocabularies: rare words have shorter vectors, and few logits are computed.

Words are numbered by falling frequency and cut into bins (Baevski and Auli 2019; Grave et al. 2017). Bin i has vectors
E_i of d_model / FACTOR^i numbers, and a matrix W_i that widens them to d_model features. The softmax is over the words
of bin 0 and one cluster for each other bin, the tails; the words of a tail have a softmax of their own within it:

    p(w) = p(w | bin 0 and clusters)                          for a word of bin 0
    p(w) = p(cluster i | bin 0 and clusters) p(w | tail i)    for one of tail i

E_i and W_i of the tails are those of the input, and so is E_0; bin 0 has a projection U of its own in the softmax.
"""

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

FACTOR = 4  # by which the vectors of a bin are shorter than those of the bin before
NO_TOKEN = -100  # what a target is where there is none, as for torch's cross-entropy
Product = Callable[[Tensor, Tensor | None], Callable[[Tensor], Tensor]]  # of a weight and a bias: a linear layer
LOGITS_AT_ONCE = 2**24  # of any bin, for the loss: 64 MB in float32


def check_cutoffs(cutoffs: Sequence[int], vocabulary: int, d_model: int) -> None:
    """Refuse cutoffs that do not divide the vocabulary into bins, and more bins than the features allow."""
    edges = [0, *cutoffs, vocabulary]
    if any(low >= high for low, high in itertools.pairwise(edges)):
        raise ValueError(
            f"cutoffs: expected rising numbers between 0 and the vocabulary of {vocabulary:,}, got {tuple(cutoffs)}"
        )
    if d_model < FACTOR ** len(cutoffs):
        raise ValueError(
            f"cutoffs: {len(cutoffs)} of them need at least {FACTOR ** len(cutoffs)} features (d_model), got {d_model}"
        )


class AdaptiveEmbedding(nn.Module):
    """Tokens (...) to features (..., d_model): sqrt(d_model) W_i dropout(E_i[token]) for a token of bin i."""

    def __init__(self, vocabulary: int, d_model: int, cutoffs: Sequence[int], dropout: float = 0.0) -> None:
        super().__init__()
        check_cutoffs(cutoffs, vocabulary, d_model)
        self.starts = (0, *cutoffs)  # the first word of each bin
        self.sizes = [high - low for low, high in zip(self.starts, (*cutoffs, vocabulary), strict=True)]
        self.d_model = d_model
        widths = [d_model // FACTOR**i for i in range(len(self.starts))]
        self.vectors = nn.ParameterList(
            torch.randn(size, width) * (0.5 / math.sqrt(width)) for size, width in zip(self.sizes, widths, strict=True)
        )
        self.projections = nn.ParameterList(
            torch.randn(d_model, width) * (0.5 / math.sqrt(d_model)) for width in widths
        )
        self.dropout = nn.Dropout(dropout)

    @property
    def weight(self) -> Tensor:
        """The vectors of the commonest words."""
        return self.vectors[0]

    def bins(self, tokens: Tensor) -> Tensor:
        """The bin of each token."""
        found = torch.zeros_like(tokens)
        for edge in self.starts[1:]:
            found += tokens >= edge
        return found

    def forward(self, tokens: Tensor) -> Tensor:
        """The features of each token."""
        flat = tokens.flatten()
        if len(flat) == 1 and not torch.is_grad_enabled() and not torch.compiler.is_compiling():  # a step of one row
            return self._features(bisect_right(self.starts, int(flat)) - 1, flat).view(*tokens.shape, self.d_model)
        rows = rows_of(self.bins(flat), len(self.starts))
        # Bins without tokens take part: every parameter then has a gradient, as data-parallel training wants.
        parts = [self._features(i, flat[k]) for i, k in enumerate(rows)]
        features = torch.cat(parts).index_select(0, torch.cat(rows).argsort())
        return features.view(*tokens.shape, self.d_model)

    def _features(self, i: int, tokens: Tensor) -> Tensor:
        """The features (n, d_model) of tokens (n,) that are all in bin i."""
        vectors = self.dropout(F.embedding(tokens - self.starts[i], self.vectors[i]))
        return F.linear(vectors, self.projections[i]) * math.sqrt(self.d_model)


class AdaptiveSoftmax(nn.Module):
    """A decoder of features to log-probabilities of all words, which shares vectors and projections with `embedding`.

    `nll` is for training: it works out the logits of bin 0 and the clusters for every token, those of a tail only for
    tokens whose target is in it, and no more than LOGITS_AT_ONCE at a time.
    """

    def __init__(self, embedding: AdaptiveEmbedding, dropout: float = 0.0) -> None:
        super().__init__()
        self._shared = (embedding,)  # in a tuple, so that its parameters are registered once
        d_model, tails = embedding.d_model, len(embedding.starts) - 1
        self.projection = nn.Parameter(torch.zeros(d_model, d_model))  # U
        self.clusters = nn.Linear(d_model, tails)
        nn.init.zeros_(self.clusters.weight)
        nn.init.zeros_(self.clusters.bias)
        bound = 1 / math.sqrt(d_model)
        self.biases = nn.ParameterList(torch.empty(size).uniform_(-bound, bound) for size in embedding.sizes)
        self.dropout = nn.Dropout(dropout)

    @property
    def embedding(self) -> AdaptiveEmbedding:
        """The adaptive embedding, which owns the shared parameters."""
        return self._shared[0]

    def forward(
        self, x: Tensor, state: None = None, *, lengths: Tensor | None = None, valid: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """Log-probabilities (..., vocabulary) for features (..., d_model); as of any decoder, with its state, None."""
        return self._joined(self._head(x), [self._tail(i, x) for i in range(1, len(self.embedding.starts))]), None

    def _joined(self, head: Tensor, tails: Sequence[Tensor]) -> Tensor:
        """Log-probabilities of all words from the logits of bin 0 with the clusters, and of each tail."""
        head, first = head.log_softmax(-1), self.embedding.sizes[0]
        parts = [head[..., :first]]
        for i, tail in enumerate(tails):
            parts.append(tail.log_softmax(-1) + head[..., first + i].unsqueeze(-1))
        return torch.cat(parts, dim=-1)

    def by_products(self, product: Product) -> Callable[[Tensor], Tensor]:
        """Compute `step` for features (B, d_model) with another function for all products, without dropout."""
        vectors, projections = self.embedding.vectors, self.embedding.projections
        first = torch.cat((vectors[0], self.clusters.weight)), torch.cat((self.biases[0], self.clusters.bias))
        narrow = [product(self.projection, None), *(product(W.T, None) for W in projections[1:])]
        words = [product(*first), *map(product, vectors[1:], self.biases[1:])]

        def step(z: Tensor) -> Tensor:
            head, *tails = [logits(narrower(z)) for narrower, logits in zip(narrow, words, strict=True)]
            return self._joined(head, tails)

        return step

    def step(self, x: Tensor, state: None) -> tuple[Tensor, None]:
        """One step, x (B, d_model)."""
        return self(x)

    def nll(self, x: Tensor, y: Tensor) -> Tensor:
        """-log p(y) in nats for features (..., d_model) and words y (...); 0 where y is -100, no word."""
        known = (y.flatten() != NO_TOKEN).nonzero().squeeze(1)
        features, targets = x.flatten(0, -2).index_select(0, known), y.flatten().index_select(0, known)
        starts, sizes = self.embedding.starts, self.embedding.sizes
        bins = self.embedding.bins(targets)
        rows = rows_of(bins, len(starts))
        in_head = torch.where(bins == 0, targets, sizes[0] - 1 + bins)  # the word, or the cluster of its tail
        logits = len(features) * self._count(0) + sum(len(rows[i]) * self._count(i) for i in range(1, len(starts)))
        again = logits > LOGITS_AT_ONCE and torch.is_grad_enabled()
        losses = self._nll(0, features, in_head, again)
        for i in range(1, len(starts)):
            within = self._nll(i, features[rows[i]], targets[rows[i]] - starts[i], again)
            losses = losses.index_add(0, rows[i], within)
        return losses.new_zeros(y.numel()).index_copy(0, known, losses).view_as(y)

    def _nll(self, i: int, x: Tensor, y: Tensor, again: bool) -> Tensor:
        """-log p(y) among the logits of bin i, for x (n, d_model) and y (n,), some rows at a time.

        With `again`, logits are not kept for the backward pass, and worked out again there.
        """

        def loss(x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(self._tail(i, x) if i else self._head(x), y, reduction="none")

        size = max(1, LOGITS_AT_ONCE // self._count(i))
        pieces = zip(x.split(size), y.split(size), strict=True)
        return torch.cat([checkpoint(loss, *p, use_reentrant=False) if again else loss(*p) for p in pieces])

    def _count(self, i: int) -> int:
        """Logits of a token in bin i; bin 0 has those of the clusters, too."""
        return self.embedding.sizes[i] + (0 if i else len(self.embedding.starts) - 1)

    def _head(self, x: Tensor) -> Tensor:
        """Logits of the words of bin 0, then of the clusters, the first tail's first."""
        z = self.dropout(F.linear(x, self.projection))
        return wide(torch.cat((F.linear(z, self.embedding.vectors[0], self.biases[0]), self.clusters(z)), dim=-1))

    def _tail(self, i: int, x: Tensor) -> Tensor:
        """Logits of the words of tail i, among themselves."""
        z = self.dropout(x @ self.embedding.projections[i])
        return wide(F.linear(z, self.embedding.vectors[i], self.biases[i]))


def rows_of(bins: Tensor, count: int) -> list[Tensor]:
    """The positions of the tokens of each of `count` bins, bin by bin."""
    return [(bins == i).nonzero().squeeze(1) for i in range(count)]


def wide(x: Tensor) -> Tensor:
    """Widen to at least float32, for long sums."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
