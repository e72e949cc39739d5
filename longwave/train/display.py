"""What a person sees of a run: one live line on a terminal, one plain line a validation elsewhere."""

import sys
from types import TracebackType
from typing import Any


class Display:
    """Progress of a run: epoch, step, loss, score, time left."""

    def __init__(self, quiet: bool, batches: int, epochs: int, goal: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.quiet, self.batches, self.epochs, self.goal = quiet, batches, epochs, goal
        self.console = Console(stderr=True)
        self.live: Any = None
        self.score = ""
        if not quiet and self.console.is_terminal:
            self.live = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.fields[text]}"),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
            )
            self.bar = self.live.add_task("training", total=batches * epochs, text="")

    def __enter__(self) -> "Display":
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self.quiet:
            console = self.live.console if self.live is not None else self.console
            console.print(text, markup=False, highlight=False, soft_wrap=True)

    def step(self, epoch: int, batch: int, loss: float, factor: float) -> None:
        """After each optimiser step."""
        if self.live is not None:
            text = f"loss {loss:.4f}{self.score}"
            name = f"epoch {epoch + 1}/{self.epochs}"
            self.live.update(self.bar, completed=epoch * self.batches + batch, description=name, text=text)

    def validating(self) -> None:
        """Before a validation."""
        if self.live is not None:
            self.live.update(self.bar, description="validating")

    def validated(self, step: int, loss: float, score: float, better: bool) -> None:
        """After a validation."""
        self.score = f"  {self.goal} {score:.4f}"
        mark = "  best" if better else ""
        epoch = step / self.batches
        self.say(f"epoch {epoch:5.2f}  step {step:6d}  loss {loss:.4f}  validation {self.goal} {score:.4f}{mark}")

    def testing(self) -> None:
        """Before the final scores."""
        if self.live is not None:
            self.live.update(self.bar, description="scoring the best weights")
        sys.stderr.flush()
