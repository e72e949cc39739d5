"""State space layers in real arithmetic, with everything that depends only on parameters precomputed.

A step is x' = x + E x + B u, y = C x' + D u, for states x of N real numbers per feature: the real parts of the M stored
ones, then the imaginary parts. Matrices are derived in float64 and kept in float32.

    Steps     one step, in O(H N): E is diagonal plus low rank
    Blocks    T steps by one matrix product of size (T + N)^2 per feature: (u, x) to (y, x' - x)
    Direct    whole sequences, by a depthwise convolution with the kernel, in O(L^2)
    Fourier   whole sequences, by transforms of a power of two, in O(L log L)
"""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, pad

from longwave.layers import Mixer
from longwave.layers.block import MaskedBatchNorm
from longwave.layers.checks import valid_steps
from longwave.layers.chunk import Chunks
from longwave.layers.state_space import StateSpaces
from longwave.models.adaptive import AdaptiveEmbedding
from longwave.models.convolutions import RandomConvolutions
from longwave.ssm.algebra import as_pairs, block_diagonal
from longwave.ssm.conv import kernel_spectrum


class Fixed(Mixer):
    """A state space layer with constant parameters."""

    D: Tensor

    def __init__(self, layer: StateSpaces) -> None:
        super().__init__(layer.d_model, bidirectional=layer.bidirectional)
        self.d_state = layer.d_state
        self.keep(D=layer.D)

    def keep(self, **tensors: Tensor) -> None:
        """Register constants of the graph."""
        for name, values in tensors.items():
            self.register_buffer(name, values.detach().float().contiguous())

    def _placed(self) -> tuple[Tensor, nn.Module]:
        return self.D, self

    def _initial_state(self, batch: int) -> Tensor:
        return self.D.new_zeros(batch, self.d_model, self.d_state)

    def _check_state(self, state: Tensor, batch: int, device: torch.device) -> None:
        """Do nothing: the graph's inputs fix the shapes."""


class Steps(Fixed):
    """One step at a time."""

    scale: Tensor
    turn: Tensor
    left: Tensor
    right: Tensor
    B: Tensor
    C: Tensor

    def __init__(self, layer: StateSpaces) -> None:
        super().__init__(layer)
        (change, left, right, B), C, _, _ = layer.step_constants()
        self.keep(
            scale=torch.cat((change.real, change.real), -1),
            turn=torch.cat((change.imag, change.imag), -1),
            left=halves(left),
            right=torch.cat((right.real, -right.imag), -1),  # Re(right x)
            B=halves(B),
            C=torch.cat((2 * C.real, -2 * C.imag), -1),
        )

    def _mix(
        self, u: Tensor, state: Tensor, *, lengths: Tensor | None, rate: float, need_state: bool
    ) -> tuple[Tensor, Tensor]:
        u = u.squeeze(1)
        re, im = state.chunk(2, -1)
        moved = self.scale * state + self.turn * torch.cat((-im, re), -1) + self.B * u.unsqueeze(-1)
        for left, right in zip(self.left, self.right, strict=True):
            moved = moved - left * (right * state).sum(-1, keepdim=True)
        after = state + moved
        return ((self.C * after).sum(-1) + self.D * u).unsqueeze(1), after


