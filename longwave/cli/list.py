"""`longwave list`: the named experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from longwave.train.config import Experiment


def main(arguments: list[str]) -> None:
    """Run `longwave list`."""
    import tyro

    tyro.cli(list_experiments, prog="longwave list", args=arguments)


def list_experiments(all: bool = False) -> None:
    """Show the named experiments, a line for each task.

    Example: longwave list --all

    Args:
        all: One line for each experiment.
    """
    from rich.console import Console

    from longwave.train.experiments import EXPERIMENTS

    if all:
        for name in EXPERIMENTS:
            print(name)
        return
    console = Console()
    for table in (_images(EXPERIMENTS), _forecasts(EXPERIMENTS), _generative(), _own()):
        console.print(table)
    console.print("NAME-small is the same task on a CPU with few cores (not of scifar-original).", highlight=False)
    console.print("longwave show NAME prints every setting; longwave train NAME runs it.", highlight=False)


def _images(experiments: dict[str, Experiment]) -> Table:
    from longwave.train.config import ImageConfig

    what = {
        "smnist": "digits, 784 steps of 1",
        "pmnist": "the same, pixels in one random order",
        "scifar": "colour images, 1024 steps of 3",
    }
    variants = {"original": "the settings before the update", "resnet18": "the 2-D comparison"}
    table = _table("Images, pixel by pixel (the paper's tab:image)")
    for e in experiments.values():
        if isinstance(e.task, ImageConfig) and not e.name.endswith("-small"):
            variant = e.name.partition("-")[2]
            table.add_row(e.name, variants[variant] if variant else what[e.task.data])
    return table


def _forecasts(experiments: dict[str, Experiment]) -> Table:
    from longwave.train.config import ForecastConfig

    groups: dict[tuple[str, bool], list[int]] = {}
    for e in experiments.values():
        if isinstance(e.task, ForecastConfig) and e.name != "forecast" and not e.name.endswith("-small"):
            groups.setdefault((e.task.data, e.task.multivariate), []).append(e.task.horizon)
    table = _table("Forecasting (the paper's tab:informer-s and tab:informer-m)")
    for (data, multivariate), horizons in groups.items():
        names = f"{data}-{{{','.join(map(str, horizons))}}}" + ("-m" if multivariate else "")
        columns = "all columns" if multivariate else "the target column"
        table.add_row(names, f"{columns}, horizon {horizons[0]} to {horizons[-1]}")
    return table


def _generative() -> Table:
    table = _table("Text and images to generate")
    table.add_row("wikitext2-bytes", "Wikipedia articles, byte by byte")
    table.add_row("wikitext2-words", "the same, word by word (33,278 words)")
    table.add_row("mnist-density", "digits, 784 pixels of 256 values")
    return table


def _own() -> Table:
    table = _table("Data of your own")
    table.add_row("forecast --csv FILE --target COLUMN", "the rows after a series")
    table.add_row("classify --npz FILE (or --csv FILE)", "the classes of sequences")
    table.add_row("text --file FILE", "a text, byte by byte, to generate more")
    return table


def _table(title: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("experiments", min_width=35)
    table.add_column("task", min_width=38)
    return table
