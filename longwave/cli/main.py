"""`longwave`: the commands, and how mistakes reach the user."""

import sys

import tyro

from longwave.cli.bench import bench_accuracy, bench_kernel, bench_layer
from longwave.cli.doctor import doctor
from longwave.cli.plot import plot_init

DESCRIPTION = """Long sequences with structured state spaces (S4).

Examples:
  longwave doctor
  longwave bench kernel --quick
  longwave plot init --init legs --out kernels.png"""


def _app() -> tyro.extras.SubcommandApp:
    bench = tyro.extras.SubcommandApp()
    bench.command(name="kernel")(bench_kernel)
    bench.command(name="layer")(bench_layer)
    bench.command(name="accuracy")(bench_accuracy)
    plot = tyro.extras.SubcommandApp()
    plot.command(name="init")(plot_init)
    app = tyro.extras.SubcommandApp()
    app.command(name="doctor")(doctor)
    app.command(bench, name="bench", help="Measure speed and memory on this machine.")
    app.command(plot, name="plot", help="Draw pictures.")
    return app


def main() -> None:
    """Run a command; a mistake in the input ends with one line and exit code 2, Ctrl-C with 130."""
    try:
        sys.exit(_app().cli(prog="longwave", description=DESCRIPTION))
    except (ValueError, OSError) as error:
        print(f"longwave: error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("longwave: interrupted", file=sys.stderr)
        sys.exit(130)
