"""The progress of a run: one live line on a terminal; elsewhere one plain line per minute and per validation."""

import contextlib
import logging
import sys
import time
from typing import Any

from longwave.core.terminal import say, shown, wrapped

LOG = logging.getLogger("longwave")
FIRST_LINE, NEXT_LINES = 10.0, 60.0  # seconds, where there is no terminal


def time_left(seconds: float) -> str:
    """A duration in words: minutes, and hours from two on."""
    minutes = round(seconds / 60)
    if minutes >= 120:
        return f"{round(seconds / 3600)} hours left"
    if minutes >= 1:
        return f"{minutes} minute{'s' * (minutes > 1)} left"
    return "less than a minute left"


class Display:
    """Progress of a run: epoch, step, loss, score, time left."""

    def __init__(self, quiet: bool, batches: int, epochs: int, goal: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.quiet, self.batches, self.epochs, self.goal = quiet, batches, epochs, goal
        self.console = Console(stderr=True)
        self.live: Any = None
        self.steps = batches * epochs
        self.score = ""
        self.start, self.next_line = time.monotonic(), FIRST_LINE
        self.first_step: int | None = None  # of this process: a resumed run does not begin with 0
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

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            if self.live is not None:
                self.live.stop()

    def say(self, text: str) -> None:
        """Print a permanent line."""
        if self.quiet:
            LOG.info(text)
        else:
            with contextlib.suppress(OSError):  # a terminal that was closed must not end the run
                if self.live is None:
                    say(text)
                else:  # above the live line; no wrapping by rich, which would cut a path in two
                    text = wrapped(shown(text), self.console.width)
                    self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def expect(self, steps: int) -> None:
        """Set how many steps there will be, if not all epochs are run."""
        self.steps = steps
        if self.live is not None:
            self.live.update(self.bar, total=steps)

    def step(self, epoch: int, batch: int, loss: float, factor: float) -> None:
        """Show an optimiser step."""
        done, total = epoch * self.batches + batch, self.steps
        if self.live is not None:
            text = f"loss {loss:.4f}{self.score}"
            self.live.update(self.bar, completed=done, description=f"epoch {epoch + 1}/{self.epochs}", text=text)
            return
        seconds = time.monotonic() - self.start
        if self.first_step is None:
            self.first_step, self.start = done, time.monotonic()
        elif seconds >= self.next_line:
            self.next_line = seconds + NEXT_LINES
            left = time_left(seconds / (done - self.first_step) * (total - done))
            self.say(f"epoch {done / self.batches:5.2f}  step {done:6d}  loss {loss:.4f}  {left}")

    def validating(self) -> None:
        if self.live is not None:
            self.live.update(self.bar, description="validating")

    def validated(self, step: int, loss: float, score: float, better: bool) -> None:
        self.score = f"  {self.goal} {score:.4f}"
        mark = "  best" if better else ""
        epoch = step / self.batches
        self.say(f"epoch {epoch:5.2f}  step {step:6d}  loss {loss:.4f}  validation {self.goal} {score:.4f}{mark}")

    def testing(self, keep: str) -> None:
        """Announce the final scores of the best or last weights."""
        if self.live is not None:
            self.live.update(self.bar, description=f"scoring the {keep} weights")
        else:
            self.say(f"scoring the {keep} weights")
        with contextlib.suppress(OSError):
            sys.stderr.flush()
