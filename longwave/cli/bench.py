"""`longwave bench kernel | layer | train | accuracy | lssl | attention | generation`: the tables of docs/results."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def main(arguments: list[str]) -> None:
    """Run `longwave bench ...`."""
    from longwave.cli.group import run_group

    commands = {
        "kernel": bench_kernel,
        "layer": bench_layer,
        "train": bench_train,
        "accuracy": bench_accuracy,
        "lssl": bench_lssl,
        "attention": bench_attention,
        "generation": bench_generation,
    }
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


def bench_lssl(quick: bool = False, json: bool = False, picture: Path | None = None) -> None:
    """Time and memory of a training pass of S4 and of the LSSL, beside the paper's.

    Example: longwave bench lssl --quick

    Args:
        quick: Smaller dimensions and fewer repeats: an impression in under a minute.
        json: Print the figures as JSON instead of tables.
        picture: Also draw time and memory over the dimension, into this file.
    """
    from longwave.bench import lssl

    _run_and_show(lssl.run, lssl.panels, "four minutes, and 14 GB of memory", _print_lssl, quick, json, picture)


def bench_attention(
    quick: bool = False, json: bool = False, picture: Path | None = None, batch: int | None = None
) -> None:
    """Time and memory of a training pass of S4 and of Transformers with as many parameters, beside the paper's.

    Example: longwave bench attention --picture attention.png

    Args:
        quick: Shorter sequences, fewer of them, fewer repeats and no memory: an impression in under a minute.
        json: Print the figures as JSON instead of a table.
        picture: Also draw time and memory over length, into this file.
        batch: Sequences of a batch; 32, the paper's, if it is not given, or 8 with --quick.
    """
    from longwave.bench import attention

    run = functools.partial(attention.run, batch=batch)
    _run_and_show(run, attention.panels, "seven minutes", _print_attention, quick, json, picture)


def bench_generation(quick: bool = False, json: bool = False, picture: Path | None = None) -> None:
    """Tokens a second of S4, attention and GPT-2 that generate, over the context that they have, beside the paper's.

    Example: longwave bench generation --picture generation.png

    Args:
        quick: Shorter and fewer sequences, of bytes only: an impression in under a minute.
        json: Print the figures as JSON instead of tables.
        picture: Also draw tokens a second over context, into this file.
    """
    from longwave.bench import generation

    _run_and_show(generation.run, generation.panels, "five minutes", _print_generation, quick, json, picture)


def _run_and_show(
    run: Callable[[bool, Callable[[str], None]], dict[str, Any]],
    panels: Callable[[dict[str, Any]], Any],
    duration: str,
    print_tables: Callable[[dict[str, Any]], None],
    quick: bool,
    json: bool,
    picture: Path | None,
) -> None:
    """Run a bench that has panels to draw."""
    from longwave.bench.picture import draw
    from longwave.report.pictures import check_path

    if picture is not None:
        check_path(picture)
    if not quick:
        print(f"this takes about {duration}; --quick gives a look in under a minute", file=sys.stderr, flush=True)
    with _progress() as progress:
        result = run(quick, progress)
    _print_json(result) if json else print_tables(result)  # first of all: should the drawing fail, nothing is lost
    drawn = panels(result)
    if picture is not None and any(any(panel.lines.values()) for panel in drawn):
        draw(drawn, picture)
        print(picture, file=sys.stderr)
    elif picture is not None:
        print(f"{picture} was not drawn: nothing was measured", file=sys.stderr)


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


def _print_lssl(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for field, ratio, what, shown in (
        ("seconds", "time_ratio", "time", _ms),
        ("memory_bytes", "memory_ratio", "memory", _mb),
    ):
        title = f"LSSL and S4, {what} of a training pass: length {result['L']:,}, batch {result['batch']}"
        table = Table(title=title, title_justify="left")
        for name in ("dimension", "LSSL", "S4", "LSSL / S4", "the paper: LSSL", "S4", "LSSL / S4", "ours / paper"):
            table.add_column(name, justify="right")
        for row in result["rows"]:
            cells = []
            for figures in (row, row["paper"] or {}):
                measured = figures.get(field, {})
                cells += [*(shown(measured.get(name)) for name in ("lssl", "s4")), _times(figures.get(ratio))]
            table.add_row(str(row["dimension"]), *cells, _over(row.get(ratio), (row["paper"] or {}).get(ratio)))
        console.print(table)
    for row in result["rows"]:
        if "skipped" in row:
            console.print(f"dimension {row['dimension']}: {row['skipped']}", highlight=False)
    _print_caption(console, result)


def _print_attention(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from longwave.bench.attention import LABELS

    console, rows = Console(), result["rows"]
    for what, field, ratio, shown in (("time", "seconds", "speed", _ms), ("memory", "memory_bytes", "memory", _mb)):
        title = (
            f"Transformers and S4, {what} of a training pass: {result['layers']} layers, {result['d_model']} features"
        )
        table = Table(title=title, title_justify="left")
        over = "speed" if what == "time" else "of the first"
        for name in ("length", "batch", "model", "parameters", what, over, "the paper", "ours / paper"):
            table.add_column(name, justify="left" if name == "model" else "right")
        for row, after in zip(rows, [*rows[1:], rows[-1]], strict=True):
            ours, paper = row.get(ratio), (row["paper"] or {}).get(ratio)
            table.add_row(
                f"{row['L']:,}",
                _batch(row),
                LABELS[row["model"]],
                f"{row['parameters'] / 1e3:.0f}k",
                shown(row.get(field)),
                _times(ours),
                _times(paper),
                _over(ours, paper),
                end_section=after["L"] != row["L"],
            )
        if any(field in row for row in rows):
            console.print(table)
    for row in rows:
        if "skipped" in row:
            console.print(f"{LABELS[row['model']]} at length {row['L']:,}: {row['skipped']}", highlight=False)
    _print_caption(console, result)


def _batch(row: dict[str, Any]) -> str:
    whole, measured = row["batch"], row["measured_batch"]
    return str(whole) if measured in (0, whole) else f"{measured}, scaled to {whole}"


def _print_generation(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from longwave.bench.generation import LABELS

    console = Console()
    for case in result["tables"]:
        title = f"Generation, {case['shape']}: {case['steps']:,} steps, vocabulary {case['vocabulary']:,}, "
        table = Table(title=title + f"batch {case['batch']}", title_justify="left")
        for name in ("model", "first step", "last step", "tokens a second", "x attention", "x GPT-2"):
            table.add_column(name, justify="left" if name == "model" else "right")
        for name in ("the paper", "ours / paper", "state: first", "last"):
            table.add_column(name, justify="right")
        for model, row in case.get("models", {}).items():
            table.add_row(
                LABELS[model],
                _ms(row["step_seconds"][0]),
                _ms(row["step_seconds"][-1]),
                f"{row['tokens_per_second']:,.0f}",
                _times(row.get("times_attention")),
                _times(row.get("times_gpt2")),
                _times(row["paper_times_transformer"]),
                _over(row.get("times_gpt2"), row["paper_times_transformer"]),
                _mb(row["state_bytes_first"]),
                _mb(row["state_bytes_last"]),
            )
        console.print(table)
        if "skipped" in case:
            console.print(case["skipped"], highlight=False)
        else:
            counts = (f"{LABELS[model]} {row['parameters']:,}" for model, row in case["models"].items())
            console.print(f"parameters: {'; '.join(counts)}", highlight=False, markup=False)
            for model, reason in result["missing"].items():
                console.print(f"{LABELS[model]}: {reason}", highlight=False, markup=False)
        if "products" in case:
            products = case["products"]
            console.print(
                f"a step of S4: {_ms(products['step_seconds'])} = {products['step_over_products']:.1f} times its bare "
                f"matrix products ({_ms(products['products_seconds'])})",
                highlight=False,
            )
        console.print()
    _print_caption(console, result)


def _print_caption(console: Any, result: dict[str, Any]) -> None:
    console.print(result["caption"], highlight=False, markup=False)
    console.print(_machine(result), highlight=False, markup=False)


def _times(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _over(ours: float | None, paper: float | None) -> str:
    return "-" if ours is None or paper is None else f"{ours / paper:.2f}"


def _machine(result: dict[str, Any]) -> str:
    m = result["machine"]
    return f"{m['cpu']}, {m['threads']} threads, kernel {m['kernel']}, torch {m['torch']}, longwave {m['longwave']}"


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 1e-2:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds * 1e3:,.0f} ms"


def _mb(size: float | None) -> str:
    if size is None:
        return "-"
    return f"{size / 1e6:.1f} MB" if size < 1e8 else f"{size / 1e6:,.0f} MB"
