"""`longwave ablate`: the paper's ablation of initialisations, all runs and figures."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longwave.cli import sweep
from longwave.cli._experiment import parse_experiment
from longwave.cli.train import exit_code
from longwave.core.terminal import print_notes

if TYPE_CHECKING:
    from longwave.experiments import Experiment

USAGE = """usage: longwave ablate [--small] [--only ROW ...] [--setting value ...]
       longwave ablate --resume FOLDER

Train sCIFAR models of 100K parameters that differ in their state matrix A, as in the paper's fig:ssm-ablation.
This is a sweep over the experiments ablation-ROW (longwave list), with the paper's figures. A random A has the largest
scale sigma of 1, 1/2, 1/4, ... at which 500 steps stay finite; it is searched for first, and shown with the results.
Rows can be added to a folder if they differ from its rows only in mixer, dropout and seed.

  --small          64 features, 20 epochs, 10,000 images, seeds 0 1 2: for a CPU with few cores (ablation-ROW-small)
  --only ROW ...   some of the rows:
                   {rows}
  --sigma NUMBER   the scale of a random A, instead of the search
  --out FOLDER     by default runs/ablation, or runs/ablation-small
  --seeds, --jobs, --data-dir, --test-best, --device, --quiet as for longwave sweep; settings hold for all rows

Examples:
  longwave ablate --small --jobs 2
  longwave ablate --small --only dense-hippo nplr-hippo --loop.epochs 2 --out runs/ablation-two
  longwave ablate --small --task.data grey-cifar --task.split-seed 42 --out runs/ablation-grey
  longwave ablate --small --loop.minutes 30 --loop.epochs 1000 --out runs/ablation-minutes"""


@dataclass(frozen=True, kw_only=True)
class AblateOptions(sweep.StartOptions):
    """Which rows are run, and how."""

    small: bool = False
    """Run the small version of each experiment."""
    only: tuple[str, ...] = ()
    """Run these rows only."""
    sigma: float | None = None
    """Scale of a random A, instead of the search."""


def main(arguments: list[str]) -> int:
    """Run `longwave ablate`."""
    if arguments[:1] in (["-h"], ["--help"]):
        from longwave.experiments.ablation import ROWS

        print(USAGE.replace("{rows}", "\n                   ".join(ROWS)))
        return 0
    if arguments and arguments[0].partition("=")[0] == "--resume":
        return sweep.main(arguments)
    experiments, options = _parse(arguments)
    return exit_code(lambda: _ablate(experiments, options))


def _parse(arguments: list[str]) -> "tuple[list[Experiment], AblateOptions]":
    """The experiments of the wanted rows, each with the settings that hold for all."""
    from longwave.core.registry import nearest
    from longwave.experiments.ablation import ROWS

    if any(argument.partition("=")[0] == "--model.mixer.sigma" for argument in arguments):
        raise ValueError(
            "--model.mixer.sigma: expected --sigma NUMBER; without it the scale of a random A is searched for"
        )
    ending = "-small" if "--small" in arguments else ""
    options: Any = parse_experiment("ablate", "", [f"ablation-{ROWS[0]}{ending}", *arguments], AblateOptions())[1]
    for row in options.only:
        if row not in ROWS:
            raise ValueError(f"--only: there is no row {row!r}; {nearest(row, ROWS)}")
    names = [f"ablation-{row}{ending}" for row in options.only or ROWS]
    return [one for one, _ in sweep.parse_all("ablate", "", names, arguments, AblateOptions())], options


def _ablate(experiments: "list[Experiment]", options: AblateOptions) -> None:
    from longwave.sweeps import ablation

    folder = ablation.start(
        experiments,
        options.out or Path("runs") / ("ablation-small" if options.small else "ablation"),
        options.data_dir,
        seeds=options.seeds or ((0, 1, 2) if options.small else (0,)),
        sigma=options.sigma,
        **options.how,
    )
    sweep.show(folder, options.test_best)
    sizes = ", ".join(f"{value:g} ({name})" for name, value in ablation.sigmas(folder.members).items())
    if sizes:
        print_notes([f"sigma of a random A: {sizes}"])
