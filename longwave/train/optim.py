"""Optimisers and parameter groups: SSM parameters need a lower learning rate and no weight decay."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from longwave.layers.block import Block, MaskedBatchNorm, ScalarNorm
from longwave.layers.rates import ssm_parameters
from longwave.train.lamb import Lamb

if TYPE_CHECKING:
    from longwave.experiments.base import OptimConfig

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {"adamw": torch.optim.AdamW, "lamb": Lamb}

NORMS = (nn.LayerNorm, MaskedBatchNorm, ScalarNorm)


def make_optimizer(model: nn.Module, settings: "OptimConfig") -> torch.optim.Optimizer:
    """The optimiser of a run."""
    groups = param_groups(
        model,
        settings.lr,
        settings.weight_decay,
        settings.ssm_lr,
        settings.dt_lr,
        settings.c_lr,
        decay_norms=settings.decay_norms,
    )
    return OPTIMIZERS[settings.method](groups)


def param_groups(
    module: nn.Module,
    lr: float,
    weight_decay: float = 0.0,
    ssm_lr: float = 1e-3,
    dt_lr: float | None = None,
    c_lr: float | None = None,
    *,
    decay_norms: bool = True,
) -> list[dict[str, Any]]:
    """Groups for an optimiser: torch.optim.AdamW(longwave.param_groups(model, lr=0.01, weight_decay=0.05)).

    dt, Lambda, P and B of every S4 layer, and dt, A and B of every LSSL, train at `ssm_lr` (dt at `dt_lr`, if given)
    without weight decay; all else, C and D included, at `lr` with `weight_decay` (C at `c_lr`, if given, with the same
    decay). Frozen parameters are left out. With `decay_norms` False, norms and the biases of blocks are not decayed
    either, as in the authors' later code; those of encoder and decoder are.
    """
    rates = {"lr": lr, "weight_decay": weight_decay, "ssm_lr": ssm_lr, "dt_lr": dt_lr, "c_lr": c_lr}
    for name, value in rates.items():
        if value is not None and not 0 <= value < float("inf"):
            raise ValueError(f"{name}: expected a finite number >= 0, got {value}")
    dt = _listed(module, "DT_PARAMETERS")
    ssm = {key: p for key, p in _listed(module, "SSM_PARAMETERS").items() if key not in dt}
    output = {} if c_lr is None else _listed(module, "OUTPUT_PARAMETERS")
    norms = {} if decay_norms else _norms_and_biases(module)
    apart = {*ssm, *dt, *output, *norms}
    rest = {id(p): p for p in module.parameters() if id(p) not in apart}
    groups: list[dict[str, Any]] = [
        {"params": _trainable(rest), "lr": lr, "weight_decay": weight_decay, "name": "rest"},
        {"params": _trainable(ssm), "lr": ssm_lr, "weight_decay": 0.0, "name": "ssm"},
        {"params": _trainable(dt), "lr": ssm_lr if dt_lr is None else dt_lr, "weight_decay": 0.0, "name": "dt"},
        {"params": _trainable(output), "lr": c_lr, "weight_decay": weight_decay, "name": "C"},
        {"params": _trainable(norms), "lr": lr, "weight_decay": 0.0, "name": "norms"},
    ]
    return [group for group in groups if group["params"]]


def _listed(module: nn.Module, role: str) -> dict[int, nn.Parameter]:
    """Parameters that the layers of a module list under a role (see `ssm_parameters`)."""
    return {id(p): p for layer in module.modules() for p in ssm_parameters(layer, role).values()}


def _norms_and_biases(module: nn.Module) -> dict[int, nn.Parameter]:
    """The parameters of all norms, and the biases within blocks: those of encoder and decoder are not among them."""
    found = [p for layer in module.modules() if isinstance(layer, NORMS) for p in layer.parameters()]
    for block in module.modules():
        if isinstance(block, Block):
            found += [p for name, p in block.named_parameters() if name.rpartition(".")[2] == "bias"]
    return {id(p): p for p in found}


def _trainable(parameters: dict[int, nn.Parameter]) -> list[nn.Parameter]:
    return [p for p in parameters.values() if p.requires_grad]
