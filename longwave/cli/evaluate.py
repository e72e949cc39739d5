"""`longwave evaluate`: score a trained run again, also at other sampling rates and on other files."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from longwave.cli import _early
from longwave.core.terminal import say

if TYPE_CHECKING:
    from longwave.train.folder import RunFolder


def main(arguments: list[str]) -> None:
    """Run `longwave evaluate`."""
    tyro.cli(evaluate, prog="longwave evaluate", args=arguments)


def evaluate(
    run: tyro.conf.Positional[str],
    split: Literal["train", "valid", "test"] = "test",
    data_dir: Path | None = None,
    rate: float | None = None,
    rates: tuple[float, ...] = (),
    antialias: bool = False,
    carry_state: bool = False,
    restart_state: bool = False,
    sampling_rate: int | None = None,
    folder: Path | None = None,
    csv: Path | None = None,
    picture: Path | None = None,
    device: str = "auto",
) -> None:
    """Score the best weights of a run; also at another sampling rate, without retraining, or on other audio files.

    Examples:
        longwave evaluate runs/etth1-720-small-seed0 --split valid
        longwave evaluate runs/smnist-small-seed0 --rate 2
        longwave evaluate runs/smnist-small-seed0 --rates 0.25 0.5 2 4 --picture rates.png
        longwave evaluate runs/wikitext2-words-small-seed0 --carry-state
        longwave evaluate runs/audio-clips-seed0 --folder recorded/ --sampling-rate 8000

    Args:
        run: Folder of the run, or of a published one, or its name USER/NAME or USER/NAME@REVISION on the Hugging Face
            hub.
        split: Which set of the data.
        data_dir: Folder with the data sets, if it is not where it was in training.
        rate: Sampling rate to score at beside that of training: 2 keeps every second step, 0.5 makes steps between,
            and dt follows.
        rates: Several of them.
        antialias: Filter before steps are dropped (polyphase decimation), instead of dropping them as they are.
        carry_state: Carry the model's state from window to window of a text, instead of beginning each from nothing.
        restart_state: Begin each window from nothing, also of a run that was trained with its state carried on.
        sampling_rate: The same in Hz, for audio: files that have this rate are taken as they are, others are resampled
            to it, filtered.
        folder: Other audio files to score, one subfolder per class, instead of the run's own data.
        csv: Or a CSV file that names them, with their labels.
        picture: Draw the scores over the rates into this file.
        device: Where to compute: auto (a GPU if there is one), cpu, cuda, cuda:1, mps ...
    """
    stored = _early.find_run(run)
    wanted = sorted({*rates, *(() if rate is None else (rate,))})
    if not wanted and (antialias or picture is not None):
        option = "antialias" if antialias else "picture"
        raise ValueError(f"--{option}: it is about other sampling rates; expected --rate or --rates beside it")
    if wanted and (sampling_rate is not None or folder is not None or csv is not None):
        option = "sampling-rate" if sampling_rate is not None else "folder" if folder is not None else "csv"
        raise ValueError(f"--{option}: expected it without --rate and --rates")
    if (carry_state or restart_state) and (wanted or sampling_rate is not None or folder or csv):
        option = "carry-state" if carry_state else "restart-state"
        raise ValueError(f"--{option}: expected it without other sampling rates and files")
    from longwave import runs
    from longwave.train.folder import RunFolder

    found = RunFolder.open(stored)
    if folder is not None or csv is not None:
        _score_files(found, folder, csv, sampling_rate, device)
        return
    if sampling_rate is not None:
        wanted, antialias = [_trained_rate(found) / sampling_rate] if sampling_rate > 0 else [0.0], True
    if wanted:
        _print_rates(found, sorted({1.0, *wanted}), split, data_dir, antialias, picture, device)
    else:
        scores = runs.evaluate(
            found, split, data_dir, carry_state=carry_state, restart_state=restart_state, device=device
        )
        if runs.is_main_process():
            for score, value in scores.items():
                print(f"{split} {score} {value:.6f}")
    if runs.is_main_process():
        _print_notes(found.config.notes)
    runs.leave_processes()


def _print_notes(notes: Any) -> None:
    """Beside the scores, which other programs may read."""
    for note in notes:
        say(f"note: {note}")


def _trained_rate(run: "RunFolder") -> int:
    """Hz of the audio that a run was trained on."""
    inputs = run.facts.get("inputs", {})
    if "sampling_rate" not in inputs:
        raise ValueError(
            f"--sampling-rate: {run.path} was not trained on audio, so that its rate in Hz is not known; use --rate"
        )
    return int(inputs["sampling_rate"])


def _score_files(
    run: "RunFolder", folder: Path | None, csv: Path | None, sampling_rate: int | None, device: str
) -> None:
    """A table of the scores on labelled files, at the sampling rate of training and at another if one is given."""
    from longwave.tasks.audio import predict as audio

    trained = _trained_rate(run)
    found: dict[int, dict[str, float]] = {}
    notes: list[str] = []
    for hertz in dict.fromkeys((trained, sampling_rate or trained)):
        found[hertz], more = audio.score(run, folder, csv, sampling_rate=hertz, device=device)
        notes += more
    rows = [(f"{hertz:,} Hz", _dt(trained / hertz), scores) for hertz, scores in found.items()]
    _print_scores(f"{run.path}: {folder or csv}, no weight retrained", ("read at", "dt"), rows)
    _print_notes(dict.fromkeys(notes))


def _dt(rate: float) -> str:
    return "as in training" if rate == 1 else f"{rate:.4g} times"


def _print_scores(title: str, names: tuple[str, str], rows: list[tuple[str, str, dict[str, float]]]) -> None:
    """A table of scores; what is scored stands in the first two columns, and that of training is bold."""
    from longwave.core.text_table import TextTable
    from longwave.pictures.html import score_text

    columns = [*names, *(name.upper().replace("_", " ") for name in rows[0][2])]
    cells = [[first, second, *map(score_text, scores.values())] for first, second, scores in rows]
    bold = [k for k, (_, second, _) in enumerate(rows) if second == "as in training"]
    TextTable(title, columns, cells, text=names[1:], bold=bold).print()


def _print_rates(
    run: "RunFolder",
    rates: list[float],
    split: str,
    data_dir: Path | None,
    antialias: bool,
    picture: Path | None,
    device: str,
) -> None:
    """A table of the scores at each rate, and a picture if one is wanted."""
    from longwave import runs
    from longwave.pictures.rates import draw_rates
    from longwave.pictures.style import check_path

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
    rows = [(f"{rate:g}", _steps(rate, antialias), scores) for rate, scores in found.items()]
    _print_scores(f"{run.path}: {split} set, no weight retrained", ("rate", "steps"), rows)
    if picture is not None:
        goal = next(iter(found[1.0]))
        draw_rates({rate: scores[goal] for rate, scores in found.items()}, goal, picture)
        print(f"picture: {picture}")


def _steps(rate: float, antialias: bool) -> str:
    """What is done to the steps of a sequence, in a few words."""
    if rate == 1:
        return "as in training"
    if rate < 1:
        return f"{1 / rate:.4g} times as many, interpolated"
    dropped = f"1 in {rate:.4g}"
    return f"{dropped}, filtered" if antialias or rate != int(rate) else f"{dropped}, others dropped"
