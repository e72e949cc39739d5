"""Run a model on an endless sequence, piece by piece, in constant memory.

    live = longwave.stream(model, hop=1600, window=16000)
    y = live.push(x)  # x (B, any number of steps, channels), y (B, outputs that became due, output_size)

The outputs of a causal model are those on the whole sequence so far, to rounding, however it is cut into pieces: long
pieces go through the convolution, with states handed on, short ones through the recurrence. A model that needs a whole
sequence is run on a sliding window.
"""

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from longwave.layers.checks import advice, check_count, check_rate, describe
from longwave.models import weights
from longwave.models.pooling import POOLINGS
from longwave.models.recurrence import Recurrence

LONGEST = 4096  # steps of a chunk: more are cut, so that memory does not depend on how much is pushed at once
TOGETHER = 1 << 12  # steps of the windows that go through the model at once
SHORTEST = 96  # a chunk of fewer steps takes longer than the steps themselves
MOST = 2**53  # steps of a stream: as many as float64 can count
FORMAT, NOTE = 2, "longwave"  # of a saved state, and where in its header the settings are


class Stream:
    """y = stream.push(x): stream input through a model, whose weights must not change meanwhile.

    hop     steps from one output to the next: 1 gives one after each step
    window  a causal model with decoder "mean": the mean over the last `window` steps instead of the whole past; a model
            that needs a whole sequence: its output for the last `window` steps. While there are fewer, for those
    batch   how many sequences run side by side
    rate    the input is sampled at 1/rate of the frequency that the model was trained at
    """

    def __init__(
        self, model: Any, *, hop: int = 1, window: int | None = None, batch: int = 1, rate: float = 1.0
    ) -> None:
        _check_model(model)
        check_count("hop", hop)
        check_count("batch", batch)
        check_rate(rate)
        if window is not None:
            check_count("window", window)
        if rate != 1 and not model.config.supports_rate:
            raise ValueError(
                f"rate: {model.config.label} has no notion of the time between steps; expected 1.0, got {rate}"
            )
        self.model, self.hop, self.window, self.batch, self.rate = model, hop, window, batch, rate
        self.steps = 0  # pushed so far
        obstacle = _obstacle(model.config)
        if obstacle is None:
            self._engine: Carried | SlidingWindow = Carried(model, hop=hop, window=window, batch=batch, rate=rate)
        elif window is not None and model.config.takes_any_length:
            self._engine = SlidingWindow(model, hop=hop, window=window, batch=batch, rate=rate)
        else:
            remedy = "set a window (--window) to run it on the last steps, or " * model.config.takes_any_length
            raise ValueError(f"model: {obstacle[0]}; {remedy}{obstacle[1]}")

    @torch.no_grad()
    def push(self, x: Tensor) -> Tensor:
        """The outputs that x (B, L, input_size), or tokens (B, L), makes due: (B, n, output_size).

        One becomes due after every `hop`-th step since the beginning: that of the model if the sequence ended there.
        """
        self._check(x)
        outputs = [self._engine.weight.new_zeros(self.batch, 0, self.model.config.output_size)]
        for piece in self._pieces(x):
            outputs.append(self._engine(piece, self.steps))
            self.steps += piece.shape[1]
        return torch.cat(outputs, dim=1)

    @torch.no_grad()
    def skip(self, x: Tensor) -> None:
        """Take steps as `push` does, without the outputs: a sliding window need not compute them."""
        self._check(x)
        for piece in self._pieces(x):
            self._engine.skip(piece, self.steps)
            self.steps += piece.shape[1]

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self._engine.weight.device

    def _pieces(self, x: Tensor) -> Iterator[Tensor]:
        return (piece for piece in x.split(LONGEST, dim=1) if piece.shape[1])

    def _check(self, x: Tensor) -> None:
        config = self.model.config
        is_token = bool(config.vocabulary)
        shape = (self.batch, "L") if is_token else (self.batch, "L", config.input_size)
        fits = isinstance(x, Tensor) and x.ndim == len(shape) and len(x) == self.batch
        if not fits or x.shape[2:] != shape[2:]:
            expected = f"{'tokens' if is_token else 'a tensor'} ({', '.join(map(str, shape))})"
            raise ValueError(f"x: expected {expected}, got {describe(x)}{advice('x', x, not is_token)}")

    # The state

    @property
    def state(self) -> dict[str, Tensor]:
        """Everything that later outputs depend on, as real tensors by name: a copy, of the same size after any step."""
        found = {"steps": torch.tensor(self.steps)} | self._engine.state
        return {name: values.detach().clone() for name, values in found.items()}

    @state.setter
    def state(self, state: Mapping[str, Tensor]) -> None:
        own = self.state
        if not isinstance(state, Mapping):
            raise ValueError(f"state: expected tensors by name, as Stream.state has them, got {describe(state)}")
        if differing := sorted(map(repr, state.keys() ^ own.keys())):
            raise ValueError(
                f"state: expected that of a stream with the same settings; only one of the two has {differing[0]}"
            )
        for name, values in own.items():
            if not _is_alike(state[name], values):
                raise ValueError(f"state: {name}: expected {describe(values)}, got {describe(state[name])}")
        moved = {name: state[name].detach().to(values.device, copy=True) for name, values in own.items()}
        if not 0 <= int(moved["steps"]) <= MOST:
            raise ValueError(f"state: steps: expected a count from 0 to 2^53, got {int(moved['steps'])}")
        self.steps = int(moved.pop("steps"))
        self._engine.state = moved

    def copy(self) -> "Stream":
        """A second stream that continues from here independently; the model and what is derived from it are shared."""
        other = self._on(self.model)
        other._engine.constants = self._engine.constants
        return other

    def _on(self, model: Any) -> "Stream":
        other = Stream(model, hop=self.hop, window=self.window, batch=self.batch, rate=self.rate)
        other.state = self.state
        return other

    def save(self, path: str | Path) -> None:
        """Write the state as safetensors with a checksum, atomically."""
        weights.write(Path(path), self.state, {NOTE: json.dumps(self._described)})

    def load(self, path: str | Path) -> "Stream":
        """Resume from a state that `save` wrote, of the same model with the same settings; nothing is unpickled."""
        what = "the state of a stream, as Stream.save writes it"
        state, notes = weights.read_with_notes(Path(path), what, "start the stream again")
        try:
            described = json.loads(notes[NOTE])
        except (KeyError, ValueError, RecursionError) as error:
            raise ValueError(f"{path}: expected {what}, got tensors without settings ({error})") from error
        if not isinstance(described, dict) or weights.SUM not in notes:
            raise ValueError(f"{path}: expected {what}, got tensors without settings or without a checksum")
        for name, value in self._described.items():
            if described.get(name) != value:
                other = "other weights" if name == "weights" else f"{described.get(name)!r:.40}"
                raise ValueError(f"{path}: {name}: this stream has {value!r:.20}, but the state is of {other}")
        self.state = state
        return self

    @property
    def _described(self) -> dict[str, Any]:
        """The settings and weights that a saved state belongs to."""
        digest = hashlib.sha256()
        for name, values in self.model.state_dict().items():
            plain = values.detach().cpu().contiguous()
            digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}".encode())
            digest.update(plain.view(-1).view(torch.uint8).numpy().tobytes())
        settings = {"hop": self.hop, "window": self.window, "batch": self.batch, "rate": self.rate}
        return {"format": FORMAT, **settings, "weights": digest.hexdigest()}

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> "Stream":
        return self._on(copy.deepcopy(self.model, memo))


