"""Double precision, which some devices lack: Apple's (MPS), and some of Intel's (XPU)."""

import torch
from torch import Tensor


def doubles(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in float64, or complex128; a device without it is refused with what to do."""
    for tensor in tensors:
        if not tensor.is_cpu and not has_float64(tensor.device):
            raise ValueError(
                "device: expected one with float64, which longwave computes in where float32 would lose digits, "
                f"got {tensor.device}; use device='cpu' (--device cpu)"
            )
    return tuple([t.to(torch.complex128 if t.is_complex() else torch.float64) for t in tensors])


def has_float64(device: torch.device) -> bool:
    """Whether a device computes in double precision."""
    if device.type == "xpu" and torch.xpu.is_available():
        return bool(torch.xpu.get_device_properties(device).has_fp64)
    return device.type != "mps"
