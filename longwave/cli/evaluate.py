"""`longwave evaluate`: score a trained run again, also at other sampling rates and on other files."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from longwave.cli import _early
from longwave.cli._tyro import run_command
from longwave.core.terminal import say

if TYPE_CHECKING:
    from longwave.train.folder import RunFolder

TRAINED = "as in training"


@dataclass(frozen=True)
class Options:
    """Score the best weights of a run; also at another sampling rate, without retraining, or on other audio files.

    Examples:
        longwave evaluate runs/etth1-720-small-seed0 --split valid
        longwave evaluate runs/smnist-small-seed0 --rate 2
        longwave evaluate runs/smnist-small-seed0 --rates 0.25 0.5 2 4 --picture rates.png
        longwave evaluate runs/wikitext2-words-small-seed0 --carry-state
        longwave evaluate runs/forecast-my-seed0 --residuals
        longwave evaluate runs/audio-clips-seed0 --folder recorded/ --sampling-rate 8000
    """

    run: tyro.conf.Positional[str]
    """Folder of a run, trained here or published, or USER/NAME or USER/NAME@REVISION on the Hugging Face hub."""
    split: Literal["train", "valid", "test"] = "test"
    """Split to score."""
    data_dir: Path | None = None
    """Folder with the data sets, if it has moved since training."""
    rate: float | None = None
    """Also score at this relative rate: 2 keeps every second step, 0.5 interpolates; dt is scaled to match."""
    rates: tuple[float, ...] = ()
    """Several such rates."""
    antialias: bool = False
    """Low-pass filter before dropping steps (polyphase decimation)."""
    carry_state: bool = False
    """Carry the model's state from one window of a text to the next, instead of starting each from zero."""
    restart_state: bool = False
    """Start each window from zero, even if the run was trained with its state carried over."""
    residuals: bool = False
    """For a forecaster: store the errors of held-out windows in its folder, for the intervals of longwave predict."""
    sampling_rate: int | None = None
    """Sampling rate in Hz, for audio: files that have this rate are read as they are, others are resampled to it."""
    folder: Path | None = None
    """Other audio files to score, one subfolder per class, instead of the run's own data."""
    csv: Path | None = None
    """Or a CSV file with their names and labels."""
    picture: Path | None = None
    """Plot the scores over the rates into this file."""
    device: str = "auto"
    """Where to compute: auto (a GPU if there is one), cpu, cuda, cuda:1, mps ..."""

    @property
    def all_rates(self) -> list[float]:
        """All rates of --rate and --rates."""
        return sorted({*self.rates, *(() if self.rate is None else (self.rate,))})

    def check(self) -> None:
        """Refuse options that cannot be combined."""
        of_files = {"sampling-rate": self.sampling_rate, "folder": self.folder, "csv": self.csv}
        files = [name for name, value in of_files.items() if value is not None]
        if not self.all_rates and (self.antialias or self.picture is not None):
            option = "antialias" if self.antialias else "picture"
            raise ValueError(f"--{option}: needs another sampling rate; add --rate or --rates")
        if self.all_rates and files:
            raise ValueError(f"--{files[0]}: cannot be combined with --rate or --rates")
        if (self.carry_state or self.restart_state or self.residuals) and (self.all_rates or files):
            option = "residuals" if self.residuals else "carry-state" if self.carry_state else "restart-state"
            raise ValueError(f"--{option}: cannot be combined with other sampling rates or files")


def main(arguments: list[str]) -> None:
    """Run `longwave evaluate`."""
    options: Options = run_command("evaluate", Options, arguments)
    stored = _early.find_run(options.run)
    options.check()
    from longwave import runs
    from longwave.cli.train import print_intervals
    from longwave.train.folder import RunFolder

    run, hertz = RunFolder.open(stored), options.sampling_rate
    if options.folder is not None or options.csv is not None:
        _score_files(run, options)
        return
    if hertz is not None:
        _score_rates(run, options, [_trained_rate(run) / hertz if hertz > 0 else 0.0], antialias=True)
    elif options.all_rates:
        _score_rates(run, options, options.all_rates, options.antialias)
    else:
        how = {name: getattr(options, name) for name in ("carry_state", "restart_state", "residuals")}
        scores = runs.evaluate(run, options.split, options.data_dir, **how, device=options.device)
        if runs.is_main_process():
            for score, value in scores.items():
                print(f"{options.split} {score} {value:.6f}")
            result = run.result() or {}
            if result.get("intervals", {}).get("split") == options.split:
                print_intervals(run.config.experiment.title, result)
    if runs.is_main_process():
        _print_notes(run.config.notes)
    runs.leave_processes()