stream = Stream  # as the package calls it


class Carried:
    """The outputs of a causal model, whose blocks and pooling carry on what they have seen in states of fixed size."""

    def __init__(self, model: Any, *, hop: int, window: int | None, batch: int, rate: float) -> None:
        self.model, self.rate, self.weight = model, rate, model.decoder.linear.weight
        self.recurrence = Recurrence(model, batch, rate=rate)
        self.pooling = POOLINGS[model.config.decoder](hop, window, (batch, model.config.d_model), self.weight)
        self.constants: Any = None  # of the chunks; derived when first needed

    def __call__(self, x: Tensor, before: int) -> Tensor:
        """The outputs (B, n, output_size) that steps x (B, L, ...) make due after `before` others."""
        y: Tensor = self.model.decoder.linear(self.pooling(self._features(x), before))
        return y

    def skip(self, x: Tensor, before: int) -> None:
        """Take steps without computing outputs."""
        self.pooling(self._features(x), before)

    def _features(self, x: Tensor) -> Tensor:
        """The decoder's input (B, L, d_model) for a piece."""
        if x.shape[1] < SHORTEST:
            return torch.stack([self.recurrence.features(x[:, k]) for k in range(x.shape[1])], dim=1)
        if self.constants is None:
            self.constants = self.model.chunk_constants(LONGEST, self.rate)
        z: Tensor
        z, self.recurrence.states = self.model.chunk_features(
            x, self.recurrence.states, rate=self.rate, constants=self.constants
        )
        return z

    @property
    def state(self) -> dict[str, Tensor]:
        """The states of blocks and pooling, as real tensors by name."""
        found = {f"pooling.{name}": values for name, values in self.pooling.state.items()}
        for k, state in enumerate(self.recurrence.states):
            found |= _flat(f"blocks.{k}", state)
        return found

    @state.setter
    def state(self, state: Mapping[str, Tensor]) -> None:
        self.recurrence.states = [_like(f"blocks.{k}", s, state) for k, s in enumerate(self.recurrence.states)]
        self.pooling.state = {name: state[f"pooling.{name}"] for name in self.pooling.state}


