"""The weights of a model as the compiled steps read them: in panels, in float32, 16 or 8 bits."""

import ctypes
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

from longwave.ops.checks import resolved
from longwave.ops.cpu import library
from longwave.ops.cpu.memory import Arena
from longwave.ssm import DiscreteDPLR

WeightType = Literal["float32", "bfloat16", "float16", "int8"]  # in the order of native.cpp's Kind
WEIGHT_TYPES: tuple[WeightType, ...] = get_args(WeightType)
Linear = tuple[Tensor, Tensor | None]  # weight (out, in) and bias
MODEL_ROWS = 32  # kModelRows of native_linear.inc
MOST_LEVELS = 64  # kMostLevels of native.cpp


class Affine(NamedTuple):
    """A norm: scale and shift (H,), of a row standardised with `eps`, or of the row as it is if that is None.

    `offset` is added to a row that is standardised before it is divided by its deviation.
    """

    scale: Tensor
    shift: Tensor
    eps: float | None
    offset: float = 0.0


FeedForwardWeights = tuple[Affine, Linear, Linear]  # norm, widen, narrow


class BlockWeights(NamedTuple):
    """The weights of a residual block of an S4 layer, as torch has them; see layers.block.Block."""

    discrete: DiscreteDPLR
    C: Tensor
    D: Tensor
    prenorm: bool
    norm: Affine
    linear: Linear  # weight (H or 2H, H) and bias
    feed_forward: FeedForwardWeights | None = None


class LevelWeights(NamedTuple):
    """The weights of a level of a U-Net; see models.unet_levels. Those of its pools are in the order of the steps.

    pool, unpool   weights (wider, size * width) and (size * width, wider), with their biases; None for the centre
    """

    width: int
    size: int
    down: Sequence[BlockWeights | FeedForwardWeights]
    up: Sequence[BlockWeights | FeedForwardWeights]
    around: bool  # one skip around all layers, not one around each
    pool: Linear | None = None
    unpool: Linear | None = None


def structure(name: str, **fields: Any) -> Any:
    """A structure of native.cpp, field by field."""
    return type(name, (ctypes.Structure,), {"_fields_": tuple(fields.items())})


_int, _double, _pointer = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
PackedNorm = structure("Norm", by_row=_int, eps=_double, offset=_double, scale=_pointer, shift=_pointer)
PackedLinear = structure(
    "Linear", inputs=_int, panels=_int, kind=_int, weight=_pointer, bias=_pointer, scale=_pointer, totals=_pointer
)
PackedBlock = structure(
    "Block",
    N=_int,
    r=_int,
    constants=_pointer,
    D=_pointer,
    prenorm=_int,
    glu=_int,
    hidden=_int,
    norm=PackedNorm,
    wide_norm=PackedNorm,
    linear=PackedLinear,
    widen=PackedLinear,
    narrow=PackedLinear,
)
PackedLevel = structure(
    "Level",
    H=_int,
    size=_int,
    down=_int,
    up=_int,
    around=_int,
    blocks=_pointer,
    states=_pointer,
    begun=_pointer,
    waiting=_pointer,
    pool=PackedLinear,
    unpool=PackedLinear,
)


def pack_step(change: Tensor, left: Tensor, right: Tensor, B_bar: Tensor, C: Tensor) -> Tensor:
    """What a step reads of each feature, (H, 4 + 2r, 2M); see native_step.inc. All arguments are complex, (r,) H, M."""

    def rows(re: Tensor, im: Tensor) -> Tensor:
        return torch.stack((re, im), dim=-1).flatten(-2)

    parts = [rows(change.real, change.real), rows(-change.imag, change.imag), rows(B_bar.real, B_bar.imag)]
    parts.append(rows(2 * C.real, -2 * C.imag))
    parts += [*rows(right.real, -right.imag), *rows(left.real, left.imag)]
    return torch.stack(parts, dim=1).contiguous()


def fits(lanes: int, *layers: BlockWeights | FeedForwardWeights) -> bool:
    """Whether all layers are in float32, with widths that fill vectors."""
    for layer in layers:
        feed_forward = layer.feed_forward if isinstance(layer, BlockWeights) else layer
        widths = [len(layer.D)] if isinstance(layer, BlockWeights) else [len(layer[0].scale)]
        widths += [] if feed_forward is None else [len(feed_forward[1][0])]
        wide = isinstance(layer, BlockWeights) and layer.D.dtype != torch.float32
        if wide or any(width % lanes for width in widths):
            return False
    return True


