"""The backend `native`: the ops by the compiled library, for float32 and float64 on the CPU."""

import torch
from torch import Tensor

from longwave.ops.backend import BACKENDS, Backend, functions_of
from longwave.ops.cpu import block, convolution, kernel, library, states, step


def _serves(tensor: Tensor) -> bool:
    return tensor.is_cpu and tensor.dtype in (torch.float32, torch.float64)


BACKENDS.register("native")(
    Backend(
        "native",
        functions_of(*map(vars, (kernel, states, convolution, block, step))),
        description=lambda: f"{library.vector_bits()}-bit vectors, {torch.get_num_threads()} threads",
        unavailable=library.unavailable,
        serves=_serves,
    )
)
