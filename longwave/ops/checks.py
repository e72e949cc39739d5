"""Checks of an op's tensors: one device, matching shapes and, for the compiled library, plain memory.

An address says nothing about its tensor, so everything is checked before a call.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from longwave.ssm.precision import doubles as doubles
from longwave.ssm.precision import has_float64 as has_float64

_STRIDED = torch.strided


def describe(tensor: Tensor) -> str:
    """A tensor by its dtype and shape, and by its device and layout if they are not the usual ones."""
    words = [str(tensor.dtype), str(tuple(tensor.shape))]
    if tensor.device.type != "cpu":
        words.append(f"on {tensor.device}")
    if tensor.layout is not _STRIDED:
        words.append(f"in layout {tensor.layout}")
    return " ".join(words)


def describe_with_device(tensor: Tensor) -> str:
    """Describe a tensor, always with its device."""
    said = describe(tensor)
    return said if tensor.device.type != "cpu" else f"{said} on cpu"


def check_shape(name: str, tensor: Tensor, shape: Sequence[int]) -> None:
    """Refuse a tensor of another shape."""
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"{name}: expected the shape {tuple(shape)}, got {describe(tensor)}")


def resolved(tensor: Tensor) -> Tensor:
    """The tensor with its negative and conjugate bits resolved."""
    return tensor.resolve_conj().resolve_neg()


def has_values(tensor: Tensor) -> bool:
    """Whether a tensor has values: not on the meta device, nor while a graph is traced."""
    return not (tensor.is_meta or type(tensor) is FakeTensor)


def is_captured(device: torch.device) -> bool:
    """Whether what is computed on a device is recorded in a CUDA graph, where nothing may wait for it."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def check_devices(z: Tensor, **others: Tensor | None) -> None:
    """Refuse tensors on another device than z."""
    for name, tensor in others.items():
        if tensor is not None and tensor.device != z.device:
            raise ValueError(
                f"{name}: expected a tensor on {z.device}, where z is, got {describe_with_device(tensor)}; "
                f"call {name}.to({str(z.device)!r})"
            )


# These three are asked at every step of a layer, a few times each: the order of the questions is that of their price.


def is_plain(tensor: Tensor) -> bool:
    """Whether the memory of a tensor is its numbers, one after the other, where the CPU finds them."""
    if type(tensor) is FakeTensor or not tensor.is_cpu or tensor.layout is not _STRIDED:
        return False
    return tensor.is_contiguous() and not (tensor.is_neg() or tensor.is_conj())


def readable(name: str, tensor: Tensor, dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    """The tensor, or a copy of it, as the compiled library reads it: plain memory of this dtype and shape."""
    if (
        tensor.dtype is not dtype
        or not tensor.is_cpu
        or tensor.layout is not _STRIDED
        or type(tensor) is FakeTensor
        or tensor.shape != shape
    ):
        raise _unreadable(name, tensor, dtype, shape)
    if tensor.is_neg() or (dtype.is_complex and tensor.is_conj()):
        tensor = resolved(tensor)
    return tensor.contiguous()


def check_writable(name: str, tensor: Tensor, dtype: torch.dtype, shape: Sequence[int]) -> None:
    """Refuse a tensor that the compiled library cannot change in place."""
    if not is_plain(tensor) or tensor.dtype is not dtype or tensor.shape != shape:
        raise _unreadable(name, tensor, dtype, shape)


def _unreadable(name: str, tensor: Tensor, dtype: torch.dtype, shape: Sequence[int]) -> ValueError:
    came = f"{type(tensor).__name__} of " if type(tensor) is FakeTensor else ""
    came += describe_with_device(tensor)
    if tensor.layout is _STRIDED and not tensor.is_contiguous():
        came += ", not contiguous"
    if tensor.is_neg() or tensor.is_conj():
        came += ", not resolved"
    return ValueError(
        f"{name}: expected {dtype} {tuple(shape)} in CPU memory for the compiled ops, got {came}; "
        f"call {name}.to('cpu', {dtype}), or set LONGWAVE_KERNEL=reference"
    )
