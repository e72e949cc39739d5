"""`longwave sweep`: train with several settings, and compare them on the validation set."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longwave.cli import _early
from longwave.cli._experiment import TrainingOptions, parse_experiment, parse_resume
from longwave.cli.train import exit_code, mean_text
from longwave.core.terminal import print_notes

if TYPE_CHECKING:
    from longwave.experiments import Experiment
    from longwave.sweeps.folder import Row, SweepFolder

DESCRIPTION = """Train once with each of several settings, and show which does best on the validation set.

  --set SETTING VALUES  comma-separated values of a setting; several --set: all combinations
  --draws N             N random combinations instead; then also ranges: log:LOW:HIGH, uniform:LOW:HIGH, int:LOW:HIGH

The test set plays no part in it; --test-best shows the test score of the best settings only.

Examples:
  longwave sweep smnist-small --set optim.lr 0.001,0.004,0.01 --set model.n-layers 2,4 --seeds 0 1
  longwave sweep scifar-small --draws 10 --set optim.lr log:0.001:0.02 --set model.dropout uniform:0:0.3
  longwave sweep classify --npz my.npz --set model.mixer.d-state 16,64 --jobs 2 --test-best
  longwave sweep scifar-small scifar-resnet18-small --loop.minutes 30 --loop.epochs 1000      (under equal minutes)
  longwave sweep --resume runs/sweep-smnist-small                                        (after a kill or Ctrl-C)"""


@dataclass(frozen=True, kw_only=True)
class HowOptions(TrainingOptions):
    """Options of every sweep, new or resumed."""

    jobs: int = 1
    """Number of parallel runs, each in its own process with a share of the cores."""
    test_best: bool = False
    """Also show the test score of the best settings."""

    @property
    def how(self) -> dict[str, Any]:
        """The options of every sweep, as keywords."""
        return {"jobs": self.jobs, "quiet": self.quiet, "device": self.device}


@dataclass(frozen=True, kw_only=True)
class StartOptions(HowOptions):
    """Options of a new sweep or ablation."""

    out: Path | None = None
    """Folder of the sweep; by default runs/sweep-NAME."""
    data_dir: Path | None = None
    """Folder with the data sets; by default LONGWAVE_DATA or the user's cache."""
    seeds: tuple[int, ...] = ()
    """Train with each of these seeds; settings are then compared by the mean."""


@dataclass(frozen=True, kw_only=True)
class SweepOptions(StartOptions):
    """Options of a new sweep."""

    draws: int | None = None
    """Number of random combinations to run, instead of all of them."""
    draw_seed: int = 0
    """Seed of the random combinations."""


@dataclass(frozen=True, kw_only=True)
class ResumeSweepOptions(HowOptions):
    """Resume a sweep after a kill or Ctrl-C: finished runs are kept, the others resume where they stopped."""

    resume: Path
    """Folder of the sweep."""


def main(arguments: list[str]) -> int:
    """Run `longwave sweep`."""
    resumed = parse_resume("sweep", ResumeSweepOptions, arguments, "sweep-NAME")
    if resumed is not None:
        from longwave.sweeps import run

        return exit_code(lambda: show(run.resume(resumed.resume, **resumed.how), resumed.test_best))
    sets, rest = _take_sets(arguments)
    count = next((k for k, argument in enumerate(rest) if argument.startswith("-")), len(rest))
    names, rest = rest[:count], rest[count:]
    parsed = parse_all("sweep", DESCRIPTION, names, rest, SweepOptions())
    return exit_code(lambda: _sweep([one for one, _ in parsed], parsed[0][1], sets))


def _take_sets(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Take --set options out of the arguments: settings with their values as text, and the other arguments."""
    sets: dict[str, str] = {}
    rest, ahead = [], iter(arguments)
    for argument in ahead:
        if argument != "--set":
            rest.append(argument)
            continue
        name, values = next(ahead, ""), next(ahead, "")
        if not values or values.startswith("--"):
            raise ValueError("--set: expected a setting and its values, as in --set optim.lr 0.001,0.01")
        if name in sets:
            raise ValueError(f"--set {name}: expected each setting once; give all its values, comma-separated")
        sets[name] = values
    return sets, rest


def parse_all(
    command: str, description: str, names: list[str], rest: list[str], options: StartOptions
) -> list[tuple["Experiment", Any]]:
    """Parse several experiments with the settings after their names, which apply to all."""
    if len(names) < 2:
        return [parse_experiment(command, description, [*names, *rest], options)]
    for name in names:
        _early.check_name(name)
    return [parse_experiment(command, description, [name, *rest], options) for name in names]


def _sweep(experiments: "list[Experiment]", options: SweepOptions, sets: dict[str, str]) -> None:
    from longwave.sweeps import plan, run

    settings = {name: plan.parse_values(name, text) for name, text in sets.items()}
    members = plan.plan(experiments, settings, options.seeds, options.draws, options.draw_seed)
    folder = options.out or Path("runs") / f"sweep-{'-'.join(one.run_name for one in experiments)}"
    show(run.start(members, folder, options.data_dir, **options.how), options.test_best)


def show(sweep: "SweepFolder", test_best: bool) -> None:
    """Print the table of a sweep, and the paths of table and picture."""
    rows = sweep.rows()
    _print_rows(sweep, rows)
    best = rows[0] if rows[0].is_finite else None
    if best is not None:
        places = ", ".join(str(sweep.place(member)) for member in best.members)
        print_notes([f"best on the validation set: {best.name} ({places})"])
    if best is not None and test_best:
        of_seeds = f" over {len(best.members)} seeds" if len(best.members) > 1 else ""
        scores = sweep.test_scores(best)
        print_notes([f"its test {name} {mean_text(values)}{of_seeds}" for name, values in scores.items()])
    for row in rows:
        for member, state in zip(row.members, row.states, strict=True):
            if state == "failed":
                print_notes([f"note: {member.name} failed: {sweep.failure(member)}"])
    for what, name in (("table", "table.csv"), ("picture", "ablation.png" if sweep.is_ablation else "sweep.png")):
        if (sweep.path / name).exists():  # a picture, if there was something to draw
            print(f"{what}: {(sweep.path / name).resolve()}", flush=True)


def _print_rows(sweep: "SweepFolder", rows: "list[Row]") -> None:
    from longwave.core.text_table import TextTable

    names = list(dict.fromkeys(name for row in rows for name in row.values))
    count = max(len(row.members) for row in rows)
    goal = sweep.goal.upper().replace("_", " ")
    has_train = any(row.train is not None for row in rows)
    heads = [goal, *["+-"] * (count > 1), *["IN TRAINING"] * has_train, "MINUTES", "PARAMETERS"]
    cells = []
    for row in rows:
        shown = [_score(row.mean, "failed" if "failed" in row.states else "-")]
        shown += [_score(row.spread)] * (count > 1) + [_score(row.train)] * has_train
        minutes = f"{sum(row.minutes) / len(row.minutes):.1f}" if row.minutes else "-"
        parameters = f"{row.parameters:,}" if row.parameters is not None else "-"
        cells.append([*(str(row.values.get(name, "")) for name in names), *shown, minutes, parameters])
    means = f", means of {count} seeds" if count > 1 else ""
    TextTable(f"{sweep.path}: validation set{means}", [*names, *heads], cells, text=names, bold=(0,)).print()


def _score(value: float | None, otherwise: str = "-") -> str:
    from longwave.pictures.html import score_text

    return otherwise if value is None else score_text(value)