class Packing:
    """Copies of weights in the order in which the compiled loops read them, which have their addresses only.

    The copies live as long as this object. Linear layers are in `weights`; all else is in float32.
    """

    def __init__(self, weights: WeightType = "float32") -> None:
        self.kind, self.lanes = WEIGHT_TYPES.index(weights), library.vector_bits() // 32
        self._arena, self._kept = Arena(), list[Tensor]()

    def block(self, layer: BlockWeights | FeedForwardWeights, H: int) -> Any:
        """A layer of H features, whose sizes are checked: the library reads that far without looking."""
        self._check(layer, H)
        if not isinstance(layer, BlockWeights):
            packed = PackedBlock(N=0, prenorm=True)
            self._add_feed_forward(packed, layer)
            return packed
        weight, bias = layer.linear
        glu = len(weight) == 2 * H
        if glu:  # each vector of values beside that of their gates
            order = torch.arange(2 * H, device=weight.device).view(2, -1, self.lanes).transpose(0, 1).flatten()
            weight, bias = weight[order], None if bias is None else bias[order]
        constants = pack_step(*layer.discrete, layer.C)
        packed = PackedBlock(
            N=constants.shape[2],
            r=constants.shape[1] // 2 - 2,
            constants=self._keep(constants),
            D=self._keep(layer.D),
            prenorm=layer.prenorm,
            glu=glu,
            norm=self._norm(layer.norm),
            linear=self.linear(weight, bias),
        )
        if layer.feed_forward is not None:
            self._add_feed_forward(packed, layer.feed_forward)
        return packed

    def _add_feed_forward(self, packed: Any, layer: FeedForwardWeights) -> None:
        norm, widen, narrow = layer
        packed.hidden = len(widen[0])
        packed.wide_norm = self._norm(norm)
        packed.widen, packed.narrow = self.linear(*widen), self.linear(*narrow)

    def _check(self, layer: BlockWeights | FeedForwardWeights, H: int) -> None:
        expected: dict[str, tuple[Tensor, tuple[int, ...]]] = {}
        linear: list[tuple[str, Linear, int, int]] = []
        feed_forward: FeedForwardWeights | None
        if not isinstance(layer, BlockWeights):
            feed_forward = layer
        else:
            M, r = layer.C.shape[-1], len(layer.discrete.left)
            change, left, right, B_bar = layer.discrete
            expected |= {"change": (change, (H, M)), "left": (left, (r, H, M)), "right": (right, (r, H, M))}
            expected |= {"B_bar": (B_bar, (H, M)), "C": (layer.C, (H, M)), "D": (layer.D, (H,))}
            expected |= {"scale": (layer.norm.scale, (H,)), "shift": (layer.norm.shift, (H,))}
            linear = [("linear", layer.linear, 2 * H if len(layer.linear[0]) == 2 * H else H, H)]
            feed_forward = layer.feed_forward
        if feed_forward is not None:
            norm, widen, narrow = feed_forward
            expected |= {"feed-forward scale": (norm.scale, (H,)), "feed-forward shift": (norm.shift, (H,))}
            linear += [("widen", widen, len(widen[0]), H), ("narrow", narrow, H, len(widen[0]))]
        for name, (weight, bias), outputs, inputs in linear:
            expected[f"{name}.weight"] = (weight, (outputs, inputs))
            if bias is not None:
                expected[f"{name}.bias"] = (bias, (outputs,))
        for name, (tensor, shape) in expected.items():
            if tensor.shape != shape:
                raise ValueError(f"{name}: expected {shape} in a block of {H} features, got {tuple(tensor.shape)}")

    def _norm(self, norm: Affine) -> Any:
        by_row = norm.eps is not None
        return PackedNorm(by_row, norm.eps or 0.0, norm.offset, self._keep(norm.scale), self._keep(norm.shift))

    def linear(self, weight: Tensor, bias: Tensor | None) -> Any:
        """In panels of two vectors of columns; the last one may be half empty."""
        weight = weight.detach().to("cpu", torch.float32)
        panels = -(-len(weight) // (2 * self.lanes))
        missing = panels * 2 * self.lanes - len(weight)
        weight = pad(weight, (0, -weight.shape[1] % self.lanes, 0, missing))
        packed = PackedLinear(weight.shape[1], panels, self.kind)
        if bias is not None:
            packed.bias = self._keep(pad(bias.detach(), (0, missing)))
        if WEIGHT_TYPES[self.kind] == "int8":
            scale, weight = whole_numbers(weight)
            packed.scale, packed.totals = self._keep(scale), self._keep(weight.sum(1), torch.int32)
            panel = weight.to(torch.int8).view(panels, 2, self.lanes, -1, 4).permute(0, 3, 1, 2, 4)
        else:
            panel = weight.view(panels, 2, self.lanes, -1).permute(0, 3, 1, 2)
            if WEIGHT_TYPES[self.kind] == "bfloat16":  # of two columns, lane by lane
                panel = panel.transpose(2, 3)
        packed.weight = self._keep(panel, getattr(torch, WEIGHT_TYPES[self.kind]))
        return packed

    def _keep(self, values: Tensor, dtype: torch.dtype = torch.float32) -> int:
        copy = self._arena.empty(values.shape, dtype).copy_(resolved(values.detach()))
        self._kept.append(copy)
        return copy.data_ptr()


def whole_numbers(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A scale for each row, and the row over it in whole numbers from -127 to 127, still as floats."""
    largest = weight.abs().amax(1)
    scale = torch.where(largest > 0, largest, 1) / 127
    return scale, (weight / scale.unsqueeze(1)).round().clamp(-127, 127)


def scratch_size(width: int, wide: int) -> int:
    """Floats of a thread's scratch, as native_linear.inc counts them."""
    return MODEL_ROWS * (2 * width + wide + 1 + (max(width, wide) + 1) // 2)
