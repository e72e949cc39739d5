"""The report of a language model: a sample."""

import html
from typing import Any

import torch

from longwave.models.generate import generate
from longwave.pictures.html import Section
from longwave.tasks.autoregressive import START
from longwave.tasks.text.task import TextTask


def report(model: Any, task: TextTask) -> list[Section]:
    """The beginning of the test set, and what the model generates after it."""
    shown, length = (200, 800) if task.unit == "byte" else (40, 160)
    given = task.test.tokens[:shown].tolist()
    made = generate(model, torch.tensor([[START, *given]]), length, seed=0)[0].tolist()
    pieces = list(task.codec.prose(given + made))  # one per token
    known, new = (html.escape("".join(part)) for part in (pieces[: len(given)], pieces[len(given) :]))
    text = f"<p>The grey text is the beginning of the test set; the {length} {task.unit}s after it were generated.</p>"
    return [Section("A sample", f'{text}<pre class="text"><span class="given">{known}</span>{new}</pre>')]
