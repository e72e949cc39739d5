"""The maths of S4 as pure functions of tensors, in the paper's order and letters."""

from longwave.ssm.cauchy import cauchy_kernel, cauchy_product
from longwave.ssm.chunk import DiagonalPowers, Powers, response, state_after
from longwave.ssm.conv import fft_conv
from longwave.ssm.diagonal import Rule, diagonal_discrete, diagonal_kernel
from longwave.ssm.discretize import DiscreteDPLR, bilinear, dplr_bilinear, dplr_step, moved_row
from longwave.ssm.hippo import INITS, NPLR, dplr, hippo, nplr
from longwave.ssm.irregular import even_steps, irregular
from longwave.ssm.kernel import dplr_kernel, generating_function_kernel, output_map, power_kernel, truncated_output_map
from longwave.ssm.states import block_size

__all__ = [
    "INITS",
    "NPLR",
    "DiagonalPowers",
    "DiscreteDPLR",
    "Powers",
    "Rule",
    "bilinear",
    "block_size",
    "cauchy_kernel",
    "cauchy_product",
    "diagonal_discrete",
    "diagonal_kernel",
    "dplr",
    "dplr_bilinear",
    "dplr_kernel",
    "dplr_step",
    "even_steps",
    "fft_conv",
    "generating_function_kernel",
    "hippo",
    "irregular",
    "moved_row",
    "nplr",
    "output_map",
    "power_kernel",
    "response",
    "state_after",
    "truncated_output_map",
]
