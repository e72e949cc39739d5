"""State dicts as the authors' code would write them, made from models of ours: an inverse map, written on its own."""

import math

import torch
from torch import nn

from longwave import S4
from longwave.layers.block import MaskedBatchNorm, ScalarNorm
from longwave.models import SequenceModel, UNet
from longwave.models.unet_levels import FeedForward, Level

KERNELS = {2: "layer.kernel.kernel.", 3: "layer.kernel.kernel.", 4: "layer.layer.kernel."}
INVERSES = {  # of what makes a parameter positive
    "exp": torch.log,
    "none": lambda x: x,
    "relu": lambda x: x - 1e-4,
    "sigmoid": torch.logit,
    "softplus": lambda x: torch.log(torch.expm1(x)),
}


def vary(model, seed=0):
    """Weights that no part could do without: nothing is 0 or 1, and no two are alike."""
    draw = torch.Generator().manual_seed(seed)

    def uniform(tensor, low, high):
        tensor.copy_(low + (high - low) * torch.rand(tensor.shape, generator=draw))

    with torch.no_grad():
        for name, parameter in [*model.named_parameters(), *model.named_buffers()]:
            last = name.rpartition(".")[2]
            if last in ("Lambda_re", "running_var"):
                uniform(parameter, 0.2, 0.9)
            elif last == "log_dt":
                uniform(parameter, math.log(0.01), math.log(0.3))
            elif last == "softplus_inverse_dt":
                uniform(parameter, -4, -1)
            elif parameter.is_floating_point():
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw))
    return model.eval()


def to_authors(model, version=3, *, real="exp", systems=None, plain_pools=False):
    """The state dict of a model in the authors' names; `systems` of a layer are kept where they repeat.

    The pools of a U-Net have normalised weights, or plain ones.
    """
    write = _stack if isinstance(model, SequenceModel) else _unet
    assert isinstance(model, SequenceModel | UNet)
    state = write(model, lambda layer: _kernel(layer, version, real, systems))
    if version == 2 and isinstance(model, UNet):  # which has biases of its (B, H, L) layers as columns
        state = {n: t.unsqueeze(1) if ".layer." in n and n.endswith("bias") else t for n, t in state.items()}
    if plain_pools:
        state = _with_plain_pools(state)
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def _with_plain_pools(state):
    found = {name: t for name, t in state.items() if not name.endswith(("weight_g", "weight_v"))}
    for name, direction in state.items():
        if name.endswith("weight_v"):
            rows = [g * v / v.norm() for g, v in zip(state[f"{name[:-1]}g"], direction, strict=True)]
            found[name[:-2]] = torch.stack(rows)
    return found


