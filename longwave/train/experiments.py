"""Named experiments: the paper's settings, in the order of its tables, and small ones for a CPU with few cores."""

import dataclasses
import difflib
from pathlib import Path

from longwave.models.config import ModelConfig
from longwave.tasks import forecasting
from longwave.tasks.base import Task
from longwave.tasks.series import read_csv
from longwave.train.config import Experiment, ForecastConfig, LoopConfig, OptimConfig


def _forecast(data: str, horizon: int, multivariate: bool) -> Experiment:
    """tab:informer-s, tab:informer-m: two layers of width 128, dropout 0.25, plateau decay, ten epochs."""
    return Experiment(
        name=f"{data}-{horizon}" + ("-m" if multivariate else ""),
        task=ForecastConfig(data=data, horizon=horizon, context=384, multivariate=multivariate),
        model=ModelConfig(d_model=128, n_layers=2, dropout=0.25, decoder="forecast"),
        optim=OptimConfig(lr=0.01, schedule="plateau"),
        loop=LoopConfig(epochs=10, batch_size=50, validations=5, patience=20),
    )


def _small(paper: Experiment) -> Experiment:
    """The same task in a few minutes on two cores: narrower, each window shifted by its last value, tied dropout.

    Without features of time: a year of training is too little to learn seasons from, and they made the scores worse.
    """
    return dataclasses.replace(
        paper,
        name=f"{paper.name}-small",
        task=dataclasses.replace(paper.task, context=336, time_features=False),
        model=dataclasses.replace(paper.model, d_model=32, dropout=0.2, tie_dropout=True, window="last"),
        optim=OptimConfig(lr=0.002, weight_decay=0.05, schedule="cosine", warmup=20),
        loop=LoopConfig(epochs=3, batch_size=50, validations=4),
    )


def _all() -> dict[str, Experiment]:
    named: dict[str, Experiment] = {}
    for multivariate in (False, True):
        for data, horizons in forecasting.HORIZONS.items():
            for horizon in horizons:
                paper = _forecast(data, horizon, multivariate)
                named |= {e.name: e for e in (paper, _small(paper))}
    named["forecast"] = dataclasses.replace(
        _small(_forecast("etth1", 96, False)), name="forecast", task=ForecastConfig(horizon=96, context=336)
    )
    return named


EXPERIMENTS = _all()


def find(name: str) -> Experiment:
    """The experiment of that name; a wrong one is refused with the nearest right ones."""
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "`longwave list` shows them all"
        raise ValueError(f"no experiment {name!r}; {hint}")
    return EXPERIMENTS[name]


def build_task(config: ForecastConfig, data_dir: Path | None) -> Task:
    """The task that a configuration names."""
    if config.csv is not None:
        series = read_csv(config.csv, config.target, config.time, config.multivariate, config.fill)
        return forecasting.custom(series, config.horizon, config.context)
    features: forecasting.Features = "M" if config.multivariate else "S"
    return forecasting.load(config.data, features, config.horizon, config.context, data_dir)


def fit_model(experiment: Experiment, task: Task) -> Experiment:
    """The experiment with the sizes of the model that its task decides."""
    horizon = experiment.task.horizon
    model = dataclasses.replace(
        experiment.model,
        input_size=task.input_size,
        output_size=task.output_size,
        time_size=task.time_size if experiment.task.time_features else 0,
        horizon=horizon,
        length=experiment.task.context + horizon,
    )
    return dataclasses.replace(experiment, model=model)
