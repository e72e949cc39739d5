"""The base of estimators: parameters as settings, fitting in memory or in a folder, saving and loading."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from longwave import runs
from longwave.experiments import EXPERIMENTS, Experiment
from longwave.fitting import train_on
from longwave.report.page import scores_html
from longwave.runs import FinishedRun
from longwave.tasks.base import OnData
from longwave.train.loop import Interrupted
from longwave.train.trained import MemoryRun


@dataclass(eq=False, repr=False, kw_only=True)
class Estimator(BaseEstimator):
    """A run of one kind of task, with scikit-learn's methods."""

    kind: ClassVar[str]  # of its task, and the name of the experiment whose settings it starts from
    settings_as: ClassVar[Mapping[str, str]] = {}  # parameters by the settings that have another name

    d_model: int = 64  # features of every layer
    n_layers: int = 3
    epochs: int | None = None  # None: as many as a small set needs
    max_minutes: float | None = None
    random_state: Any = None
    device: str = "auto"
    folder: str | Path | None = None  # where to keep the run with its report, too
    verbose: int = 0  # from 1 on: progress on stderr; the logger "longwave" always gets it

    def _experiment(self, **task: Any) -> Experiment:
        """The experiment with the parameters of the estimator; `task` are settings of the task."""
        default = EXPERIMENTS.find(self.kind)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        model: Any = dataclasses.replace(default.model, d_model=self.d_model, n_layers=self.n_layers)  # type: ignore[call-arg]
        given: dict[str, Any] = {"seed": seed, "minutes": self.max_minutes}
        if self.epochs is not None:
            given["epochs"] = self.epochs
        return dataclasses.replace(
            default,
            task=dataclasses.replace(default.task, **task),
            model=model,
            loop=dataclasses.replace(default.loop, **given),
        )

    def _train(self, experiment: Experiment, on: Callable[[Any, Path | None], OnData]) -> None:
        """Fit, and keep the weights; an existing run in the folder is replaced."""
        try:
            with torch.random.fork_rng(devices=[]):  # the generator of the caller stays as it is
                run = train_on(
                    self.kind, on, self.folder, experiment, overwrite=True, quiet=not self.verbose, device=self.device
                )
        except Interrupted as error:
            raise KeyboardInterrupt(str(error)) from None
        self._keep(run)

    def _keep(self, finished: FinishedRun) -> None:
        """Store the fitted run in this estimator."""
        run = finished.run
        self.run_ = run if isinstance(run, MemoryRun) else MemoryRun.copy_of(run)
        self.result_ = finished.result

    def _trained(self) -> MemoryRun:
        """The fitted run; refuses an estimator that is not fitted."""
        check_is_fitted(self, "run_")
        return self.run_

    def save(self, path: str | Path) -> None:
        """Save the weights, all settings, and a card with the scores in a folder that the commands open."""
        FinishedRun(self._trained(), self.result_).save(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a folder that `save`, `longwave train` or `longwave publish` wrote, or the hub's "user/name"."""
        opened = runs.open(path)
        if opened.run.settings.kind != cls.kind:
            raise ValueError(f"{path}: expected a run of kind {cls.kind}, got one of {opened.run.settings.kind}")
        loop, estimator = opened.experiment.loop, cls()
        given = {"epochs": loop.epochs, "max_minutes": loop.minutes, "random_state": loop.seed}
        for settings in (opened.experiment.task, opened.experiment.model):
            named = {cls.settings_as.get(name, name): value for name, value in vars(settings).items()}
            given |= {name: value for name, value in named.items() if name in estimator.get_params()}
        given.pop("channels", None)  # that is how the stored arrays are laid out, not those to come
        estimator.set_params(**given)._keep(opened)
        return estimator

    def _repr_html_(self) -> str:
        html: str = estimator_html_repr(self)
        return html + scores_html(self.result_) if hasattr(self, "result_") else html