def _print_notes(notes: Iterable[str]) -> None:
    """Print notes on stderr, since other programs may read the scores."""
    for note in notes:
        say(f"note: {note}")


def _trained_rate(run: "RunFolder") -> int:
    """The sampling rate in Hz of a run's training audio."""
    inputs = run.facts.get("inputs", {})
    if "sampling_rate" not in inputs:
        raise ValueError(f"--sampling-rate: {run.path} was not trained on audio: its rate in Hz is unknown; use --rate")
    return int(inputs["sampling_rate"])


def _score_files(run: "RunFolder", options: Options) -> None:
    """Print the scores on labelled files, at the sampling rate of training and at a given one."""
    from longwave.tasks.audio import predict as audio

    trained, rows, notes = _trained_rate(run), [], list[str]()
    for hertz in dict.fromkeys((trained, options.sampling_rate or trained)):
        scores, more = audio.score(run, options.folder, options.csv, sampling_rate=hertz, device=options.device)
        notes += more
        rows.append((f"{hertz:,} Hz", TRAINED if hertz == trained else f"{trained / hertz:.4g} times", scores))
    _print_scores(f"{run.path}: {options.folder or options.csv}, without retraining", ("read at", "dt"), rows)
    _print_notes(dict.fromkeys(notes))


def _print_scores(title: str, names: tuple[str, str], rows: list[tuple[str, str, dict[str, float]]]) -> None:
    """Print scores after two columns that say what was scored; the row at the training rate is bold."""
    from longwave.core.text_table import TextTable
    from longwave.pictures.html import score_text

    columns = [*names, *(name.upper().replace("_", " ") for name in rows[0][2])]
    cells = [[first, second, *map(score_text, scores.values())] for first, second, scores in rows]
    bold = [k for k, (_, second, _) in enumerate(rows) if second == TRAINED]
    TextTable(title, columns, cells, text=names[1:], bold=bold).print()


def _score_rates(run: "RunFolder", options: Options, wanted: list[float], antialias: bool) -> None:
    """Print the scores at each rate and at that of training, and draw them on request."""
    from longwave import runs
    from longwave.pictures.rates import draw_rates
    from longwave.pictures.style import check_path

    rates, picture = sorted({1.0, *wanted}), options.picture
    if picture is not None:
        check_path(picture)
    found: dict[float, dict[str, float]] = {}
    scored = runs.evaluate_at(run, rates, options.split, options.data_dir, antialias=antialias, device=options.device)
    for rate, scores in scored:
        found[rate] = scores
        if runs.is_main_process() and len(found) < len(rates) and sys.stderr.isatty():
            print(f"\r\x1b[Kscored at {len(found)} of {len(rates)} rates", end="", file=sys.stderr, flush=True)
    if not runs.is_main_process():
        return
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    rows = [(f"{rate:g}", _steps(rate, antialias), scores) for rate, scores in found.items()]
    _print_scores(f"{run.path}: {options.split} set, without retraining", ("rate", "steps"), rows)
    if picture is not None:
        goal = next(iter(found[1.0]))
        draw_rates({rate: scores[goal] for rate, scores in found.items()}, goal, picture)
        print(f"picture: {picture}")


def _steps(rate: float, antialias: bool) -> str:
    """Describe in a few words how a sequence is resampled."""
    if rate <= 1:
        return TRAINED if rate == 1 else f"{1 / rate:.4g} times as many, interpolated"
    how = "filtered" if antialias or rate != int(rate) else "others dropped"
    return f"1 in {rate:.4g}, {how}"
