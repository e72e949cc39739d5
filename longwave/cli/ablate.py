"""`longwave ablate`: run the paper's ablation of initialisations, with its figures."""

import argparse

from longwave.cli import sweep
from longwave.experiments import families

USAGE = """longwave ablate [--small] [--only ROW ...] [--setting value ...]
       longwave ablate --resume FOLDER

Train sCIFAR models of 100K parameters that differ in their state matrix A, as in the paper's fig:ssm-ablation: longwave
sweep with the experiments ablation-ROW, which draws the paper's figures.

  --small          64 features, 20 epochs, 10,000 images, seeds 0 1 2: for a CPU with few cores (ablation-ROW-small)
  --only ROW ...   some of the rows:
                   {rows}
  --out FOLDER     by default runs/ablation, or runs/ablation-small
  other options and settings as for longwave sweep; settings hold for all rows

Examples:
  longwave ablate --small --jobs 2
  longwave ablate --small --only dense-hippo nplr-hippo --loop.epochs 2 --out runs/ablation-two
  longwave ablate --small --task.data grey-cifar --task.split-seed 42 --out runs/ablation-grey
  longwave ablate --small --loop.minutes 30 --loop.epochs 1000 --out runs/ablation-minutes"""


def main(arguments: list[str]) -> int:
    """Run `longwave ablate`."""
    if arguments and arguments[0].partition("=")[0] == "--resume":
        return sweep.main(arguments)
    names = families.names()
    rows = [name.removeprefix("ablation-") for name in names if name.startswith("ablation-")]
    rows = [row for row in rows if not row.endswith("-small")]
    usage = USAGE.format(rows="\n                   ".join(rows))
    if arguments[:1] in (["-h"], ["--help"]):
        print(f"usage: {usage}")
        return 0
    parser = argparse.ArgumentParser("longwave ablate", usage, add_help=False, allow_abbrev=False)
    parser.add_argument("--small", action="store_const", const="-small", default="")
    parser.add_argument("--only", nargs="+", default=rows)
    given, rest = parser.parse_known_args(arguments)
    options = {argument.partition("=")[0] for argument in rest}
    if "--out" not in options:
        rest += ["--out", f"runs/ablation{given.small}"]
    if "--seeds" not in options:
        rest += ["--seeds", "0", *("1", "2") * bool(given.small)]
    return sweep.main([*(f"ablation-{row}{given.small}" for row in given.only), *rest])
