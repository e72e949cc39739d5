"""`longwave ablate`: the paper's ablation of initialisations, all runs and figures."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longwave.cli._experiment import parse_experiment
from longwave.cli.sweep import ResumeSweepOptions, parse_resume, print_best, print_failures, print_places
from longwave.cli.train import _exit_code

if TYPE_CHECKING:
    from longwave.experiments import Experiment
    from longwave.sweeps.folder import SweepFolder

USAGE = """usage: longwave ablate [--small] [--only ROW ...] [--setting value ...]
       longwave ablate --resume FOLDER

Train sCIFAR models of 100K parameters that differ in their state matrix A, as in the paper's fig:ssm-ablation.
Each is the experiment ablation-ROW (longwave list). A random A has the largest size sigma of 1, 1/2, 1/4, ... at
which 500 steps stay finite; it is searched for first, and shown with the results. Rows can be added to a folder if they
differ from those that are there in the mixer, dropout and seed alone.

  --small          64 features, 20 epochs, 10,000 images, seeds 0 1 2: for a CPU with few cores (ablation-ROW-small)
  --only ROW ...   some of the rows:
                   {rows}
  --sigma NUMBER   the size of a random A, instead of the search
  --out FOLDER     by default runs/ablation, or runs/ablation-small
  --seeds, --jobs, --data-dir, --test-best, --device, --quiet as for longwave sweep; settings count for all rows

Examples:
  longwave ablate --small --jobs 2
  longwave ablate --small --only dense-hippo nplr-hippo --loop.epochs 2 --out runs/ablation-two
  longwave ablate --small --task.data grey-cifar --task.split-seed 42 --out runs/ablation-grey
  longwave ablate --small --loop.minutes 30 --loop.epochs 1000 --out runs/ablation-minutes"""


@dataclass(frozen=True)
class AblateOptions:
    """Which rows are run, and how."""

    small: bool = False
    """The small size of each experiment."""
    only: tuple[str, ...] = ()
    """Some of the rows."""
    sigma: float | None = None
    """Size of a random A, instead of the search."""
    out: Path | None = None
    """Folder of the runs."""
    data_dir: Path | None = None
    """Folder with the data sets; by default LONGWAVE_DATA or the user's cache."""
    seeds: tuple[int, ...] = ()
    """Train with each of these seeds."""
    jobs: int = 1
    """Runs at a time, each in a process of its own with a share of the cores."""
    test_best: bool = False
    """Show the score of the best row on the test set."""
    quiet: bool = False
    """No progress, only the result."""
    device: str = "auto"
    """Where to train: auto (a GPU if there is one), cpu, cuda, cuda:1, mps ..."""


def main(arguments: list[str]) -> int:
    """Run `longwave ablate`."""
    if arguments[:1] in (["-h"], ["--help"]):
        from longwave.experiments.ablation import ROWS

        print(USAGE.replace("{rows}", "\n                   ".join(ROWS)))
        return 0
    if arguments and arguments[0].partition("=")[0] == "--resume":
        resumed = parse_resume("ablate", arguments)
        return _exit_code(lambda: _resume(resumed))
    experiments, options = _parse(arguments)
    return _exit_code(lambda: _ablate(experiments, options))


def _parse(arguments: list[str]) -> "tuple[list[Experiment], AblateOptions]":
    """The experiments of the rows that are wanted, each with the settings that count for all."""
    from longwave.core.registry import nearest
    from longwave.experiments.ablation import ROWS

    if any(argument.partition("=")[0] == "--model.mixer.sigma" for argument in arguments):
        raise ValueError(
            "--model.mixer.sigma: expected --sigma NUMBER; without it the size of a random A is searched for"
        )
    ending = "-small" if "--small" in arguments else ""
    options: Any = parse_experiment("ablate", "", [f"ablation-{ROWS[0]}{ending}", *arguments], AblateOptions())[1]
    for row in options.only:
        if row not in ROWS:
            raise ValueError(f"--only: there is no row {row!r}; {nearest(row, ROWS)}")
    names = [f"ablation-{row}{ending}" for row in options.only or ROWS]
    return [parse_experiment("ablate", "", [name, *arguments], AblateOptions())[0] for name in names], options


def _ablate(experiments: "list[Experiment]", options: AblateOptions) -> None:
    from longwave.sweeps import ablation

    sweep = ablation.start(
        experiments,
        options.out or Path("runs") / ("ablation-small" if options.small else "ablation"),
        options.data_dir,
        seeds=options.seeds or ((0, 1, 2) if options.small else (0,)),
        sigma=options.sigma,
        jobs=options.jobs,
        quiet=options.quiet,
        device=options.device,
    )
    _show(sweep, options.test_best)


def _resume(options: ResumeSweepOptions) -> None:
    from longwave.sweeps import ablation

    sweep = ablation.resume(options.resume, jobs=options.jobs, quiet=options.quiet, device=options.device)
    _show(sweep, options.test_best)


def _show(sweep: "SweepFolder", test_best: bool) -> None:
    """Print the table of the ablation, and where it and the figures are."""
    from rich.markup import escape
    from rich.table import Table

    from longwave.cli._table import print_notes, print_table
    from longwave.sweeps import ablation

    rows = sweep.rows()
    table = Table(title=escape(f"{sweep.path}: accuracy"), title_justify="left")
    for head in ("A", "trained", "dropout"):
        table.add_column(head)
    for head in ("TRAIN", "VALIDATION", "+-", "MINUTES", "PARAMETERS"):
        table.add_column(head, justify="right")
    for row in rows:
        experiment = row.members[0].experiment
        train = ablation.train_accuracy(sweep, row)
        parameters = ablation.trained_parameters(sweep, row.members[0])
        failed = "failed" if "failed" in row.states else "-"
        table.add_row(
            escape(ablation.label(experiment)),
            "yes" if ablation.is_trained(experiment) else "no",
            f"{ablation.dropout(experiment):g}",
            "-" if train is None else f"{train:.4f}",
            failed if row.mean is None else f"{row.mean:.4f}",
            "-" if row.spread is None else f"{row.spread:.4f}",
            f"{sum(row.minutes) / len(row.minutes):.1f}" if row.minutes else "-",
            "-" if parameters is None else f"{parameters:,}",
        )
    print_table(table)
    print_notes(["TRAIN is the mean over the last epoch, while it was trained; PARAMETERS are those that are trained."])
    sizes = ablation.sigmas(sweep.members)
    if sizes:
        print_notes([f"sigma of a random A: {', '.join(f'{value:g} ({name})' for name, value in sizes.items())}"])
    print_best(sweep, rows, test_best)
    print_failures(sweep, rows)
    print_places(sweep, "ablation.png")
