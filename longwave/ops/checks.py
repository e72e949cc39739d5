"""What an op may be given: tensors of one device that fit together, and, for the compiled library, plain memory.

An address tells the library nothing of the tensor that it belongs to, so all there is to know is checked before.
"""

from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from longwave.ssm.diagonal import Rule
from longwave.ssm.nodes import Nodes

_STRIDED = torch.strided


def describe(tensor: Tensor) -> str:
    """A tensor by its dtype and shape, and by its device and layout if they are not the usual ones."""
    words = [str(tensor.dtype), str(tuple(tensor.shape))]
    if tensor.device.type != "cpu":
        words.append(f"on {tensor.device}")
    if tensor.layout is not _STRIDED:
        words.append(f"in layout {tensor.layout}")
    return " ".join(words)


def check_fits(
    name: str, tensor: Tensor, shape: Sequence[int], beside: str, other: Tensor, dtype: torch.dtype | None = None
) -> None:
    """Refuse a tensor that is not strided, or has not this shape, this dtype (or that of `other`), and its device."""
    dtype = other.dtype if dtype is None else dtype
    wrong_kind = tensor.dtype != dtype or tuple(tensor.shape) != tuple(shape)
    if wrong_kind or tensor.device != other.device or tensor.layout is not _STRIDED:
        expected = f"{dtype} {tuple(shape)} on {other.device}"
        if tensor.layout is not _STRIDED:
            advice = f"; call {name}.to_dense()"
        else:
            advice = "" if tensor.device == other.device else f"; call {name}.to({str(other.device)!r})"
        came = describe(tensor) if tensor.device == other.device else _with_device(tensor)
        raise ValueError(f"{name}: expected {expected} beside {beside} {tuple(other.shape)}, got {came}{advice}")


def check_device(name: str, tensor: Tensor, beside: str, other: Tensor) -> None:
    """Refuse a tensor on another device than `other`."""
    if tensor.device != other.device:
        raise ValueError(
            f"{name}: expected a tensor on {other.device}, where {beside} is, got {_with_device(tensor)}; "
            f"call {name}.to({str(other.device)!r})"
        )


def resolved(tensor: Tensor) -> Tensor:
    """The numbers themselves, where a bit of the tensor says that they stand there negated or conjugated."""
    return tensor.resolve_conj().resolve_neg()


def has_values(tensor: Tensor) -> bool:
    """Whether there are numbers behind a tensor: there are none on the meta device, nor while a graph is traced."""
    return not (tensor.is_meta or type(tensor) is FakeTensor)


# What the ops refuse. Each op and its fake check what they are given: where one tensor is on the meta device, torch
# takes the fake, which would give memory that nobody has written to.


def check_devices(z: Tensor, **others: Tensor | None) -> None:
    """Refuse tensors on another device than z."""
    for name, tensor in others.items():
        if tensor is not None:
            check_device(name, tensor, "z", z)


def check_real(name: str, tensor: Tensor, shape: str, dtypes: tuple[torch.dtype, ...] = ()) -> None:
    """Refuse what is no floating-point tensor with as many axes as `shape` names, or of none of the dtypes."""
    axes = shape.count(",") + 1
    wrong_dtype = not tensor.is_floating_point() or (dtypes and tensor.dtype not in dtypes)
    if wrong_dtype or tensor.ndim != axes or tensor.layout is not torch.strided:
        kinds = " or ".join(str(dtype) for dtype in dtypes) or "floating-point numbers"
        raise ValueError(f"{name}: expected {kinds} ({shape}), got {describe(tensor)}")


