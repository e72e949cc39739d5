"""`longwave evaluate`: score a trained run again."""

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
    device: str = "auto",
) -> None:
    """Score the best weights of a run.

    Example: longwave evaluate runs/etth1-720-small-seed0 --split valid

    Args:
        run: Folder of the run.
        split: Which set of the data.
        data_dir: Folder with the data sets, if it is not where it was in training.
        device: Where to compute: auto (a GPU if there is one), cpu, cuda, cuda:1, mps ...
    """
    _early.check_run(run)
    from longwave import runs

    scores = runs.evaluate(run, split, data_dir, device=device)
    if runs.is_main_process():
        for score, value in scores.items():
            print(f"{split} {score} {value:.6f}")
    runs.leave_processes()
