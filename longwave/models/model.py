"""A deep sequence model: encoder, residual blocks, decoder; it streams if it is causal."""

from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from longwave.layers import NORMS, Block, make_mixer
from longwave.layers.block import valid_steps
from longwave.layers.checks import check_count
from longwave.models import pretrained
from longwave.models.config import ModelConfig
from longwave.models.heads import Decoder, Encoder, Window


class SequenceModel(nn.Module):
    """y, state = model(x); y_t, state = model.step(x_t, state); model.save_pretrained(folder)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if config.norm not in NORMS:
            raise ValueError(f"norm: expected one of {', '.join(NORMS)}, got {config.norm!r}")
        check_count("d_model", config.d_model)
        check_count("n_layers", config.n_layers)
        if config.feed_forward < 0:
            raise ValueError(f"feed_forward: expected a width, or 0 for none, got {config.feed_forward}")
        self.config = config
        self.encoder = Encoder(config)
        self.blocks = nn.ModuleList(_block(config) for _ in range(config.n_layers))
        self.norm = NORMS[config.norm](config.d_model) if config.prenorm else None
        self.decoder = Decoder(config)
        self.window = Window(config.window, config.horizon if config.decoder == "forecast" else 0)
        if config.window != "none" and (config.decoder != "forecast" or config.input_size != config.output_size):
            raise ValueError(
                f"window: {config.window!r} wants a forecast of the channels that come in, "
                f"got decoder {config.decoder!r}, {config.input_size} channels in and {config.output_size} out"
            )

    def forward(
        self,
        x: Tensor,
        state: Any = None,
        *,
        time: Tensor | None = None,
        lengths: Tensor | None = None,
        rate: float = 1.0,
        need_state: bool = False,
    ) -> tuple[Tensor, Any]:
        """The output for x (B, L, input_size) or tokens (B, L), and the state after it if it is wanted."""
        if state is not None and self.config.decoder == "forecast":
            raise ValueError(
                "state: a forecast model takes a whole window at once; forecast_by_steps goes step by step"
            )
        valid = None
        if lengths is not None:
            lengths = torch.as_tensor(lengths, device=x.device)
            valid = valid_steps(lengths, x)
            # Whatever stands in the padding, even NaN, must not reach a weight's gradient.
            x = torch.where(valid if x.ndim == 3 else valid.squeeze(-1), x, 0)
            time = None if time is None else torch.where(valid, time, 0)
        measured = self.window.measure(x, lengths)
        z = self.encoder(self.window.normalise(x, measured, lengths), time, self.window.unknown(x, lengths))
        states, decoder_state = ([None] * len(self.blocks), None) if state is None else state
        after = []
        for block, before in zip(self.blocks, states, strict=True):
            z, s = block(z, before, lengths=lengths, valid=valid, rate=rate, need_state=need_state)
            after.append(s)
        if self.norm is not None:
            z = self.norm(z, valid)
        y, decoder_state = self.decoder(z, decoder_state, lengths=lengths, valid=valid)
        return self.window.restore(y, measured), (after, decoder_state) if need_state else None

    def initial_state(self, batch: int) -> Any:
        """The state before the first step."""
        return [block.initial_state(batch) for block in self.blocks], None  # type: ignore[operator]

    def step(
        self, x: Tensor, state: Any, *, time: Tensor | None = None, unknown: Tensor | None = None, rate: float = 1.0
    ) -> tuple[Tensor, Any]:
        """One step: x (B, input_size) or tokens (B,). The output is what forward gives if the sequence ends here.

        A forecast model takes and gives values in units of the window (see `Window`), and `unknown` (1,) is 1 where x
        is 0 because it is to be forecast; `forecast_by_steps` does it all.
        """
        if self.training and self.config.norm == "batch":
            raise ValueError("step: batch norm in training mixes all steps of a batch; call model.eval() first")
        states, decoder_state = state
        z = self.encoder(x.unsqueeze(1), None if time is None else time.unsqueeze(1), unknown).squeeze(1)
        after = []
        for block, before in zip(self.blocks, states, strict=True):
            z, s = block.step(z, before, rate=rate)  # type: ignore[operator]
            after.append(s)
        if self.norm is not None:
            z = self.norm(z.unsqueeze(1), None).squeeze(1)
        y, decoder_state = self.decoder.step(z, decoder_state)
        return y, (after, decoder_state)

    def forecast_by_steps(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        """The forecast of a whole window (B, context + horizon, channels) by the recurrence, one step at a time."""
        measured = self.window.measure(x)
        x = self.window.normalise(x, measured)
        unknown = self.window.unknown(x)
        state, outputs = self.initial_state(len(x)), []
        for k in range(x.shape[1]):
            time_k = None if time is None else time[:, k]
            y, state = self.step(x[:, k], state, time=time_k, unknown=None if unknown is None else unknown[k])
            outputs.append(y)
        return self.window.restore(torch.stack(outputs[-self.config.horizon :], dim=1), measured)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json and model.safetensors into `folder`; each appears whole or not at all."""
        pretrained.save(self, folder)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """The model that `save_pretrained` wrote; offline, and nothing is unpickled."""
        model = pretrained.load(folder, {"SequenceModel": (ModelConfig, cls)})
        assert isinstance(model, cls)
        return model


def _block(config: ModelConfig) -> Block:
    mixer = make_mixer(config.mixer, config.d_model, vars(config))
    return Block(
        mixer,
        config.d_model,
        norm=config.norm,
        prenorm=config.prenorm,
        dropout=config.dropout,
        tie_dropout=config.tie_dropout,
        glu=config.glu,
        feed_forward=config.feed_forward,
        mix_features=not getattr(mixer, "mixes_features", False),
    )
