"""Random convolutions: features of whole sequences without training, and ridge regression on them.

The convolutions are those of MiniRocket (Dempster, Schmidt and Webb, 2021): kernels of nine weights, three of them 2
and six of them -1, at many dilations; a feature is the share of the steps at which the output is above a bias.
"""

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

TAPS = 9  # weights of a kernel
KERNELS = torch.tensor(list(itertools.combinations(range(TAPS), 3)))  # (84, 3): where the weight is 2
MOST_DILATIONS = 12
TOGETHER = 2**16  # outputs that are computed together: they stay in the cache
PENALTIES = torch.logspace(-3, 3, 13, dtype=torch.float64)  # relative to the number of features


class RandomConvolutions(nn.Module):
    """Features (B, count) of sequences x (B, L, channels): the biases are quantiles of what the training set gives.

    Every operation is on single numbers, or counts whole ones, so that the features of a sequence are the same to the
    bit in every batch: the least difference could put an output on the other side of a bias.
    """

    def __init__(self, channels: int, longest: int, most: int) -> None:
        """For sequences of up to `longest` steps, about `most` features."""
        super().__init__()
        widest = max(1, (longest - 1) // (TAPS - 1))  # the dilation with which a kernel spans the sequence
        count = min(widest, MOST_DILATIONS)
        self.dilations = sorted({round(widest ** (k / max(1, count - 1))) for k in range(count)})
        biases = max(1, most // (len(KERNELS) * len(self.dilations)))
        self.register_buffer("biases", torch.zeros(len(self.dilations), len(KERNELS), biases))
        self.register_buffer("chosen", torch.ones(len(self.dilations), len(KERNELS), channels))

    @property
    def count(self) -> int:
        """Number of features."""
        return self.biases.numel()

    def start(self, x: Tensor, lengths: Tensor, seed: int = 0) -> None:
        """Draw which channels each convolution sees, and take the biases from its output for a training sequence."""
        dilations, kernels, _ = self.biases.shape
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.rand(self.chosen.shape, generator=generator)
        share = torch.rand(dilations, kernels, 1, generator=generator)
        self.chosen.copy_((drawn <= share) | (drawn == drawn.amin(-1, keepdim=True)))
        examples = torch.randint(len(x), (dilations, kernels), generator=generator)
        golden = (1 + 5**0.5) / 2  # multiples of it spread evenly over the quantiles
        shares = (torch.arange(1, self.count + 1) * golden % 1).view(self.biases.shape).to(x)
        for d in range(dilations):
            for example in examples[d].unique().tolist():
                own = (examples[d] == example).nonzero().squeeze(1)
                outputs = self.outputs(x[example : example + 1, : lengths[example]], d)[own, 0]  # (kernels, L)
                values = [output.quantile(q) for output, q in zip(outputs, shares[d, own], strict=True)]
                self.biases[d, own] = torch.stack(values).to(self.biases)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The features; what follows the end of a sequence has no effect."""
        rows = max(1, TOGETHER // (len(KERNELS) * x.shape[1]))
        ends = [None] * len(x) if lengths is None else lengths.split(rows)
        return torch.cat([self._features(some, end) for some, end in zip(x.split(rows), ends, strict=False)])

    def _features(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        features = x.new_empty(len(x), *self.biases.shape)
        ends = x.new_full((len(x),), x.shape[1]) if lengths is None else lengths.to(x)
        inside = torch.arange(x.shape[1], device=x.device) < ends.unsqueeze(1)
        x = x if lengths is None else torch.where(inside.unsqueeze(-1), x, 0)
        for d in range(len(self.dilations)):
            outputs = self.outputs(x, d)
            for b in range(self.biases.shape[2]):
                above = outputs > self.biases[d, :, b, None, None]
                above = above if lengths is None else above & inside
                features[:, d, :, b] = above.sum(-1).T / ends.unsqueeze(1)
        return features.flatten(1)

    def outputs(self, x: Tensor, d: int) -> Tensor:
        """The outputs (84, B, L) of all kernels at a dilation, with zeros around a sequence."""
        L, dilation = x.shape[1], self.dilations[d]
        padded = nn.functional.pad(x, (0, 0, 4 * dilation, 4 * dilation))
        taps = torch.stack([padded[:, t * dilation : t * dilation + L] for t in range(TAPS)])  # (9, B, L, channels)
        total = sum(taps.unbind(0))
        first, second, third = KERNELS.T.to(x.device)
        outputs = 3 * (taps[first] + taps[second] + taps[third]) - total
        if x.shape[2] == 1:
            return outputs.squeeze(-1)
        return (outputs * self.chosen[d, :, None, None]).sum(-1)

    biases: Tensor
    chosen: Tensor


@dataclass(frozen=True, eq=False)
class Ridge:
    """x (n, features) -> scores (n, classes): x weight + offset."""

    weight: Tensor  # (features, classes), float64
    offset: Tensor  # (classes,)
    left_out: Tensor  # (n, classes) of the examples that it was fitted to, each by a fit without it

    def __call__(self, x: Tensor) -> Tensor:
        """Scores of the classes."""
        return x.double() @ self.weight + self.offset


def fit_ridge(x: Tensor, targets: Tensor, counts: Tensor | None = None) -> Ridge:
    """Ridge regression from standardised features x (n, features) to targets (n, classes), with an intercept.

    The penalty is the one with the smallest squared error when each example is left out in turn. With K = X X^T of the
    centred features and G = (K + penalty)^-1 (I - 1 1^T / n), the weights are X^T G y and the residuals of those fits
    (G y)_i / G_ii. The constant vector has to be out of G: the centred rows add up to 0, so that each follows
    from the others, and all would seem to be predicted without error.

    An example that counts twice (`counts` (n,), above 0) is as if it were there twice, and one of the two is left out:
    rows of X and y are multiplied by s = sqrt(counts), which takes the place of the constant vector.
    """
    x = x.double()
    counts = torch.ones(len(x), dtype=x.dtype, device=x.device) if counts is None else counts.to(x)
    total, s = counts.sum(), counts.sqrt().unsqueeze(1)
    mean = counts @ x / total
    deviation = (counts @ (x - mean).square() / total).sqrt()
    deviation = deviation.maximum(x.std(0, correction=0) / 10)  # of one that varies where next to nothing counts
    deviation[deviation < 1e-8] = 1.0
    X, offset = s * (x - mean) / deviation, counts @ targets / total
    K = X @ X.T
    # K s = 0: raised above all other eigenvalues, s is the last eigenvector.
    eigenvalues, vectors = torch.linalg.eigh(K + (K.trace() + 1) / total * s * s.T)
    turned = vectors.T @ (s * (targets - offset))
    left = counts.clamp(max=1) / counts  # the share of an example that is left out
    best, weights, left_out = math.inf, torch.zeros_like(targets), targets
    for penalty in PENALTIES.to(x.device) * X.shape[1]:
        inverse = 1 / (eigenvalues.clamp(min=0) + penalty)
        inverse[-1] = 0
        solved = vectors @ (inverse.unsqueeze(1) * turned)
        kept = 1 / penalty * (1 - left) + left * (vectors.square() @ inverse)  # (1 - left leverage) / penalty
        residuals = solved / s / kept.unsqueeze(1).clamp(min=1e-300)
        error = float(counts @ residuals.square().mean(1))
        if error < best:
            best, weights, left_out = error, solved, targets - residuals
    weight = (X.T @ weights) / deviation.unsqueeze(1)
    return Ridge(weight, offset - mean @ weight, left_out)
