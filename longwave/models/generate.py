"""Generation: the prompt is read by the convolution, the tokens after it are drawn by the recurrence."""

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from longwave import ops
from longwave.layers.checks import check_choice, check_count
from longwave.models.recurrence import Recurrence, WeightType
from longwave.models.rows import Rows, Stop, check_limits
from longwave.ops.checks import doubles

Reads = Callable[[Tensor, int], Tensor]
START = 0  # what an empty prompt stands for; the tasks of longwave begin every sequence with it
MOST_LOGITS = 2**27  # of a prompt, in memory at once: 512 MB in float32


def generate(
    model: nn.Module,
    prompt: Tensor,
    length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    *,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    stop: Stop = None,
    reads: Reads | None = None,
    weights: WeightType = "float32",
) -> Tensor:
    """The `length` tokens (B, length) that follow a prompt (B, L), drawn from the model's predictions.

    temperature   divides the logits: below 1 favours likely tokens, above 1 rare ones; 0 always takes the most likely
    top_k         draw from the k most likely tokens only
    top_p         draw from the fewest tokens that have this probability together (after top_k)
    min_p         draw from tokens that have at least this share of the most likely one's probability
    repetition_penalty   above 1 for less repetition: divides positive logits, and multiplies negative ones, of tokens
                  that a row has already, its prompt included (before the temperature)
    stop          a token, or several, that end a row: it then repeats that token, until all rows have ended
    seed          the same seed gives the same tokens; None draws from torch's own generator
    reads         for a model whose input has more tokens than its output: reads(tokens (B, 1), first) is what it reads
                  for tokens with `first` of them before; the prompt is in terms of the input, with its start token
    weights       how the compiled steps keep the weights of linear layers (see Recurrence): bfloat16, float16 and int8
                  take less time to read, and the model predicts a little worse; the prompt is read in float32

    A prompt without tokens, (B, 0), is read as the one token 0. The model is used as after `eval()`, whatever its mode.
    """
    more: dict[str, Any] = {
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "stop": stop,
        "reads": reads,
        "weights": weights,
    }
    steps = stream(model, prompt, length, temperature, top_k, top_p, seed, **more)
    return torch.stack([tokens for tokens, _ in steps], dim=1)


def stream(
    model: nn.Module,
    prompt: Tensor,
    length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    *,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    stop: Stop = None,
    reads: Reads | None = None,
    weights: WeightType = "float32",
) -> Iterator[tuple[Tensor, Tensor]]:
    """Generate step by step: yields tokens (B,) and the probabilities (B, vocabulary) that they were drawn from.

    The weights have to stay as they are from the first step to the last. For S4 the time and the memory of a step are
    the same at any step.
    """
    _check_model(model, reads is not None)
    _check_choice(length, temperature, top_k, top_p)
    config: Any = model.config
    stops = check_limits(config.output_size, min_p, repetition_penalty, stop)
    if repetition_penalty is not None and reads is not None:
        raise ValueError("repetition_penalty: expected None, since this model reads other tokens than it predicts")
    prompt = _check_prompt(prompt, model)
    draws = None if seed is None else torch.Generator(prompt.device).manual_seed(seed)
    rows = Rows(prompt, config.output_size, repetition_penalty, stops)
    check_choice("weights", weights, ops.WEIGHT_TYPES)
    return _steps(model, prompt, length, (temperature, top_k, top_p, min_p), draws, reads, rows, weights)


