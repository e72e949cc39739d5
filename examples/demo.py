"""The demo: train a small S4 on real data, compare it, stream it, and end with a report to look at.

The data (ETTh1, two years of hourly transformer temperatures) comes with the package; nothing is downloaded.
"""

from pathlib import Path

import torch

from longwave import runs
from longwave.cli.train import print_scores
from longwave.experiments import EXPERIMENTS

FOLDER = Path("demo")


def main() -> None:
    """Train, compare, stream."""
    experiment = EXPERIMENTS.find("etth1-720-small")
    print("Forecasting 720 hours of ETTh1 from the 336 before them: a few minutes on two cores.\n", flush=True)
    finished = runs.start(experiment, FOLDER, overwrite=True)
    print_scores(experiment.title, finished.result)

    # The same forecast twice: as one convolution over the window, and as a recurrence, one hour at a time.
    model = runs.load_run(FOLDER).load_best()
    window = experiment.task.build().test.batch([0])
    with torch.no_grad():
        whole, _ = model(window["x"], time=window["time"])
        streamed = model.forecast_by_steps(window["x"], window["time"])
    difference = (whole - streamed).abs().max() / whole.abs().max()
    print(f"\nby convolution and by recurrence, the first test forecast differs by {difference:.1e} of its size")
    print(f"report: {(FOLDER / 'report.html').resolve()}")


if __name__ == "__main__":
    main()