def check_system(
    Lambda: Tensor, P: Tensor, C: Tensor, dt: Tensor, L: int, B: Tensor | None = None, grad: Tensor | None = None
) -> None:
    """Refuse a system whose tensors do not fit together, and a length below 1."""
    check_real("Lambda", Lambda, "H, M, 2")
    check_real("P", P, "r, H, M, 2")
    check_real("C", C, "D, H, M, 2")
    (H, M, _), r, D = Lambda.shape, P.shape[0], C.shape[0]
    shapes = {"Lambda": (Lambda, (H, M, 2)), "P": (P, (r, H, M, 2)), "C": (C, (D, H, M, 2)), "dt": (dt, (H,))}
    if B is not None:
        shapes["B"] = B, (H, M, 2)
    if grad is not None:
        shapes["grad"] = grad, C.shape if B is None else (D, H, L // 2 + 1, 2)
    for name, (tensor, shape) in shapes.items():
        check_fits(name, tensor, shape, "Lambda", Lambda)
    if r > 2 or D not in (1, 2):
        raise ValueError(f"expected P of rank 0, 1 or 2 and 1 or 2 output maps, got rank {r} and {D} maps")
    _check_sizes(Lambda, L)


def check_nodes(nodes: str) -> None:
    """Refuse an unknown choice of nodes."""
    if nodes not in get_args(Nodes):
        raise ValueError(f"nodes: expected one of {', '.join(get_args(Nodes))}, got {nodes!r}")


def check_diagonal(
    Lambda: Tensor, B: Tensor, C: Tensor, dt: Tensor, L: int, rule: str, grad: Tensor | None = None
) -> None:
    """Refuse a diagonal system whose tensors do not fit together, a length below 1, and an unknown rule."""
    check_real("Lambda", Lambda, "H, M, 2")
    check_real("C", C, "D, H, M, 2")
    (H, M, _), D = Lambda.shape, C.shape[0]
    shapes = {"Lambda": (Lambda, (H, M, 2)), "B": (B, (H, M, 2)), "C": (C, (D, H, M, 2)), "dt": (dt, (H,))}
    if grad is not None:
        shapes["grad"] = grad, (D, H, L)
    for name, (tensor, shape) in shapes.items():
        check_fits(name, tensor, shape, "Lambda", Lambda)
    if D not in (1, 2):
        raise ValueError(f"expected 1 or 2 output maps, got {D}")
    if rule not in get_args(Rule):
        raise ValueError(f"rule: expected one of {', '.join(get_args(Rule))}, got {rule!r}")
    _check_sizes(Lambda, L)


def _check_sizes(Lambda: Tensor, L: int) -> None:
    if Lambda.shape[1] < 1:
        raise ValueError(f"Lambda: expected at least one state a feature, got {describe(Lambda)}")
    if L < 1:
        raise ValueError(f"L: expected a length of at least 1, got {L}")


_WIDE = (torch.float64,)
_SIGNALS = (torch.float32, torch.float64)


def check_step(change: Tensor, left: Tensor, right: Tensor, **vectors: Tensor) -> None:
    """Refuse the parts of a step that do not fit together, and vectors (H, N) that do not fit it; all in float64."""
    check_real("change", change, "H, M, 2", _WIDE)
    check_real("left", left, "r, H, M, 2", _WIDE)
    (H, M, _), r = change.shape, left.shape[0]
    for name, tensor in (("change", change), ("left", left), ("right", right)):
        check_fits(name, tensor, (H, M, 2) if name == "change" else (r, H, M, 2), "change", change)
    if r > 2:
        raise ValueError(f"left: expected a low-rank part of rank 0, 1 or 2, got rank {r}")
    if M < 1:
        raise ValueError(f"change: expected at least one state a feature, got {describe(change)}")
    for name, vector in vectors.items():
        check_fits(name, vector, (H, 2 * M), "change", change)


def check_block(T: int) -> None:
    """Refuse a block that is not a power of two."""
    if T < 1 or T & (T - 1):
        raise ValueError(f"T: expected a power of two, the steps of a block, got {T}")


def check_tables(name: str, table: Tensor, E: Tensor | None) -> None:
    """Refuse what is no table (H, T, N) of a block, and no power (H, N, N) or (H, 1, N) beside it; in float64."""
    check_real(name, table, "H, T, N", _WIDE)
    H, T, N = table.shape
    check_block(T)
    if N < 2 or N % 2:
        raise ValueError(f"{name}: expected at least one state a feature, as pairs of numbers, got {describe(table)}")
    if E is not None:
        check_real("E", E, "H, N, N", _WIDE)
        check_fits("E", E, (H, 1 if E.shape[1] == 1 else N, N), name, table)


def check_collect(columns: Tensor, E: Tensor | None, u: Tensor, lengths: Tensor, **states: Tensor | None) -> None:
    """Refuse tables, signals and states that do not fit together."""
    check_tables("columns", columns, E)
    check_real("u", u, "batch, L, H", _SIGNALS)
    (batch, L, _), (H, T, N) = u.shape, columns.shape
    check_fits("u", u, (batch, L, H), "columns", columns, u.dtype)
    check_fits("lengths", lengths, (batch,), "columns", columns, torch.int64)
    for name, tensor in states.items():
        if tensor is not None:
            shape = (batch, H, L // T, N) if name == "kept" else (batch, H, N)
            check_fits(name, tensor, shape, "columns", columns, u.dtype)
    if E is None and (L >= 2 * T or states.get("start") is not None):
        raise ValueError(f"E: expected A^{T} - I, which moves states from block to block, got None")


def check_spread(
    rows: Tensor, E: Tensor | None, L: int, start: Tensor | None = None, grad: Tensor | None = None, **kept: Tensor
) -> None:
    """Refuse tables, states and gradients that do not fit together."""
    check_tables("rows", rows, E)
    H, T, N = rows.shape
    given = {"start": (start, "batch, H, N"), "grad": (grad, "batch, L, H")}
    for name, (tensor, axes) in given.items():
        if tensor is not None:
            check_real(name, tensor, axes, _SIGNALS)
            shape = (tensor.shape[0], H, N) if name == "start" else (tensor.shape[0], L, H)
            check_fits(name, tensor, shape, "rows", rows, tensor.dtype)
            for key, states in kept.items():
                check_fits(key, states, (tensor.shape[0], H, -(-L // T), N), "rows", rows, tensor.dtype)
    if L < 1:
        raise ValueError(f"L: expected a length of at least 1, got {L}")
    if E is None and L > T:
        raise ValueError(f"E: expected A^{T} - I, which moves states from block to block, got None")


def check_scan(B_bar: Tensor, u: Tensor, start: Tensor, lengths: Tensor, every: int, **outputs: Tensor) -> None:
    """Refuse a signal and states that do not fit a step."""
    H, N = B_bar.shape
    check_real("u", u, "batch, L, H", _SIGNALS)
    batch, L, _ = u.shape
    check_fits("u", u, (batch, L, H), "B_bar", B_bar, u.dtype)
    check_fits("start", start, (batch, H, N), "B_bar", B_bar, u.dtype)
    check_fits("lengths", lengths, (batch,), "B_bar", B_bar, torch.int64)
    if every < 1:
        raise ValueError(f"every: expected a number of steps of at least 1, got {every}")
    for name, tensor in outputs.items():
        check_fits(name, tensor, (batch, L // every, H, N), "B_bar", B_bar, u.dtype)


def check_convolution(u: Tensor, K: Tensor, D: Tensor, grad: Tensor | None = None) -> None:
    """Refuse signals and kernels that do not fit together."""
    check_real("u", u, "batch, L, H", (torch.float32, torch.float64))  # there is no FFT of half precision
    _, L, H = u.shape
    if K.ndim != 3 or K.shape[0] not in (1, 2):
        raise ValueError(f"K: expected {u.dtype} (1 or 2, {H}, {L}), got {describe(K)}")
    check_fits("K", K, (K.shape[0], H, L), "u", u)
    check_fits("D", D, (H,), "u", u)
    if grad is not None:
        check_fits("grad", grad, u.shape, "u", u)


def check_activation(z: Tensor, keep: Tensor, grad: Tensor | None = None) -> None:
    """Refuse a mask that does not fit its signal."""
    check_real("z", z, "batch, L, H", (torch.float32,))
    check_fits("keep", keep, (z.shape[0], z.shape[2]), "z", z)
    if grad is not None:
        check_fits("grad", grad, z.shape, "z", z)


def check_mix(z: Tensor, keep: Tensor, weight: Tensor, bias: Tensor | None, grad: Tensor | None = None) -> None:
    """Refuse weights that do not fit a signal."""
    check_activation(z, keep)
    out = weight.shape[0] if weight.ndim else 0
    check_fits("weight", weight, (out, z.shape[2]), "z", z)
    if bias is not None:
        check_fits("bias", bias, (out,), "z", z)
    if grad is not None:
        check_fits("grad", grad, (*z.shape[:2], out), "z", z)


def check_gate(x: Tensor, z: Tensor, bias: Tensor, name: str = "x") -> None:
    """Refuse gates that do not fit a signal."""
    check_real(name, x, "batch, L, H", (torch.float32,))
    batch, L, H = x.shape
    check_fits("z", z, (batch, L, 2 * H), name, x)
    check_fits("bias", bias, (2 * H,), name, x)


def check_gated_mix(x: Tensor, z: Tensor, weight: Tensor, bias: Tensor, name: str = "x") -> None:
    """Refuse weights of gates that do not fit a signal."""
    check_real("z", z, "batch, L, H", (torch.float32,))
    H = z.shape[2]
    for key, given, shape in ((name, x, z.shape), ("weight", weight, (2 * H, H)), ("bias", bias, (2 * H,))):
        check_fits(key, given, shape, "z", z)


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
    """Refuse what the compiled library could not change in place: a copy would not do."""
    if not is_plain(tensor) or tensor.dtype is not dtype or tensor.shape != shape:
        raise _unreadable(name, tensor, dtype, shape)


def _unreadable(name: str, tensor: Tensor, dtype: torch.dtype, shape: Sequence[int]) -> ValueError:
    came = f"{type(tensor).__name__} of " if type(tensor) is FakeTensor else ""
    came += _with_device(tensor)
    if tensor.layout is _STRIDED and not tensor.is_contiguous():
        came += ", not contiguous"
    if tensor.is_neg() or tensor.is_conj():
        came += ", not resolved"
    return ValueError(
        f"{name}: expected {dtype} {tuple(shape)} in the CPU's memory, which the compiled ops read, got {came}; "
        f"call {name}.to('cpu', {dtype}), or set LONGWAVE_KERNEL=reference"
    )


def _with_device(tensor: Tensor) -> str:
    said = describe(tensor)
    return said if tensor.device.type != "cpu" else f"{said} on cpu"
