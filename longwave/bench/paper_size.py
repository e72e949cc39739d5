"""The models of the paper's tab:wt103 at their own size, with random weights, for the speed of generation."""

from typing import Any

import torch
from torch import Tensor

from longwave.experiments import EXPERIMENTS

# Layers, features, heads and hidden features of the GPT-2 beside each. That of WikiText-103 has the shape of S4's, of
# which a layer has two mixers where a Transformer has one; that of CIFAR-10 has as many parameters as the U-Net.
SIZES = {"wikitext103": (16, 1024, 8, 4096), "cifar10": (20, 512, 8, 2048)}


def caption(points: int) -> str:
    """What was measured, at so many contexts."""
    sizes = ", and with ".join(
        f"{layers} layers, {width:,} features, {heads} heads and {hidden:,} hidden features"
        for layers, width, heads, hidden in SIZES.values()
    )
    return (
        "The models of the experiments wikitext103, with embedding and adaptive softmax, and cifar-density, a U-Net, "
        f"whose step is a mean over a group of 48; beside them Hugging Face's GPT-2, with a cache, with {sizes}, "
        "without embedding and softmax, as the paper compares them; random weights, greedy decoding. Sampled: a step "
        f"is timed at {points} contexts. paper: speed over its Transformer on an A100, each at the largest batch that "
        "fits into memory."
    )


def make_model(name: str) -> Any:
    """The model of a named experiment."""
    experiment = EXPERIMENTS.find(name)
    return experiment.model.resolve(experiment.task.on_random_data(rows=1).spec).build()


class GPT2Body:
    """GPT-2 of the paper's size without embedding and softmax: it reads features, and chooses no token."""

    period = 1

    def __init__(self, shape: str, steps: int, batch: int) -> None:
        from transformers import GPT2Config, GPT2Model

        layers, width, heads, hidden = SIZES[shape]
        config = GPT2Config(
            vocab_size=1,
            n_positions=steps,
            n_embd=width,
            n_layer=layers,
            n_head=heads,
            n_inner=hidden,
            bos_token_id=None,
            eos_token_id=None,
        )
        self.model: Any = GPT2Model(config).eval()
        self.state, self.features = None, torch.randn(batch, 1, width)

    def read(self, tokens: Tensor) -> None:
        """Read as many features as there are tokens (B, L)."""
        features = self.features.expand(-1, tokens.shape[1], -1)
        self.state = self.model(inputs_embeds=features, past_key_values=self.state, use_cache=True).past_key_values

    def step(self) -> None:
        """Read the features of one step."""
        self.read(self.features[..., 0])
