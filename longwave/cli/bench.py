"""`longwave bench kernel | layer | train | accuracy`: the tables of docs/results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def main(arguments: list[str]) -> None:
    """Run `longwave bench ...`."""
    from longwave.cli.group import run_group

    commands = {"kernel": bench_kernel, "layer": bench_layer, "train": bench_train, "accuracy": bench_accuracy}
    run_group("bench", "Measure speed, memory and accuracy on this machine.", commands, arguments)


def bench_kernel(quick: bool = False, json: bool = False) -> None:
    """Time the kernel, forward and backward, against the reference and a plain FFT convolution.

    Example: longwave bench kernel --quick

    Args:
        quick: Smaller sizes and fewer repeats: an impression within half a minute.
        json: Print the figures as JSON instead of a table.
    """
    from longwave.bench import kernel

    with _progress() as progress:
        result = kernel.run(quick, progress)
    _print_json(result) if json else _print_kernel(result)


def bench_layer(quick: bool = False, json: bool = False) -> None:
    """Time the layer against a plain FFT convolution, its growth with length, and its step.

    Example: longwave bench layer --json > layer.json

    Args:
        quick: Smaller sizes and fewer repeats: an impression within half a minute.
        json: Print the figures as JSON instead of tables.
    """
    from longwave.bench import layer

    with _progress() as progress:
        result = layer.run(quick, progress)
    _print_json(result) if json else _print_layer(result)


def bench_train(quick: bool = False, json: bool = False) -> None:
    """Time a training step of a small deep model, counted in plain FFT convolutions, with the share of each part.

    Example: longwave bench train

    Args:
        quick: Fewer repeats, batch norm only: an impression within half a minute.
        json: Print the figures as JSON instead of a table.
    """
    from longwave.bench import train

    with _progress() as progress:
        result = train.run(quick, progress)
    _print_json(result) if json else _print_train(result)


def bench_accuracy(quick: bool = False, json: bool = False) -> None:
    """Measure how far the kernel is from its definition, by initialisation, dtype and length.

    Example: longwave bench accuracy --quick

    Args:
        quick: Fewer and shorter kernels: an impression within half a minute.
        json: Print the figures as JSON instead of a table.
    """
    from longwave.bench import accuracy

    with _progress() as progress:
        result = accuracy.run(quick, progress)
    _print_json(result) if json else _print_accuracy(result)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """What is being measured, on stderr: one line that changes on a terminal, a line each elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: print(f"measuring {text}", file=sys.stderr, flush=True)
        return
    with console.status("measuring") as status:
        yield lambda text: status.update(f"measuring {text}")


def _print_json(result: dict[str, Any]) -> None:
    import json

    print(json.dumps(result, indent=2))


def _print_kernel(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"Kernel, forward + backward: {result['H']} features, N = {result['N']}, LegS"
    table = Table(title=title, caption=_machine(result), title_justify="left", caption_justify="left")
    for name in (
        "length",
        "native",
        "reference",
        "FFT convolution",
        "reference / native",
        "native / convolution",
        "memory",
    ):
        table.add_column(name, justify="right")
    for row in result["rows"]:
        seconds = row["seconds"]
        memory = row.get("memory_bytes")
        table.add_row(
            f"{row['L']:,}",
            _ms(seconds.get("native")),
            _ms(seconds["reference"]),
            _ms(seconds["conv"]),
            f"{row['reference_over_native']:.0f}" if "native" in seconds else "-",
            f"{row['native_over_conv']:.2f}" if "native" in seconds else "-",
            "-" if memory is None else f"{memory / 1e6:.0f} MB = {row['memory_over_H_L_4']:.1f} H L",
        )
    Console().print(table)


def _print_layer(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    title = f"Layer, forward + backward, over a plain FFT convolution: {result['H']} features, N = {result['N']}"
    table = Table(title=title, title_justify="left")
    for name in (
        "batch",
        "length",
        "convolution",
        "length= given",
        "default",
        "default, with state",
        "memory: length=",
        "default",
    ):
        table.add_column(name, justify="right")
    for row in result["rows"]:
        seconds = row["seconds"]
        table.add_row(
            str(row["batch"]),
            f"{row['L']:,}",
            _ms(seconds["conv"]),
            *(f"{_ms(seconds[m])} = {row[f'{m}_over_conv']:.2f}" for m in ("length", "default", "default_state")),
            *(_mb(row.get(f"{m}_memory_bytes")) for m in ("length", "default")),
        )
    console.print(table)
    growth = Table(title=f"Growth with length: {result['growth_H']} features, batch 1", title_justify="left")
    growth.add_column("length", justify="right")
    growth.add_column("time", justify="right")
    for row in result["growth"]:
        growth.add_row(f"{row['L']:,}", _ms(row["seconds"]))
    console.print(growth)
    console.print(f"time grows as length^{result['growth_exponent']:.2f}\n")
    steps = Table(title="One step, batch 1", caption=_machine(result), title_justify="left", caption_justify="left")
    steps.add_column("after so many steps", justify="right")
    steps.add_column("time", justify="right")
    for row in result["steps"]:
        steps.add_row(f"{row['after']:,}", f"{row['seconds'] * 1e6:.0f} us")
    console.print(steps)


def _print_train(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    title = (
        f"Training step, forward + backward: {result['layers']} layers, {result['H']} features, "
        f"length {result['L']}, batch {result['batch']}"
    )
    table = Table(title=title, caption=_machine(result), title_justify="left", caption_justify="left")
    for name in ("norm", "part", "time", "share"):
        table.add_column(name, justify="left" if name in ("norm", "part") else "right")
    for row in result["rows"]:
        step = row["step_seconds"]
        for part, seconds in row["parts_seconds"].items():
            table.add_row(row["norm"], part, _ms(seconds), f"{seconds / step:.0%}")
        table.add_row(row["norm"], "the whole step", _ms(step), "100%")
        conv = f"= {row['step_over_conv']:.2f} FFT convolutions of {_ms(row['conv_seconds'])}"
        table.add_row("", conv, "", "", end_section=True)
    Console().print(table)


def _print_accuracy(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"Error of the kernel over its largest value, random dt in [0.001, 0.1]: N = {result['N']}"
    table = Table(title=title, caption=_machine(result), title_justify="left", caption_justify="left")
    for name in ("init", "dtype", "length", "kernels", "median", "99 % below", "worst"):
        table.add_column(name, justify="left" if name in ("init", "dtype") else "right")
    for row in result["rows"]:
        errors = (f"{row[k]:.1e}" for k in ("median", "p99", "worst"))
        table.add_row(row["init"], row["dtype"], f"{row['L']:,}", str(row["count"]), *errors)
    Console().print(table)


def _machine(result: dict[str, Any]) -> str:
    m = result["machine"]
    return f"{m['cpu']}, {m['threads']} threads, kernel {m['kernel']}, torch {m['torch']}, longwave {m['longwave']}"


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"


def _mb(size: int | None) -> str:
    return "-" if size is None else f"{size / 1e6:.0f} MB"
