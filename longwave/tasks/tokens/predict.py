"""Labels of new texts, with probabilities."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.io.read import read_table
from longwave.tasks.actions import OnDevice, check_distinct, check_kind, predict, written
from longwave.tasks.base import Action, TrainedRun
from longwave.tasks.classify.predict import Labels
from longwave.tasks.sequences.predict import check_finite
from longwave.tasks.tokens.data import Vocabulary
from longwave.tasks.tokens.task import TokenInput


def probabilities(model: Any, split: Any, batch_size: int) -> NDArray[np.float64]:
    """The class probabilities (n, classes) of a split with `lengths`; similar lengths share a batch."""
    order = np.argsort(split.lengths, kind="stable")
    parts = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    found = np.concatenate([predict(model, split.batch(part.tolist())).double().softmax(-1).numpy() for part in parts])
    unordered = np.empty_like(found)
    unordered[order] = found
    return unordered


def classify_texts(run: TrainedRun, texts: Sequence[str], source: str = "texts", *, device: str = "auto") -> Labels:
    """Classify texts with the best weights of a run; messages call them `source`."""
    check_kind(run, "predict", ACTION, "classifies texts")
    return labelled(run, texts, source, device)


def labelled(run: TrainedRun, texts: Sequence[Any], source: str, device: str) -> Labels:
    """Labels of new texts, or of pairs of them."""
    if not texts:
        raise ValueError(f"{source}: expected at least one text, got none")
    settings: Any = run.settings
    inputs = run.fact("inputs", TokenInput.from_dict)
    try:
        split, notes = settings.arrange(texts, Vocabulary.from_folder(run.path))
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    found = probabilities(run.load_best(device), split, run.batch_size)
    check_finite(found, source)
    return Labels(inputs.classes, found, tuple(notes))


@dataclass(frozen=True)
class Options(OnDevice):
    """Classify texts: a label and the probability of each class per text.

    Example: longwave predict runs/lra-text-small-seed0 --txt new.txt --out labels.csv
    """

    txt: Path | None = None
    """Texts in UTF-8, one per line."""
    csv: Path | None = None
    """Or a CSV file with a header, one text per row."""
    column: str = "text"
    """The column with the texts (with csv)."""
    out: Path = Path("labels.csv")
    """Where to write the labels."""


def read_lines(path: Path) -> list[str]:
    """The lines of a text file; only a line feed ends one, not the other separators of `str.splitlines`."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected text in UTF-8, got {error}") from error
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def read_column(path: Path, column: str, option: str = "--column") -> list[str]:
    """The texts in a column of a CSV file; messages name the `option` that chose it."""
    return read_table(path, (column,), (column,)).texts(column, option)


def _predict(run: TrainedRun, options: Options) -> Iterator[str]:
    if (options.txt is None) == (options.csv is None):
        raise ValueError(f"{run.path} classifies texts: expected either --txt FILE or --csv FILE")
    check_distinct(txt=options.txt, csv=options.csv, out=options.out)
    source = options.txt or options.csv or Path()
    texts = read_lines(source) if options.txt is not None else read_column(source, options.column)
    yield from written(classify_texts(run, texts, str(source), device=options.device), options.out)


ACTION = Action(Options, _predict, classify_texts)
