"""Convert models of the authors' S4 code: names, parameters and settings.

The settings of a model are read from the names and shapes of its tensors. Every tensor has to find its place, or be
known as a copy of another. `state_spaces.py` tells the versions of that code apart and maps the parameters of an S4
layer; `stack.py` maps a residual layer, the ends of a model and stacks of layers, `unet.py` U-Nets (docs: import).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from longwave.layers.checks import check_choice
from longwave.layers.state_space import DtTransform
from longwave.models import pretrained
from longwave.models.authors.stack import Converted, Output, Weights, convert_stack
from longwave.models.authors.state_spaces import RealTransform, Transforms
from longwave.models.authors.tensors import Tensors
from longwave.models.authors.unet import convert_unet
from longwave.models.base import ModelConfig
from longwave.models.foreign import Checkpoint, read_checkpoint

__all__ = ["Converted", "Output", "RealTransform", "convert", "from_authors"]


def from_authors(
    source: str | Path | Mapping[str, Tensor],
    *,
    dt: DtTransform | None = None,
    real: RealTransform | None = None,
    decoder: Output = "mean",
) -> Any:
    """Build the model, in evaluation mode, from a state dict or its file; for the keywords see `convert`."""
    checkpoint = Checkpoint(dict(source), None) if isinstance(source, Mapping) else read_checkpoint(source)
    converted = convert(checkpoint, dt=dt, real=real, decoder=decoder)
    model = converted.config.build()
    model.load_state_dict(converted.weights)
    return model.eval()


def convert(
    checkpoint: Checkpoint,
    *,
    dt: DtTransform | None = None,
    real: RealTransform | None = None,
    decoder: Output = "mean",
) -> Converted:
    """Convert a file of theirs to our settings and weights: a language model, a U-Net, SaShiMi, or a plain stack.

    What the tensors cannot say:

    dt       how dt stays positive, in version 4: the exponential of its parameter, or its softplus; by default what the
             hyper-parameters of the file say, which has to be given where there are none
    real     the same of -Re Lambda, in versions 3 and 4; by default what the hyper-parameters say, or exp
    decoder  what a plain stack of layers puts out: the mean over the steps, the last step, or every step
    """
    for name, value, kinds in (("dt", dt, DtTransform), ("real", real, RealTransform), ("decoder", decoder, Output)):
        if value is not None:
            check_choice(name, value, get_args(kinds))
    tensors = Tensors(checkpoint.tensors)
    is_unet = tensors.has("model.c_layers.")
    if not is_unet and not tensors.has("model.layers."):
        raise ValueError(
            "expected the names of the authors' models, model.layers.0 (language models, classifiers) or "
            f"model.c_layers.0 (U-Nets, SaShiMi), got {tensors.some()}"
        )
    tensors.drop_copies("loss_val.", "loss.")
    how = Transforms(
        dt=dt or _stated(checkpoint, "dt", get_args(DtTransform)),
        real=real or _stated(checkpoint, "real", get_args(RealTransform)) or "exp",
    )
    converted = convert_unet(tensors, how) if is_unet else convert_stack(tensors, how, decoder)
    if left := tensors.some():
        raise ValueError(f"these tensors have no counterpart in a longwave {converted.config.kind}: {left}")
    # Copies, as safetensors refuses tensors that share memory, which those of a file may do.
    weights = {name: tensor.to(torch.float32, copy=True).contiguous() for name, tensor in converted.weights.items()}
    _check_fit(converted.config, weights)
    return converted._replace(weights=weights)


def _stated(checkpoint: Checkpoint, name: Literal["dt", "real"], known: Sequence[str]) -> Any:
    """The transform of dt or of the real parts that the hyper-parameters of a file name; None if they do not."""
    found = sorted(map(str, checkpoint.values(f"{name}_transform")))
    if not found:
        return None
    if len(found) > 1 or found[0] not in known:
        raise ValueError(
            f"{name}_transform, of the file's hyper-parameters: expected one of {', '.join(known)}, got "
            f"{', '.join(found)}; say which is right (--{name})"
        )
    return found[0]


def _check_fit(config: ModelConfig, weights: Weights) -> None:
    """Refuse weights that are not those of the model of the settings, name by name and shape by shape."""
    with torch.device("meta"):
        model = pretrained.build(config, "the tensors")
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise ValueError(
                f"the tensors do not fit together: {name}: expected {expected.get(name, 'none')} in a {config.kind} of "
                f"the sizes of the others, got {found.get(name, 'none')}"
            )
        if not weights[name].isfinite().all():
            raise ValueError(f"{name}, of the file: expected finite numbers, got NaN or infinity among them")
