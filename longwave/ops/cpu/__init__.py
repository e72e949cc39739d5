"""The backend `native`: the ops by the compiled library, for float32 and float64 on the CPU."""

import torch
from torch import Tensor

from longwave.ops.backend import BACKENDS, Backend
from longwave.ops.cpu import block, convolution, library, powers, spectrum, states, step


def _serves(tensor: Tensor) -> bool:
    return tensor.is_cpu and tensor.dtype in (torch.float32, torch.float64)


BACKENDS.register("native")(
    Backend(
        "native",
        {
            "spectrum": spectrum.spectrum,
            "spectrum_backward": spectrum.spectrum_backward,
            "truncate": spectrum.truncate,
            "truncate_backward": spectrum.truncate_backward,
            "power_sum": powers.power_sum,
            "power_sum_backward": powers.power_sum_backward,
            "krylov": states.krylov,
            "krylov_backward": states.krylov_backward,
            "power": states.power,
            "power_backward": states.power_backward,
            "collect": states.collect,
            "collect_backward": states.collect_backward,
            "spread": states.spread,
            "spread_backward": states.spread_backward,
            "scan": states.scan,
            "scan_backward": states.scan_backward,
            "convolve": convolution.convolve,
            "convolve_backward": convolution.convolve_backward,
            "activate": block.activate,
            "activate_backward": block.activate_backward,
            "mix": block.mix,
            "mix_backward": block.mix_backward,
            "gate": block.gate,
            "gate_backward": block.gate_backward,
            "gated_mix": block.gated_mix,
            "gated_mix_backward": block.gated_mix_backward,
            "layer_steps": step.layer_steps,
            "block_steps": step.block_steps,
            "same": step.same,
        },
        description=lambda: f"{library.vector_bits()}-bit vectors, {torch.get_num_threads()} threads",
        unavailable=library.unavailable,
        serves=_serves,
    )
)