def probabilities(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Tensor:
    """Probabilities of the next token: softmax(logits / temperature) over the tokens that are left, 0 for others."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    largest = logits.amax(-1, keepdim=True)
    # A single NaN is the largest. For one row, as sound is generated, tensor operations would take longer.
    if not (math.isfinite(float(largest)) if largest.numel() == 1 else bool(largest.isfinite().all())):
        raise ValueError("model: its logits are NaN or infinite; did training diverge?")
    if temperature == 0:
        return nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
    if temperature != 1:
        # In this order and in float64: a small temperature should give no infinities, nor be rounded to 0.
        logits = (doubles(logits - largest)[0] / temperature).to(logits.dtype)
    chances = logits.softmax(-1)
    if top_k is None and top_p is None and min_p is None:
        return chances
    ordered, order = chances.topk(min(top_k or chances.shape[-1], chances.shape[-1]), dim=-1)
    if top_p is not None and top_p < 1:
        likelier = ordered.cumsum(-1) - ordered
        ordered = torch.where(likelier < top_p * ordered.sum(-1, keepdim=True), ordered, 0)
    if min_p is not None:
        ordered = torch.where(ordered < min_p * ordered[..., :1], 0, ordered)
    return torch.zeros_like(chances).scatter(-1, order, ordered / ordered.sum(-1, keepdim=True))


def draw(chances: Tensor, draws: torch.Generator | None = None) -> Tensor:
    """A token for each row of probabilities (B, vocabulary), by one random number each.

    torch.multinomial draws a number for each token of the vocabulary, which takes several times as long.
    """
    rows, vocabulary = chances.shape
    cumulative = doubles(chances)[0].cumsum(-1)
    numbers = torch.rand(rows, 1, generator=draws, dtype=torch.float64, device=chances.device)
    numbers *= cumulative.narrow(-1, vocabulary - 1, 1)
    tokens = torch.searchsorted(cumulative, numbers, right=True)
    return tokens.squeeze(-1).clamp_(max=vocabulary - 1)  # should the product be rounded up to the whole


def _steps(
    model: Any,
    prompt: Tensor,
    length: int,
    choice: tuple[float, int | None, float | None, float | None],
    draws: Any,
    reads: Reads | None,
    rows: Rows,
    weights: WeightType,
) -> Iterator[tuple[Tensor, Tensor]]:
    with torch.no_grad(), _evaluation(list(model.modules())):
        logits, state = _read(model, prompt)
        step = Recurrence(model, len(prompt), state, weights=weights)
        modules = list(step.modules())
    del state  # what attention has read so far is large
    known = prompt.shape[1] - 1  # tokens after the first, which starts
    for left in reversed(range(length)):
        chances = rows.limited(probabilities(rows.penalised(logits), *choice))
        tokens = draw(chances, draws)
        yield tokens, chances
        if rows.add(tokens):
            return
        if left:
            # Entered at each step: between two of them the model has the mode that its owner gave it.
            with _evaluation(modules):
                made = known + length - 1 - left
                logits = step(tokens if reads is None else reads(tokens.unsqueeze(1), made).squeeze(1))


def _read(model: Any, prompt: Tensor) -> tuple[Tensor, Any]:
    """The logits after a prompt, and the state. A model that gives its features works out no other logits."""
    if model.gives_features:
        features, states = model.features(prompt)
        logits, decoder_state = model.decoder.step(features[:, -1], None)
        return logits, (states, decoder_state)
    state: Any = None
    for part in prompt.split(max(1, MOST_LOGITS // (len(prompt) * model.config.output_size)), dim=1):
        logits, state = model(part, state, need_state=True)
    return logits[:, -1], state


@contextlib.contextmanager
def _evaluation(modules: list[nn.Module]) -> Iterator[None]:
    """Put modules in evaluation mode within the block, and restore each module's mode afterwards."""
    training = [module for module in modules if module.training]
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module in training:
            module.training = True


def _check_model(model: Any, reads_other: bool) -> None:
    config: Any = getattr(model, "config", None)
    if config is None or not config.vocabulary:
        raise ValueError(
            f"model: expected one with a vocabulary in its config, which reads tokens, got a {type(model).__name__}"
        )
    if config.decoder != "sequence" or (config.output_size != config.vocabulary and not reads_other):
        raise ValueError(
            f'model: expected decoder "sequence" and a logit for each of {config.vocabulary} tokens at every step, '
            f'got decoder "{config.decoder}" and output_size {config.output_size}'
        )
    if not config.streams:
        raise ValueError(
            "model: a bidirectional model sees future tokens, and cannot generate; train one with bidirectional=False"
        )


def _check_choice(length: int, temperature: float, top_k: int | None, top_p: float | None) -> None:
    check_count("length", length)
    if not 0 <= temperature < math.inf:
        raise ValueError(
            f"temperature: expected a finite number of at least 0 (0: always the most likely token), got {temperature}"
        )
    if top_k is not None:
        check_count("top_k", top_k)
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p: expected a probability above 0 and up to 1, or None for all tokens, got {top_p}")


def _check_prompt(prompt: Tensor, model: Any) -> Tensor:
    """The prompt on the model's device, with at least one token."""
    prompt = torch.as_tensor(prompt)
    device = next(model.parameters()).device
    for name, where in (("prompt", prompt.device), ("model", device)):
        if where.type == "meta":
            raise ValueError(
                f"{name}: expected numbers, got tensors on the meta device, which have none; load them first"
            )
    if prompt.ndim != 2 or len(prompt) < 1:
        raise ValueError(f"prompt: expected tokens (batch, length), at least one row, got {tuple(prompt.shape)}")
    if prompt.shape[1] == 0:
        prompt = torch.full((len(prompt), 1), START)  # what dtype an empty tensor has says nothing
    if prompt.is_floating_point() or prompt.is_complex() or prompt.dtype == torch.bool:
        raise ValueError(f"prompt: expected whole numbers, got {prompt.dtype}")
    low, high, vocabulary = int(prompt.min()), int(prompt.max()), model.config.vocabulary
    if low < 0 or high >= vocabulary:
        raise ValueError(f"prompt: expected tokens from 0 to {vocabulary - 1}, got {low if low < 0 else high}")
    return prompt.long().to(device)
