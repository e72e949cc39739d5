"""`longwave evaluate`: score a trained run again, also at other sampling rates."""

import sys
from pathlib import Path
from typing import Literal

import tyro

from longwave.cli import _early


def main(arguments: list[str]) -> None:
    """Run `longwave evaluate`."""
    tyro.cli(evaluate, prog="longwave evaluate", args=arguments)


def evaluate(
    run: tyro.conf.Positional[Path],
    split: Literal["train", "valid", "test"] = "test",
    data_dir: Path | None = None,
    rate: float | None = None,
    rates: tuple[float, ...] = (),
    antialias: bool = False,
    picture: Path | None = None,
    device: str = "auto",
) -> None:
    """Score the best weights of a run; with --rate, also on its data at another sampling rate, without retraining.

    Examples:
        longwave evaluate runs/etth1-720-small-seed0 --split valid
        longwave evaluate runs/smnist-small-seed0 --rate 2
        longwave evaluate runs/smnist-small-seed0 --rates 0.25 0.5 2 4 --picture rates.png

    Args:
        run: Folder of the run.
        split: Which set of the data.
        data_dir: Folder with the data sets, if it is not where it was in training.
        rate: Sampling rate to score at beside that of training: 2 keeps every second step, 0.5 makes steps between,
            and dt follows.
        rates: Several of them.
        antialias: Filter before steps are dropped (polyphase decimation), instead of dropping them as they are.
        picture: Draw the scores over the rates into this file.
        device: Where to compute: auto (a GPU if there is one), cpu, cuda, cuda:1, mps ...
    """
    _early.check_run(run)
    wanted = sorted({*rates, *(() if rate is None else (rate,))})
    if not wanted and (antialias or picture is not None):
        option = "antialias" if antialias else "picture"
        raise ValueError(f"--{option}: it is about other sampling rates; expected --rate or --rates beside it")
    from longwave import runs

    if wanted:
        _print_rates(run, sorted({1.0, *wanted}), split, data_dir, antialias, picture, device)
    else:
        scores = runs.evaluate(run, split, data_dir, device=device)
        if runs.is_main_process():
            for score, value in scores.items():
                print(f"{split} {score} {value:.6f}")
    runs.leave_processes()


def _print_rates(
    run: Path, rates: list[float], split: str, data_dir: Path | None, antialias: bool, picture: Path | None, device: str
) -> None:
    """A table of the scores at each rate, and a picture if one is wanted."""
    from rich.table import Table

    from longwave import runs
    from longwave.cli._table import print_table
    from longwave.pictures.rates import draw_rates
    from longwave.pictures.style import check_path
    from longwave.report.base import score_text

    if picture is not None:
        check_path(picture)
    found: dict[float, dict[str, float]] = {}
    for rate, scores in runs.evaluate_at(run, rates, split, data_dir, antialias=antialias, device=device):
        found[rate] = scores
        if runs.is_main_process() and len(found) < len(rates) and sys.stderr.isatty():
            print(f"\r\x1b[Kscored at {len(found)} of {len(rates)} rates", end="", file=sys.stderr, flush=True)
    if not runs.is_main_process():
        return
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    names = list(found[1.0])
    table = Table(title=f"{run}: {split} set, no weight retrained", title_justify="left")
    table.add_column("rate", justify="right")
    table.add_column("steps")
    for name in names:
        table.add_column(name.upper().replace("_", " "), justify="right")
    for rate, scores in found.items():
        cells = (score_text(scores[name]) for name in names)
        table.add_row(f"{rate:g}", _steps(rate, antialias), *cells, style="bold" if rate == 1 else None)
    print_table(table)
    if picture is not None:
        draw_rates({rate: scores[names[0]] for rate, scores in found.items()}, names[0], picture)
        print(f"picture: {picture}")


def _steps(rate: float, antialias: bool) -> str:
    """What is done to the steps of a sequence, in a few words."""
    if rate == 1:
        return "as in training"
    if rate < 1:
        return f"{1 / rate:.4g} times as many, interpolated"
    dropped = f"1 in {rate:.4g}"
    return f"{dropped}, filtered" if antialias or rate != int(rate) else f"{dropped}, others dropped"
