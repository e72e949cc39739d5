"""Labels of new pairs of texts, with probabilities."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from longwave.tasks.actions import OnDevice, check_distinct, check_kind, written
from longwave.tasks.base import Action, TrainedRun
from longwave.tasks.classify.predict import Labels
from longwave.tasks.tokens.predict import labelled, read_column


def compare_texts(
    run: TrainedRun, pairs: Sequence[tuple[str, str]], source: str = "pairs", *, device: str = "auto"
) -> Labels:
    """Classify pairs of texts with the best weights of a run; a text is plain, or a bytes literal."""
    check_kind(run, "predict", ACTION, "compares texts")
    return labelled(run, pairs, source, device)


@dataclass(frozen=True)
class Options(OnDevice):
    """Compare pairs of texts: a label and the probability of each class per pair.

    Example: longwave predict runs/lra-retrieval-small-seed0 --csv pairs.csv --out labels.csv
    """

    csv: Path | None = None
    """A CSV file with a header, one pair per row."""
    first: str = "text1"
    """The column with the first texts."""
    second: str = "text2"
    """The column with the second texts."""
    out: Path = Path("labels.csv")
    """Where to write the labels."""


def _predict(run: TrainedRun, options: Options) -> Iterator[str]:
    if options.csv is None:
        raise ValueError(f"{run.path} compares texts: expected --csv FILE")
    check_distinct(csv=options.csv, out=options.out)
    first = read_column(options.csv, options.first, "--first")
    second = read_column(options.csv, options.second, "--second")
    labels = compare_texts(run, list(zip(first, second, strict=True)), str(options.csv), device=options.device)
    yield from written(labels, options.out)


ACTION = Action(Options, _predict, compare_texts)
