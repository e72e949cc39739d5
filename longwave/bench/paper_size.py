"""The models of the paper's tab:wt103 at their own size, with random weights, for the speed of generation."""

from typing import Any

import torch
from torch import Tensor

from longwave.experiments import EXPERIMENTS
from longwave.models import SequenceModel

# Layers, features, heads, hidden features. A layer of S4 has two mixers where a Transformer has one.
SIZE = (16, 1024, 8, 4096)


def caption(points: int) -> str:
    """What was measured, at so many contexts."""
    return (
        "The model of experiment wikitext103, with embedding and adaptive softmax, beside Hugging Face's GPT-2, with "
        f"a cache, {SIZE[0]} layers, {SIZE[1]:,} features, {SIZE[2]} heads and {SIZE[3]:,} hidden features, without "
        "embedding and softmax, as the paper compares them; random weights, greedy decoding. Sampled: a step is timed "
        f"at {points} contexts. paper: speed over its Transformer on an A100, each at the largest batch that fits into "
        "memory."
    )


def make_model() -> SequenceModel:
    """The paper's S4."""
    experiment = EXPERIMENTS.find("wikitext103")
    model: SequenceModel = experiment.model.resolve(experiment.task.on_random_data(rows=1).spec).build()
    return model


class GPT2Body:
    """GPT-2 of the paper's size without embedding and softmax: it reads features, and chooses no token."""

    def __init__(self, steps: int, batch: int) -> None:
        from transformers import GPT2Config, GPT2Model

        layers, width, heads, hidden = SIZE
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
