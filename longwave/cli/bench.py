"""`longwave bench`: measure speed, memory and accuracy on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from longwave.core.terminal import print_notes, say

if TYPE_CHECKING:
    from longwave.bench.base import Bench


DESCRIPTION = "Measure speed, memory and accuracy on this machine."
SUMMARIES = {  # what help and a wrong name show, without torch
    "accuracy": "the error of the kernel against its definition",
    "attention": "time and memory of training, against Transformers",
    "compare": "two results of the same bench, figure by figure",
    "complexity": "exponents of time and memory in length, batch and width",
    "export": "exported files in onnxruntime, against their model",
    "generation": "tokens per second, against attention and GPT-2",
    "kernel": "the kernel by each backend, forward and backward",
    "layer": "S4 and S4D against a plain FFT convolution",
    "lssl": "time and memory of training, against the LSSL",
    "step": "a training step of named experiments, at their own size",
    "stream": "real-time streaming of sound, on one core",
    "train": "a training step of a small deep model, part by part",
    "unet": "steps of U-Nets, which generate sound and images",
    "weights": "tokens per second with weights of 32, 16 and 8 bits, beside GPT-2",
}


def main(arguments: list[str]) -> None:
    """Run a registered bench."""
    from longwave.cli import _early
    from longwave.cli._tyro import run_group

    if (not arguments or arguments[0] not in SUMMARIES) and _early.is_untouched("longwave.bench.base"):
        _show_or_refuse(arguments)
    from longwave.bench.base import BENCHES

    bench: Bench = run_group("bench", DESCRIPTION, dict(BENCHES), arguments)
    bench.check()
    if bench.duration and not bench.quick:
        say(f"this takes about {bench.duration}; --quick takes less than one minute")
    with _progress() as progress:
        result = bench.run(progress)
    if bench.json:
        import json

        print(json.dumps(result, indent=2))
    else:
        for table in bench.tables(result):
            table.print()
            print()
        print_notes(bench.notes(result))
    message = bench.draw(result)  # last: if it fails, the figures have been printed
    if message:
        say(message)


def _show_or_refuse(arguments: list[str]) -> None:
    """List the benches, or refuse an unknown name."""
    if arguments and arguments[0] not in ("-h", "--help"):
        from longwave.core.registry import nearest

        raise ValueError(f"unknown bench {arguments[0]!r}; {nearest(arguments[0], SUMMARIES)}")
    rows = "\n".join(f"  {name:12}{text}" for name, text in SUMMARIES.items())
    usage = f"usage: longwave bench NAME [options]\n\n{DESCRIPTION}\n\n{rows}\n"
    print(
        f"{usage}\nlongwave bench NAME --help shows the options of one.", file=sys.stdout if arguments else sys.stderr
    )
    sys.exit(0 if arguments else 2)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show what is being measured, on stderr: a status line on a terminal, otherwise one line each."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: say(f"measuring {text}")
        return
    with console.status("measuring") as status:
        yield lambda text: status.update(f"measuring {text}")