class SlidingWindow:
    """The outputs of a model that is rerun at every hop on the last `window` steps, or as many as there are.

    For models that need whole sequences: bidirectional ones, and those whose state would grow. Where the model
    has an output for each step, it is that of the last. The state is the steps themselves.
    """

    constants: Any = None  # that copies share: none

    def __init__(self, model: Any, *, hop: int, window: int, batch: int, rate: float) -> None:
        self.model, self.hop, self.window = model, hop, window
        self.weight = next(p for p in model.parameters() if p.is_floating_point())
        self._settings = {} if rate == 1 else {"rate": rate}
        is_token = bool(model.config.vocabulary)
        shape = (batch, window) if is_token else (batch, window, model.config.input_size)
        inputs = torch.zeros(shape, dtype=torch.long if is_token else self.weight.dtype, device=self.weight.device)
        self.state = {"inputs": inputs}

    def __call__(self, x: Tensor, before: int) -> Tensor:
        """The outputs (B, n, output_size) that steps x (B, L, ...) make due after `before` others."""
        seen = self._keep(x)
        ends = range((before // self.hop + 1) * self.hop, before + x.shape[1] + 1, self.hop)
        outputs = [self.weight.new_zeros(len(x), 0, self.model.config.output_size)]
        together = max(1, TOGETHER // (self.window * len(x)))
        for length, group in groupby(ends, lambda end: min(end, self.window)):
            stops = [self.window + end - before for end in group]
            for k in range(0, len(stops), together):
                windows = torch.stack([seen[:, stop - length : stop] for stop in stops[k : k + together]], dim=1)
                y, _ = self.model(windows.flatten(0, 1), **self._settings)
                outputs.append((y[:, -1] if y.ndim == 3 else y).unflatten(0, windows.shape[:2]))
        return torch.cat(outputs, dim=1)

    def skip(self, x: Tensor, before: int) -> None:
        """Take steps without computing outputs."""
        self._keep(x)

    def _keep(self, x: Tensor) -> Tensor:
        """Keep the last steps; return those kept before, followed by x."""
        inputs = self.state["inputs"]
        seen = torch.cat((inputs, x.to(inputs.dtype)), dim=1)
        self.state = {"inputs": seen[:, -self.window :].clone()}
        return seen


def _check_model(model: Any) -> None:
    """Refuse objects that are not models, and models in training mode."""
    if getattr(model, "config", None) is None:
        raise ValueError(f"model: expected a longwave model, such as SequenceModel, got {type(model).__name__}")
    if model.training:
        raise ValueError("model: it is in training mode; call model.eval() first")


def _obstacle(config: Any) -> tuple[str, str] | None:
    """Why a model cannot carry a state of fixed size from step to step, and what can be done about it."""
    if config.decoder not in POOLINGS:
        return (
            f"a {config.kind} takes whole sequences or windows",
            "train a causal SequenceModel (--model.kind SequenceModel --model.mixer.no-bidirectional)",
        )
    if config.cutoffs or config.logistics:
        head = "an adaptive softmax (cutoffs)" if config.cutoffs else "a mixture of logistics"
        return (
            f"{head} gives log-probabilities, step by step",
            "use longwave.generate, or longwave.models.Recurrence",
        )
    if not config.streams:
        return (
            "it is bidirectional, so every output depends on future steps",
            "train one with bidirectional=False (--model.mixer.no-bidirectional)",
        )
    if not config.mixer.has_fixed_state:
        return (
            f"{config.label} keeps every step it has seen, so its memory would grow with the stream",
            "use S4 or another mixer with a state of fixed size",
        )
    return None


def _is_alike(values: Any, own: Tensor) -> bool:
    """Whether a value has the type and shape of a state's tensor."""
    return (
        isinstance(values, Tensor)
        and values.layout == torch.strided
        and values.device.type != "meta"
        and (values.shape, values.dtype) == (own.shape, own.dtype)
    )


def _flat(name: str, state: Any) -> dict[str, Tensor]:
    """A mixer's state as real tensors by name."""
    if isinstance(state, Tensor):
        return {name: torch.view_as_real(state.resolve_conj()) if state.is_complex() else state}
    if not isinstance(state, tuple):
        raise ValueError(f"state: expected tensors, or tuples of them, got {describe(state)} in {name}")
    return {key: part for k, one in enumerate(state) for key, part in _flat(f"{name}.{k}", one).items()}


def _like(name: str, state: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The inverse of `_flat`, for a state of the form of `state`."""
    if isinstance(state, Tensor):
        return torch.view_as_complex(tensors[name].contiguous()) if state.is_complex() else tensors[name]
    parts = [_like(f"{name}.{k}", one, tensors) for k, one in enumerate(state)]
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
