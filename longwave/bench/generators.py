"""The models whose generation is timed, with random weights: ours and GPT-2, small and at the size of the paper's."""

from typing import Any

import torch
from torch import Tensor

from longwave.experiments import EXPERIMENTS
from longwave.layers import MIXERS
from longwave.models import Recurrence, SequenceConfig, SequenceModel

LAYERS, WIDTH, HEADS, FEED_FORWARD = 4, 256, 4, 1024
# Layers, features, heads and hidden features of the GPT-2 beside the paper's models. That of WikiText-103 has the shape
# of S4's, of which a layer has two mixers where a Transformer has one; that of CIFAR-10 has as many parameters as the
# U-Net.
PAPER_SIZES = {"wikitext103": (16, 1024, 8, 4096), "cifar10": (20, 512, 8, 2048)}
EXPERIMENT_OF = {"s4-paper": "wikitext103", "unet-paper": "cifar-density", "unet-large-paper": "cifar-density-large"}
SHAPE_OF = {"gpt2-paper": "wikitext103", "gpt2-unet-paper": "cifar10"}


# A generator is a model with its `state`, and the token that it reads next. `read` reads tokens (B, L) at once, `step`
# reads one and chooses the next; the work of a step repeats itself after `period` of them.


class OurGenerator:
    """A model of ours, stepped as in `longwave.generate`."""

    def __init__(self, model: Any, batch: int) -> None:
        """On the device of the model."""
        self.model: Any = model.eval()
        self.period: int = getattr(model, "group", 1)  # the lower levels of a U-Net run once in a group of steps
        device = next(model.parameters()).device
        self.recurrence, self.tokens = Recurrence(model, batch), torch.zeros(batch, dtype=torch.long, device=device)

    @property
    def state(self) -> Any:
        return self.recurrence.state

    def read(self, tokens: Tensor) -> None:
        """Read a context with the forward pass, without logits if possible, since they may be many."""
        if self.model.gives_features:
            states, decoder_state = self.state
            state = self.model.features(tokens, states)[1], decoder_state
        else:
            state = self.model(tokens, self.state, need_state=True)[1]
        self.recurrence = Recurrence(self.model, len(tokens), state)

    def step(self) -> None:
        self.tokens = self.recurrence(self.tokens).argmax(-1)


def gpt2_config(vocabulary: int, steps: int, layers: int, width: int, heads: int, hidden: int) -> Any:
    """The settings of Hugging Face's GPT-2, without special tokens."""
    from transformers import GPT2Config

    sizes: dict[str, Any] = {"n_embd": width, "n_layer": layers, "n_head": heads, "n_inner": hidden}
    return GPT2Config(vocab_size=vocabulary, n_positions=steps, **sizes, bos_token_id=None, eos_token_id=None)


class GPT2Generator:
    """Hugging Face's GPT-2 with its own cache of keys and values."""

    period = 1

    def __init__(self, steps: int, vocabulary: int, batch: int, device: str = "cpu") -> None:
        from transformers import GPT2LMHeadModel

        config = gpt2_config(vocabulary, steps, LAYERS, WIDTH, HEADS, FEED_FORWARD)
        self.model: Any = GPT2LMHeadModel(config).eval().to(device)
        self.state, self.tokens = None, torch.zeros(batch, dtype=torch.long, device=device)

    def read(self, tokens: Tensor) -> None:
        """Read a context without the logits, since they may be many."""
        read = self.model.transformer(tokens, past_key_values=self.state, use_cache=True)
        self.state = read.past_key_values

    def step(self) -> None:
        out = self.model(self.tokens.unsqueeze(1), past_key_values=self.state, use_cache=True)
        self.state, self.tokens = out.past_key_values, out.logits[:, -1].argmax(-1)


class GPT2Body:
    """GPT-2 of the paper's size without embedding and softmax: it reads features, and chooses no token."""

    period = 1

    def __init__(self, shape: str, steps: int, batch: int, device: str = "cpu") -> None:
        from transformers import GPT2Model

        sizes = PAPER_SIZES[shape]
        self.model: Any = GPT2Model(gpt2_config(1, steps, *sizes)).eval().to(device)
        self.state, self.features = None, torch.randn(batch, 1, sizes[1], device=device)

    def read(self, tokens: Tensor) -> None:
        """Read as many random features as there are tokens."""
        features = self.features.expand(-1, tokens.shape[1], -1)
        self.state = self.model(inputs_embeds=features, past_key_values=self.state, use_cache=True).past_key_values

    def step(self) -> None:
        self.read(self.features[..., 0])


def make_model(name: str, vocabulary: int) -> SequenceModel:
    """Build one of our small token models."""
    kind = name.removesuffix("-feed-forward")
    config = SequenceConfig(
        d_model=WIDTH,
        n_layers=LAYERS,
        mixer=MIXERS[kind].from_dict({} if kind.startswith("s4") else {"heads": HEADS}),
        feed_forward=FEED_FORWARD if name != kind else 0,
        decoder="sequence",
        vocabulary=vocabulary,
        output_size=vocabulary,
    )
    return config.build()


def make_generator(
    name: str, steps: int, vocabulary: int, batch: int, device: str = "cpu"
) -> OurGenerator | GPT2Generator | GPT2Body:
    """A model with random weights, ready to generate."""
    if name == "gpt2":
        return GPT2Generator(steps, vocabulary, batch, device)
    if name in SHAPE_OF:
        return GPT2Body(SHAPE_OF[name], steps, batch, device)
    if name in EXPERIMENT_OF:
        experiment = EXPERIMENTS.find(EXPERIMENT_OF[name])
        model: Any = experiment.model.resolve(experiment.task.on_random_data(rows=1).spec).build()
        return OurGenerator(model.to(device), batch)
    return OurGenerator(make_model(name, vocabulary).to(device), batch)
