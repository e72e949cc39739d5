"""SSM parameters need a low learning rate and no weight decay: an optimiser without either is warned about.

`longwave.param_groups` gives an optimiser the right groups. Passing `model.parameters()` instead gives one
warning, at the first step: the model would train, but to a worse score.
"""

import warnings
import weakref
from collections.abc import Sequence
from typing import Any, Literal, get_args

from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

HIGHEST = 1e-3  # the rate that the paper trains them at

_seen: "weakref.WeakSet[Optimizer]" = weakref.WeakSet()


def ssm_parameters(layer: nn.Module, role: str = "SSM_PARAMETERS") -> dict[str, nn.Parameter]:
    """The parameters that a layer lists under `role`, by name.

    SSM_PARAMETERS     dt, Lambda, P, B and the like
    DT_PARAMETERS      of these, dt
    OUTPUT_PARAMETERS  C, or what stands for it
    """
    return {name: layer.get_parameter(name) for name in getattr(layer, role, ())}


Part = Literal["A", "B", "dt"]
Trainable = bool | tuple[Part, ...]  # all of them, none, or those that are named


def mark_ssm(layer: nn.Module, trainable: Trainable) -> None:
    """Mark the SSM parameters of a new layer for optimisers, and freeze those that are not trained.

    `trainable` is True, False, or names: "A" (all of the state matrix: Lambda, P ...), "B", "dt".
    """
    named: Sequence[str] = get_args(Part) if trainable is True else () if trainable is False else trainable
    if isinstance(named, str) or not set(named) <= set(get_args(Part)):
        expected = f"True, False, or names out of {', '.join(get_args(Part))} (C and D are always trained)"
        raise ValueError(f"trainable: expected {expected}, got {trainable!r}")
    for name, parameter in ssm_parameters(layer).items():
        parameter._longwave_ssm = True  # type: ignore[attr-defined]
        part = "dt" if name in ssm_parameters(layer, "DT_PARAMETERS") else "B" if name == "B" else "A"
        parameter.requires_grad_(part in named)


def _warn_of_plain_optimiser(optimizer: Optimizer, *_: Any) -> None:
    if optimizer in _seen:
        return
    _seen.add(optimizer)
    for group in optimizer.param_groups:
        marked = [getattr(p, "_longwave_ssm", False) for p in group["params"]]
        rate, decay = float(group.get("lr", 0)), group.get("weight_decay", 0)
        harmful = decay > 0 or rate > HIGHEST
        if any(marked) and not all(marked) and harmful:
            warnings.warn(
                "the SSM parameters (dt, Lambda, P, B) of a longwave model are trained like all other parameters, at "
                f"learning rate {rate:g} with weight decay {decay:g}; pass the optimiser "
                "longwave.param_groups(model, lr=...) instead of model.parameters()",
                UserWarning,
                stacklevel=3,
            )
            return


register_optimizer_step_pre_hook(_warn_of_plain_optimiser)
