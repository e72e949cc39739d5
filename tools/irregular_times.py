"""Score forecasts of ETTh1 with rows removed at random: the rows as they come, and after interpolation onto the hours.

    python tools/irregular_times.py                       half of the rows removed, seeds 0, 1 and 2: half an hour
    python tools/irregular_times.py --share 0.3 --seeds 0
    python tools/irregular_times.py --wave 5.3            the same of a wave of 5.3 hours with noise

A seed decides which rows are removed, and the training. S4D gets the gaps between the rows that are left; then the same
S4D gets the hours, where lines between the rows that are left fill in what is missing (--fill linear). Both forecast
two days from two weeks, and both are scored on the same rows: those that were not removed, after each row of the test
set that was not removed, as far as both forecast them. Errors are in units of the deviation of the training rows.
"""

import argparse
import statistics
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import longwave
from longwave.experiments import EXPERIMENTS
from longwave.experiments.forecasting import with_gaps
from longwave.layers import S4DConfig
from longwave.models import SequenceConfig
from longwave.tasks.forecast.task import load

HOURS, CONTEXT = 48, 336  # to forecast, and to look back on, before rows are removed
ALONE = SequenceConfig(
    d_model=32, n_layers=2, mixer=S4DConfig(), dropout=0.2, tie_dropout=True, decoder="forecast", window="last"
)


def hourly(wave: float | None) -> pd.DataFrame:
    """ETTh1, or a wave of so many hours with noise of a tenth of its height."""
    if wave is None:
        series: Any = load("etth1").data.series
        return pd.DataFrame({"time": series.times, "y": series.values[:, series.target]})
    hours = np.arange(6000)
    y = np.sin(2 * np.pi * hours / wave) + 0.1 * np.random.default_rng(0).standard_normal(len(hours))
    return pd.DataFrame({"time": pd.date_range("2024-01-01", periods=len(hours), freq="h"), "y": y})


def removed(frame: pd.DataFrame, share: float, seed: int) -> pd.DataFrame:
    """The rows without a share of them; the first and the last are kept."""
    inner = np.arange(1, len(frame) - 1)
    return frame.drop(np.random.default_rng(seed).choice(inner, round(share * len(inner)), replace=False))


def forecasts(frame: pd.DataFrame, share: float, seed: int, name: str, irregular: bool) -> Any:
    """Forecasts of the test set by cutoff and time."""
    experiment: Any = with_gaps(EXPERIMENTS.find("forecast"))
    model, optim = experiment.model, experiment.optim
    if name == "S4D alone":
        model, optim = ALONE, replace(optim, lr=0.002, ssm_lr=0.001, warmup=20)
    sizes: dict[str, Any] = {"horizon": HOURS, "context": CONTEXT, "fill": "linear"}
    if irregular:
        sizes = {name: round((1 - share) * sizes[name]) for name in ("horizon", "context")} | {"irregular": True}
    task = replace(experiment.task, target="y", time="time", log="off", yearly="off", **sizes)
    loop = replace(experiment.loop, seed=seed)
    experiment = replace(experiment, task=task, model=model, optim=optim, loop=loop)
    run = longwave.train_forecaster(frame, experiment=experiment)
    found = longwave.backtest(run, frame, stride=1, start=frame.time.iloc[int(0.8 * len(frame))])
    return found.frame().set_index(["cutoff", "time"]).forecast


def scores(frame: pd.DataFrame, share: float, seed: int) -> dict[tuple[str, str], tuple[float, float]]:
    """MSE and MAE by model and by how rows are taken."""
    frame = removed(frame, share, seed)
    truth, deviation = frame.set_index("time").y, frame.y[: int(0.7 * len(frame))].std(ddof=0)
    found = {
        (name, how): forecasts(frame, share, seed, name, irregular)
        for name in ("S4D alone", "default forecaster, with S4D")
        for how, irregular in (("as they come", True), ("interpolated", False))
    }
    index = next(iter(found.values())).index
    for values in found.values():
        index = index.intersection(values.index)
    index = index[index.get_level_values("cutoff").isin(truth.index) & index.get_level_values("time").isin(truth.index)]
    found["repeat-last", ""] = pd.Series(truth.loc[index.get_level_values("cutoff")].to_numpy(), index)
    y = truth.loc[index.get_level_values("time")].to_numpy()
    cutoffs = index.get_level_values("cutoff").nunique()
    print(
        f"seed {seed}: {len(frame)} rows are left; scores are of {len(index)} rows after {cutoffs} cutoffs", flush=True
    )
    return {
        key: (float(np.mean(error**2)), float(np.mean(np.abs(error))))
        for key, values in found.items()
        for error in [(values.loc[index].to_numpy() - y) / deviation]
    }


def main(arguments: list[str] | None = None) -> None:
    """Print a table of errors, mean and deviation over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.5, help="of the rows, to remove")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--wave", type=float, help="hours of a wave in place of ETTh1")
    options = parser.parse_args(arguments)
    found = [scores(hourly(options.wave), options.share, seed) for seed in options.seeds]
    print("| model | rows | MSE | MAE |\n|---|---|---|---|")
    for name, how in found[0]:
        cells = []
        for values in zip(*(one[name, how] for one in found), strict=True):
            spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
            cells.append(f"{statistics.fmean(values):.4f}{spread}")
        print(f"| {name} | {how} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
