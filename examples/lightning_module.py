"""Train S4 with Lightning: a module around SequenceModel, on noisy tones of two pitches that are made here.

    pip install lightning
    python examples/lightning_module.py

dt, A and B of the state spaces want a lower learning rate and no weight decay; `longwave.param_groups` sees to that.
"""

import math
from typing import Any

import lightning
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import longwave


class S4Module(lightning.LightningModule):
    """A SequenceModel that learns to classify; its settings are plain values, which any checkpoint can hold."""

    def __init__(self, settings: dict[str, Any], lr: float = 0.01) -> None:
        super().__init__()
        self.save_hyperparameters()  # so that load_from_checkpoint builds the same model
        self.model = longwave.SequenceModel(longwave.SequenceConfig.from_dict(settings))

    def forward(self, x: Tensor) -> Tensor:
        """Logits (batch, classes) of x (batch, length, channels)."""
        return self.model(x)[0]

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        """The cross-entropy of a batch."""
        x, y = batch
        loss, _ = self.model(x, labels=y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: list[Tensor], index: int) -> None:
        """The accuracy of a batch."""
        x, y = batch
        self.log("accuracy", (self(x).argmax(-1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW, with groups of parameters."""
        groups = longwave.param_groups(self.model, lr=self.hparams["lr"], weight_decay=0.05)
        return torch.optim.AdamW(groups)


def tones(count: int, seed: int, length: int = 128) -> TensorDataset:
    """Sequences (count, length, 1) of a lower or a higher pitch with a random phase, in noise; and which it is."""
    draws = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    phase = 2 * math.pi * torch.rand(count, 1, generator=draws)
    periods = torch.where(labels == 0, 5.0, 7.0).unsqueeze(-1)
    clean = torch.sin(2 * math.pi * periods * torch.arange(length) / length + phase)
    return TensorDataset((clean + torch.randn(count, length, generator=draws)).unsqueeze(-1), labels)


def main(epochs: int = 5, **trainer: Any) -> tuple[S4Module, float]:
    """The trained module, and its accuracy on tones that it was not trained on."""
    lightning.seed_everything(0, verbose=False)
    mixer = longwave.S4Config(d_state=16)
    config = longwave.SequenceConfig(d_model=16, n_layers=2, input_size=1, output_size=2, mixer=mixer)
    module = S4Module(config.to_dict())
    fitting = lightning.Trainer(max_epochs=epochs, logger=False, log_every_n_steps=5, **trainer)
    train, valid = (DataLoader(tones(count, seed), batch_size=20) for count, seed in ((400, 0), (200, 1)))
    fitting.fit(module, train, valid)
    return module, float(fitting.callback_metrics["accuracy"])


if __name__ == "__main__":
    print(f"accuracy {main()[1]:.3f}")
