"""The report of a regression: predicted against true, residuals, worst examples."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.pictures.html import Section, image, table
from longwave.pictures.style import as_drawn, short
from longwave.tasks.actions import predict_all
from longwave.tasks.regress.plots import draw_predictions, draw_residuals
from longwave.tasks.regress.task import SHOWN_TARGETS, RegressionTask
from longwave.tasks.sequences.plots import draw_sequences, in_units, unpadded

WORST = 6  # examples


@dataclass(frozen=True, eq=False)
class Predictions:
    """A model's predictions for every example of a split, in the units of the data; NaN where the truth is missing."""

    truth: NDArray[np.float64]  # (n, targets)
    predicted: NDArray[np.float64]  # (n, targets)
    scale: NDArray[np.float64]  # (targets,) by which errors of different targets are compared
    targets: tuple[str, ...]

    def worst(self, most: int) -> list[tuple[int, int]]:
        """Example and target of the largest errors, one for each example."""
        errors = np.abs(self.predicted - self.truth) / self.scale
        errors = np.where(np.isnan(errors), -np.inf, errors)
        order = np.argsort(-errors.max(axis=1), kind="stable")[:most]
        return [(int(k), int(errors[k].argmax())) for k in order]

    def caption(self, index: int, target: int) -> str:
        """Prediction and truth of one target."""
        name = f"{short(self.targets[target])}: " if len(self.targets) > 1 else ""
        text = f"{name}predicted {self.predicted[index, target]:.4g}, true {self.truth[index, target]:.4g}"
        return as_drawn(text)

    def table(self) -> str:
        """The scores of each target, in its units."""
        rows = []
        for name, true, found in zip(self.targets, self.truth.T, self.predicted.T, strict=True):
            known = ~np.isnan(true)
            error = found[known] - true[known]
            if not len(error):
                rows.append((name, "0", "-", "-", "-"))
                continue
            spread = np.square(true[known] - true[known].mean()).mean()
            r2 = f"{1 - np.square(error).mean() / spread:.4f}" if spread > 0 else "-"
            mae, rmse = np.abs(error).mean(), np.sqrt(np.square(error).mean())
            rows.append((name, f"{len(error):,}", f"{mae:.4g}", f"{rmse:.4g}", r2))
        return table(("target", "sequences", "MAE", "RMSE", "R2"), rows)


def predict(model: Any, task: RegressionTask, size: int = 100) -> Predictions:
    """The model's predictions for every example of the test set."""
    rows, inputs = task.test.rows, task.inputs
    truth = np.where(rows["known"], inputs.restore(rows["y"]), np.nan)
    predicted = inputs.restore(predict_all(model, task.test, size).numpy())
    return Predictions(truth, predicted, np.array(inputs.target_deviation), inputs.targets)


def report(model: Any, task: RegressionTask) -> list[Section]:
    """Predicted against true, residuals, worst examples."""
    found = predict(model, task)
    shown = slice(0, SHOWN_TARGETS)
    columns = found.truth[:, shown], found.predicted[:, shown], found.targets[shown]
    first = f"<p>The first {SHOWN_TARGETS} of {len(found.targets)} targets.</p>" * (len(found.targets) > SHOWN_TARGETS)
    worst = found.worst(WORST)
    batch = task.test.batch([index for index, _ in worst])
    lines = [in_units(task.inputs, unpadded(batch, k)) for k in range(len(worst))]
    captions = [found.caption(index, target) for index, target in worst]
    return [
        Section(
            "Predicted against true",
            found.table() + first + image(lambda: draw_predictions(*columns), "predicted over true values"),
        ),
        Section(
            "Residuals", first + image(lambda: draw_residuals(*columns), "predicted minus true, over the predicted")
        ),
        Section(
            "Worst examples",
            "<p>The largest errors of the test set, each in units of its target's deviation.</p>"
            + image(lambda: draw_sequences(lines, captions), "the sequences with the largest errors"),
        ),
    ]