class Blocks(Fixed):
    """T steps at a time."""

    matrix: Tensor

    def __init__(self, layer: StateSpaces, T: int) -> None:
        super().__init__(layer)
        discrete, C, D, _ = layer.step_constants()
        tables = Chunks.of(discrete, C, T, 2 * T, sums=True)
        rows, columns, E = tables.rows, tables.columns, tables.E
        assert rows is not None
        assert columns is not None
        assert E is not None
        N = layer.d_state
        E = block_diagonal(E.reshape(len(E), N // 2, 2)) if E.shape[1] == 1 else E
        row = torch.stack((2 * C.real, -2 * C.imag), -1).flatten(-2)
        K = torch.einsum("hn,htn->ht", row, columns)
        K[:, 0] += D
        lag = torch.arange(T).unsqueeze(1) - torch.arange(T)
        toeplitz = torch.where(lag >= 0, K[:, lag.clamp(min=0)], 0)
        order = torch.cat((torch.arange(0, N, 2), torch.arange(1, N, 2)))  # real parts first
        from_input = columns.flip(1).mT[:, order]
        from_state = E[:, order][:, :, order]
        above, below = torch.cat((toeplitz, rows[..., order]), 2), torch.cat((from_input, from_state), 2)
        self.T = T
        self.keep(matrix=torch.cat((above, below), 1).mT)  # transposed, for rows (u, x)

    def _mix(
        self, u: Tensor, state: Tensor, *, lengths: Tensor | None, rate: float, need_state: bool
    ) -> tuple[Tensor, Tensor]:
        both = torch.cat((u.permute(2, 0, 1), state.permute(1, 0, 2)), -1) @ self.matrix  # (H, B, T + N)
        return both[..., : self.T].permute(1, 2, 0), state + both[..., self.T :].permute(1, 0, 2)


class Direct(Fixed):
    """Whole sequences of up to `longest` steps by direct convolution."""

    taps: Tensor

    def __init__(self, layer: StateSpaces, longest: int) -> None:
        super().__init__(layer)
        K = layer.kernel(longest)
        past, future = K if layer.bidirectional else (K, K[:, :0])
        past[:, 0] += layer.D
        # y_k = sum_i taps_i u_(k+i-longest+1): the kernel backwards, then what acts from the future.
        self.keep(taps=torch.cat((past.flip(-1), future[:, : longest - 1]), -1).unsqueeze(1))
        self.padding = (longest - 1, longest - 1 if layer.bidirectional else 0)

    def _mix(
        self, u: Tensor, state: None, *, lengths: Tensor | None, rate: float, need_state: bool
    ) -> tuple[Tensor, None]:
        return conv1d(pad(u.mT, self.padding), self.taps, groups=self.d_model).mT, None


class Fourier(Fixed):
    """Whole sequences by FFTs of a power of two, at which runtimes are fast and accurate."""

    K_re: Tensor
    K_im: Tensor

    def __init__(self, layer: StateSpaces, longest: int) -> None:
        super().__init__(layer)
        self.n = 1 << (2 * longest - 2).bit_length()
        K = layer.kernel(longest)
        K_hat = kernel_spectrum(K if layer.bidirectional else K.unsqueeze(0), layer.D, self.n)
        self.keep(K_re=K_hat.real, K_im=K_hat.imag)

    def _mix(
        self, u: Tensor, state: None, *, lengths: Tensor | None, rate: float, need_state: bool
    ) -> tuple[Tensor, None]:
        re, im = torch.view_as_real(torch.fft.rfft(u.mT, n=self.n)).unbind(-1)
        product = torch.stack((re * self.K_re - im * self.K_im, re * self.K_im + im * self.K_re), -1)
        return torch.fft.irfft(torch.view_as_complex(product), n=self.n)[..., : u.shape[1]].mT, None


class FoldedBatchNorm(nn.Module):
    """Batch norm in evaluation as one multiplication and one addition."""

    scale: Tensor
    offset: Tensor

    def __init__(self, norm: MaskedBatchNorm) -> None:
        super().__init__()
        scale = norm.weight.double() * torch.rsqrt(norm.running_var.double() + norm.eps)
        self.register_buffer("scale", scale.detach().float())
        self.register_buffer("offset", (norm.bias - norm.running_mean * scale).detach().float())

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """x (..., d_model)."""
        return x * self.scale + self.offset


class Convolutions(nn.Module):
    """Random convolutions of any number of rows at once."""

    def __init__(self, source: RandomConvolutions) -> None:
        super().__init__()
        self.source = source

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The features (B, count) of x (B, L, channels); each is compared with its bias in the order of the source."""
        x = x if lengths is None else torch.where(valid_steps(lengths, x), x, 0)
        ends = x.shape[1] if lengths is None else lengths.to(x).unsqueeze(1)
        shares = []
        for d in range(len(self.source.dilations)):
            above = self.source.outputs(x, d).unsqueeze(-1) > self.source.biases[d, :, None, None]
            above = above if lengths is None else above & valid_steps(lengths, x)
            shares.append((above.to(x.dtype).sum(2) / ends).transpose(0, 1))  # (B, 84, biases)
        return torch.stack(shares, 1).flatten(1)


def in_real_arithmetic(model: nn.Module, fixed: Callable[[StateSpaces], Fixed]) -> nn.Module:
    """Copy a model for a graph, with each state space layer replaced by `fixed` of it, and batch norms folded."""
    model = copy.deepcopy(model).eval().requires_grad_(False)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, StateSpaces):
                setattr(parent, name, fixed(child.double()))
            elif isinstance(child, Mixer):
                raise ValueError(
                    f"mixer: expected S4 or S4D layers, whose kernels can be computed ahead, got {type(child).__name__}"
                )
            elif isinstance(child, RandomConvolutions):
                setattr(parent, name, Convolutions(child))
            elif isinstance(child, MaskedBatchNorm):
                setattr(parent, name, FoldedBatchNorm(child))
            elif isinstance(child, AdaptiveEmbedding):  # one table: a graph cannot sort tokens into bins
                setattr(parent, name, nn.Embedding.from_pretrained(child(torch.arange(sum(child.sizes)))))
    return model


def halves(values: Tensor) -> Tensor:
    """Complex numbers (..., M) as (..., 2 M): the real parts, then the imaginary parts."""
    pairs = as_pairs(values)
    return torch.cat((pairs[..., 0], pairs[..., 1]), -1)