def _kernel(layer, version, real, systems):
    assert isinstance(layer, S4)
    S = layer.n_ssm if systems is None else systems
    assert layer.sharing == "turns" or layer.n_ssm in (1, layer.d_model)  # theirs take turns
    re, im = INVERSES[real](layer.Lambda_re[:S].detach()), layer.Lambda_im[:S]
    C = layer.C if layer.length is None else layer.C_tilde
    names = {
        "P": layer.P[:, :S],
        "B": layer.B[:S].unsqueeze(0),
        "C": C if layer.bidirectional else C.unsqueeze(0),
    }
    length = layer.length or 0
    dt = layer.log_dt if layer.dt_transform == "exp" else layer.softplus_inverse_dt
    if version == 4:
        names |= {"inv_dt": dt.unsqueeze(1), "A_real": re, "A_imag": -im, "l_kernel": torch.tensor(length)}
    elif version == 3:
        names |= {"log_dt": dt, "inv_w_real": re, "w_imag": im, "L": torch.tensor(length)}
    else:
        nodes = torch.zeros(length // 2 + 1, 2)
        names |= {"log_dt": dt, "omega": nodes, "z": nodes}
        if layer.low_rank == "pq":  # A = w - P Q^T
            names |= {"w": torch.stack((-layer.Lambda_re, im), dim=-1), "Q": layer.Q * torch.tensor([1.0, -1.0])}
        else:
            names |= {"log_w_real": re, "w_imag": im}
    skip = {("layer.layer.D" if version == 4 else "layer.D"): layer.D.unsqueeze(0)}
    return {KERNELS[version] + name: tensor for name, tensor in names.items()} | skip


def _norm(norm):
    if isinstance(norm, ScalarNorm):
        return {"norm.norm.m": norm.shift, "norm.norm.s": norm.weight}
    names = {f"norm.norm.{name}": tensor for name, tensor in norm.state_dict().items()}
    return names | ({"norm.norm.num_batches_tracked": torch.tensor(7)} if isinstance(norm, MaskedBatchNorm) else {})


def _s4(block, kernel):
    output = "layer.output_linear.0." if block.glu else "layer.output_linear."
    linear = {output + name: tensor for name, tensor in block.linear.state_dict().items()}
    return _norm(block.norm) | kernel(block.mixer) | linear


def _feed_forward(norm, widen, narrow):
    found = _norm(norm)
    for prefix, linear in (("layer.ff.0.0.", widen), ("layer.ff.2.", narrow)):
        found |= {prefix + name: tensor for name, tensor in linear.state_dict().items()}
    return found


def _stack(model, kernel):
    layers = []
    for block in model.blocks:
        layers.append(_s4(block, kernel))
        if block.feed_forward is not None:
            layers.append(_feed_forward(block.feed_forward_norm, block.feed_forward[0], block.feed_forward[3]))
    state = {f"model.layers.{k}.{name}": t for k, layer in enumerate(layers) for name, t in layer.items()}
    if model.norm is not None:
        state |= {f"model.{name}": tensor for name, tensor in _norm(model.norm).items()}
    return state | (_adaptive(model) if model.config.cutoffs else _ends(model))


def _ends(model):
    state = {f"encoder.0.{name}": tensor for name, tensor in model.encoder.values.state_dict().items()}
    return state | {
        f"decoder.0.output_transform.{name}": tensor for name, tensor in model.decoder.linear.state_dict().items()
    }


def _adaptive(model):
    embedding, softmax, state = model.encoder.values, model.decoder, {}
    loss = {"out_projs.0": softmax.projection.T}
    for name in ("weight", "bias"):
        rows = getattr(softmax.clusters, name)
        loss[f"cluster_{name}"] = torch.stack([rows[len(rows) - 1 - j] for j in range(len(rows))])
    for i, (vectors, projection) in enumerate(zip(embedding.vectors, embedding.projections, strict=True)):
        state |= {f"encoder.0.emb_layers.{i}.weight": vectors, f"encoder.0.emb_projs.{i}": projection}
        loss |= {f"out_layers_biases.{i}": softmax.biases[i], f"shared_out_projs.{i}": projection}
    return state | {f"{name}.{key}": tensor for name in ("loss", "loss_val") for key, tensor in loss.items()}


def _unet(model, kernel):
    """Flat lists of layers with a skip at each; lists of lists where there are stages."""
    has_stages = model.config.skips == "stages"

    def layer(one):
        if isinstance(one, FeedForward):
            return _feed_forward(one.norm, one.widen, one.narrow)
        return _s4(one, kernel)

    def pool(one):
        weight = one.linear.parametrizations.weight
        return {
            "linear.weight_g": weight.original0,
            "linear.weight_v": weight.original1,
            "linear.bias": one.linear.bias.unsqueeze(1),
        }

    down, up, level = [], [], model.levels
    while isinstance(level, Level):
        down += [layer(one) for one in level.down] + [pool(level.pool)]
        up.append([pool(level.unpool)] + [layer(one) for one in level.up])
        level = level.below
    lists = {"d_layers": down, "c_layers": [layer(one) for one in level.layers]}
    state = {
        f"model.{n}.{k}.{key}": t for n, some in lists.items() for k, one in enumerate(some) for key, t in one.items()
    }
    stages = up[::-1]
    if has_stages:
        named = {f"{j}.{k}": one for j, stage in enumerate(stages) for k, one in enumerate(stage)}
    else:
        named = {str(k): one for k, one in enumerate(one for stage in stages for one in stage)}
    state |= {f"model.u_layers.{name}.{key}": t for name, one in named.items() for key, t in one.items()}
    assert isinstance(model.norm, nn.LayerNorm)
    return state | {f"model.norm.{name}": t for name, t in model.norm.state_dict().items()} | _ends(model)
