"""`longwave compare`: compare runs side by side."""

from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from longwave.core.terminal import print_notes
from longwave.train import config_file

if TYPE_CHECKING:
    from longwave.sweeps.compare import Compared


def command(runs: tyro.conf.Positional[tuple[Path, ...]], out: Path = Path("compare.png"), test: bool = False) -> None:
    """Show the settings in which runs differ, their scores and minutes, and draw their learning curves.

    Runs of a sweep are shown without test scores, because settings must not be chosen by them.

    Examples:
        longwave compare runs/smnist-small-seed0 runs/smnist-small-seed1
        longwave compare runs/sweep-scifar-small/*/ --out scifar.png

    Args:
        runs: Folders of runs, two or more, finished or not.
        out: The picture to write; its suffix decides the format.
        test: Also show the test scores of runs of a sweep.
    """
    if len(runs) < 2:
        raise ValueError(f"runs: expected the folders of two runs or more, got {len(runs)}")
    stored = [config_file.read(run) for run in runs]
    from longwave.pictures.style import check_path
    from longwave.sweeps import compare

    check_path(out, "out")
    found = compare.compare(stored)
    _print_settings(found)
    _print_scores(found, test)
    if compare.draw_comparison(found, out):
        print(f"picture: {out.resolve()}")
    else:
        print("no picture: none of the runs has been validated yet")


def _print_settings(runs: "list[Compared]") -> None:
    names = list(dict.fromkeys(name for run in runs for name in run.settings))
    if not names:
        print("the runs have the same settings")
        return
    rows = {name.replace("_", "-"): [str(run.settings.get(name, "-")) for run in runs] for name in names}
    _print_side_by_side("Settings that differ", [run.name for run in runs], rows)


def _print_scores(runs: "list[Compared]", test: bool) -> None:
    """Print validation and test scores, steps and minutes; test scores of a sweep's runs only with `test`."""
    from longwave.pictures.html import score_text

    results = [run.result or {} for run in runs]
    hidden = [run.is_swept and not test and "test" in result for run, result in zip(runs, results, strict=True)]
    results = [
        {name: value for name, value in result.items() if name != "test"} if is_hidden else result
        for result, is_hidden in zip(results, hidden, strict=True)
    ]
    rows: dict[str, list[str]] = {}
    for split, text in (("valid", "validation"), ("test", "test")):
        for score in dict.fromkeys(name for result in results for name in result.get(split, {})):
            values = [result.get(split, {}).get(score) for result in results]
            rows[f"{text} {score.replace('_', ' ')}"] = ["-" if v is None else score_text(v) for v in values]
    for name in ("steps", "best_step", "parameters"):
        rows[name.replace("_", " ")] = [f"{result[name]:,}" if name in result else "-" for result in results]
    rows["minutes"] = [f"{run.metrics[-1]['seconds'] / 60:.1f}" if run.metrics else "-" for run in runs]
    rows["finished"] = ["yes" if result else "no" for result in results]
    _print_side_by_side("Results", [run.name for run in runs], rows)
    if any(hidden):
        what = f"the test scores of {sum(hidden)} runs of a sweep are not shown"
        print_notes([f"note: {what}, because settings must not be chosen by them; --test shows them"])


def _print_side_by_side(title: str, names: list[str], rows: dict[str, list[str]]) -> None:
    """Print a table with one column per run, or one row per run if there are more runs than rows."""
    from longwave.core.text_table import TextTable

    heads, lines = names, list(rows.items())
    if len(names) > len(rows):
        heads, lines = list(rows), [(name, [row[k] for row in rows.values()]) for k, name in enumerate(names)]
    TextTable(title, ["", *heads], [[name, *cells] for name, cells in lines], text=("",)).print()
