"""The backend `native`: the ops by the compiled library, for float32 and float64 on the CPU."""

import torch

from longwave.ops.backend import BACKENDS, Backend, functions_of
from longwave.ops.cpu import block, convolution, kernel, library, model_step, states, step


def _serves(device: str, dtype: torch.dtype) -> bool:
    return device == "cpu" and dtype in (torch.float32, torch.float64)


BACKENDS.register("native")(
    Backend(
        "native",
        functions_of(*map(vars, (kernel, states, convolution, block, step, model_step))),
        description=lambda: f"{library.vector_bits()}-bit vectors, {torch.get_num_threads()} threads",
        unavailable=library.unavailable,
        devices=("cpu",),
        serves=_serves,
    )
)
