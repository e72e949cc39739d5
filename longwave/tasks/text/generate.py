"""Generate text after a prompt, byte by byte or word by word."""

import secrets
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from longwave.core.terminal import say
from longwave.models.generate import stream
from longwave.models.recurrence import WeightType
from longwave.tasks.actions import OnDevice, check_kind
from longwave.tasks.autoregressive import START
from longwave.tasks.base import Action, TrainedRun
from longwave.tasks.text.codecs import Codec


@dataclass(frozen=True)
class Sampling(OnDevice):
    """Sampling options."""

    temperature: float = 1.0
    """Below 1 favours likely tokens, above 1 rare ones; 0 always takes the most likely."""
    top_k: int | None = None
    """Sample from this many of the most likely tokens only."""
    top_p: float | None = None
    """Sample from the fewest tokens whose total probability is at least this."""
    min_p: float | None = None
    """Sample from tokens that have at least this share of the most likely one's probability."""
    repetition_penalty: float | None = None
    """Above 1: lower the logits of tokens that occurred before, for less repetition."""
    seed: int | None = None
    """Random seed; by default a random one, which is printed."""
    weights: WeightType = "float32"
    """Type of the weights of linear layers: fewer bytes take less time to read, and predict slightly worse."""

    def choice(self) -> dict[str, Any]:
        """Keywords for `longwave.generate`, with a random seed: torch would start every process with the same one."""
        seed = secrets.randbelow(2**32) if self.seed is None else self.seed
        limits = {"min_p": self.min_p, "repetition_penalty": self.repetition_penalty}
        return {
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            **limits,
            "seed": seed,
            "weights": self.weights,
        }

    def print_seed(self, choice: dict[str, Any]) -> None:
        """Print a random seed, once there is something to reproduce."""
        if self.seed is None:
            print(f"seed {choice['seed']}", file=sys.stderr)


def continue_text(
    model: Any, codec: Codec, prompt: str, length: int, *, tokenised: bool = False, **choice: Any
) -> Iterator[str]:
    """Yield the prompt and `length` sampled tokens as text, piece by piece.

    Words are joined as in written text, unless `tokenised`. `choice` has temperature, top_k, top_p, min_p,
    repetition_penalty, stop and seed of `longwave.generate`.
    """
    given = codec.encode(prompt)
    steps = stream(model, torch.tensor([[START, *given]]), length, **choice)

    def tokens() -> Iterator[int]:
        yield from given
        for step, _ in steps:
            yield int(step)

    return codec.decode(tokens()) if tokenised else codec.prose(tokens())


def write_text(run: TrainedRun, prompt: str, length: int, *, device: str = "auto", **choice: Any) -> Iterator[str]:
    """Continue text with the best weights of a run (see `continue_text`)."""
    return continue_text(run.load_best(device), _codec(run), prompt, length, **choice)


def _codec(run: TrainedRun) -> Codec:
    check_kind(run, "generate", ACTION, "generates text")
    settings: Any = run.settings
    codec: Codec = settings.codec(run.path)
    trained = run.fact("vocabulary", int)
    if codec.size != trained:
        raise ValueError(f"{run.path}: expected the vocabulary of training, {trained} tokens, got {codec.size}")
    return codec


@dataclass(frozen=True)
class Options(Sampling):
    """Generate text that continues a prompt, printed as it is sampled.

    Example: longwave generate runs/text-my-seed0 --prompt "Once upon a time" --length 500 --temperature 0.8
    """

    prompt: str = ""
    """The text to continue."""
    length: int = 500
    """Bytes or words to generate."""
    count: int = 1
    """Number of texts."""
    stop: str | None = None
    """A byte or a word at which a text ends, before its length is reached."""
    tokenised: bool = False
    """Print words as in the data, with a space before each, instead of joining punctuation to them."""


def _generate(run: TrainedRun, options: Options) -> Iterator[str]:
    if options.count < 1:
        raise ValueError(f"count: expected at least 1, got {options.count}")
    codec, choice = _codec(run), options.choice()
    if options.stop is not None:
        choice["stop"] = _stop(codec, options.stop)
    model = run.load_best(options.device)
    for k in range(options.count):
        seeded = choice | {"seed": choice["seed"] + k}
        text = continue_text(model, codec, options.prompt, options.length, tokenised=options.tokenised, **seeded)
        if k == 0:  # which was not refused
            options.print_seed(choice)
            if unknown := codec.unknown(options.prompt):
                say(f"note: not in the vocabulary, read as <unk>: {', '.join(unknown)}")
        if options.count > 1:
            yield f"--- {k + 1} of {options.count} ---\n"
        yield from map(_printable, text)
        yield "\n"


def _stop(codec: Codec, text: str) -> int:
    """The single token of a text."""
    tokens = codec.encode(text)
    if len(tokens) != 1 or codec.unknown(text):
        raise ValueError(f"stop: expected one byte or one word of the vocabulary, got {text!r}")
    return tokens[0]


def _printable(text: str) -> str:
    """Text that is safe to print: a terminal would obey control characters."""
    text = text.replace("\r", "")  # of CRLF
    return "".join("\ufffd" if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in text)


def generate(run: TrainedRun, prompt: str = "", length: int = 500, **choice: Any) -> str:
    """Generate text for `longwave generate`."""
    return "".join(write_text(run, prompt, length, **choice))


ACTION = Action(Options, _generate, generate)
