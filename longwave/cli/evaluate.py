"""`longwave evaluate`: score a trained run again."""

from pathlib import Path
from typing import Literal

import tyro


def main(arguments: list[str]) -> None:
    """Run `longwave evaluate`."""
    tyro.cli(evaluate, prog="longwave evaluate", args=arguments)


def evaluate(
    run: tyro.conf.Positional[Path], split: Literal["train", "valid", "test"] = "test", data_dir: Path | None = None
) -> None:
    """Score the best weights of a run.

    Example: longwave evaluate runs/etth1-720-small-seed0 --split valid

    Args:
        run: Folder of the run.
        split: Which set of the data.
        data_dir: Folder with the data sets, if it is not where it was in training.
    """
    from longwave import runs

    scores = runs.evaluate(run, split, data_dir)
    if runs.is_main_process():
        for score, value in scores.items():
            print(f"{split} {score} {value:.6f}")
    runs.leave_processes()
