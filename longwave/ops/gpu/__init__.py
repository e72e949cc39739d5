"""The backend `triton`: the spectrum and the step of a layer on GPUs of NVIDIA and AMD, in float32 and float64.

All else is plain torch there, as the reference has it.
"""

import torch

from longwave.ops.backend import BACKENDS, Backend, functions_of
from longwave.ops.gpu import launch, spectrum, step


def _serves(device: str, dtype: torch.dtype) -> bool:
    is_here = device == "cuda" or (device == "cpu" and launch.is_interpreted())
    return is_here and dtype in (torch.float32, torch.float64)


BACKENDS.register("triton")(
    Backend(
        "triton",
        functions_of(vars(spectrum), vars(step)),
        description=launch.description,
        unavailable=launch.unavailable,
        devices=("cuda",),
        serves=_serves,
    )
)
