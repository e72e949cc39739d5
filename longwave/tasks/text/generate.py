"""Text that follows a prompt, byte by byte or word by word."""

import secrets
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from longwave.core.terminal import say
from longwave.models.generate import stream
from longwave.tasks.actions import OnDevice, check_kind
from longwave.tasks.autoregressive import START
from longwave.tasks.base import Action, TrainedRun
from longwave.tasks.text.codecs import Codec


@dataclass(frozen=True)
class Sampling(OnDevice):
    """How tokens are drawn."""

    temperature: float = 1.0
    """Below 1 for the likelier, above 1 for the rarer, 0 for the likeliest each time."""
    top_k: int | None = None
    """Draw from so many of the likeliest tokens only."""
    top_p: float | None = None
    """Draw from the fewest tokens that have this probability together."""
    min_p: float | None = None
    """Draw from tokens that have at least this share of the likeliest one's probability."""
    repetition_penalty: float | None = None
    """Above 1 for less repetition: tokens that came before get lower logits."""
    seed: int | None = None
    """The same seed generates the same; by default one is drawn, and printed."""

    def choice(self) -> dict[str, Any]:
        """What `longwave.generate` takes, with a seed: not left to torch, which starts every process with the same."""
        seed = secrets.randbelow(2**32) if self.seed is None else self.seed
        limits = {"min_p": self.min_p, "repetition_penalty": self.repetition_penalty}
        return {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p, **limits, "seed": seed}

    def print_seed(self, choice: dict[str, Any]) -> None:
        """Print the seed of a choice if it was drawn: once there is something to repeat, not before an error."""
        if self.seed is None:
            print(f"seed {choice['seed']}", file=sys.stderr)


def continue_text(
    model: Any, codec: Codec, prompt: str, length: int, *, tokenised: bool = False, **choice: Any
) -> Iterator[str]:
    """The prompt and `length` tokens after it, as text, piece by piece as they are drawn.

    Words are joined as in written text, unless `tokenised`. `choice` is what `longwave.generate` takes of temperature,
    top_k, top_p, min_p, repetition_penalty, stop and seed.
    """
    given = codec.encode(prompt)
    steps = stream(model, torch.tensor([[START, *given]]), length, **choice)

    def tokens() -> Iterator[int]:
        yield from given
        for step, _ in steps:
            yield int(step)

    return codec.decode(tokens()) if tokenised else codec.prose(tokens())


def write_text(run: TrainedRun, prompt: str, length: int, *, device: str = "auto", **choice: Any) -> Iterator[str]:
    """As `continue_text`, with the best weights of a run on text."""
    return continue_text(run.load_best(device), _codec(run), prompt, length, **choice)


def _codec(run: TrainedRun) -> Codec:
    check_kind(run, "generate", ACTION, "generates text")
    settings: Any = run.settings
    codec: Codec = settings.codec(run.path)
    trained = run.fact("vocabulary", int)
    if codec.size != trained:
        raise ValueError(f"{run.path}: expected the vocabulary of training, of {trained} tokens, got {codec.size}")
    return codec


@dataclass(frozen=True)
class Options(Sampling):
    """Generate text that goes on from a prompt; it appears as it is drawn.

    Example: longwave generate runs/text-my-seed0 --prompt "Once upon a time" --length 500 --temperature 0.8
    """

    prompt: str = ""
    """The text to go on from."""
    length: int = 500
    """Bytes or words to generate."""
    count: int = 1
    """How many texts."""
    stop: str | None = None
    """A byte or a word at which a text ends, before its length is reached."""
    tokenised: bool = False
    """Words as they are in the data, with a space before each: no punctuation is joined to the word before it."""


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
                say(f"note: not in the vocabulary, and read as <unk>: {', '.join(unknown)}")
        if options.count > 1:
            yield f"--- {k + 1} of {options.count} ---\n"
        yield from map(_printable, text)
        yield "\n"


def _stop(codec: Codec, text: str) -> int:
    """The one token that a text is."""
    tokens = codec.encode(text)
    if len(tokens) != 1 or codec.unknown(text):
        raise ValueError(f"stop: expected one byte or one word of the vocabulary, got {text!r}")
    return tokens[0]


def _printable(text: str) -> str:
    """What a terminal may be given: it would obey control characters."""
    text = text.replace("\r", "")  # of lines that end in both
    return "".join("\ufffd" if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in text)


ACTION = Action(Options, _generate)
