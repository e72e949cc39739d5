"""The report of a regression: predicted against true, residuals, worst examples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.pictures.html import Section, image, table
from longwave.pictures.style import BLUE, ORANGE, as_drawn, panels, short
from longwave.tasks.actions import predict_all
from longwave.tasks.regress.task import SHOWN_TARGETS, RegressionTask
from longwave.tasks.sequences.plots import draw_sequences, in_units, make_panels, unpadded

Values = NDArray[np.float64]
WORST = 6  # examples
COLUMNS, SIDE = 3, 3.3  # panels in a row, and their size in inches


@dataclass(frozen=True, eq=False)
class Predictions:
    """A model's predictions for every example of a split, in the units of the data; NaN where the truth is missing."""

    truth: Values  # (n, targets)
    predicted: Values  # (n, targets)
    scale: Values  # (targets,) by which errors of different targets are compared
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


# Pictures


def draw_predictions(truth: Values, predicted: Values, names: Sequence[str]) -> Any:
    """Predicted over true values (n, targets), one panel per target; on the line they agree. NaN is not drawn."""
    figure, squares = make_panels(len(names), min(COLUMNS, len(names)), SIDE, SIDE)
    for k, (axes, name) in enumerate(zip(squares, names, strict=True)):
        known = ~np.isnan(truth[:, k])
        true, found = truth[known, k], predicted[known, k]
        both = np.concatenate((true, found))
        low, high = (both.min(), both.max()) if len(both) else (0.0, 1.0)
        margin = 0.05 * (high - low) or 1.0
        span = (low - margin, high + margin)
        axes.plot(span, span, color="0.7", linewidth=1, zorder=0)
        axes.scatter(true, found, s=14, color=BLUE, alpha=_alpha(len(true)), linewidths=0)
        axes.set(xlim=span, ylim=span, xlabel="true", ylabel="predicted")
        axes.set_aspect("equal")
        axes.locator_params(nbins=5)
        axes.tick_params(labelsize=8)
        axes.set_title(as_drawn(short(name, 28)), fontsize=10)
    return figure


def draw_residuals(truth: Values, predicted: Values, names: Sequence[str]) -> Any:
    """Predicted minus true values over the predicted ones, and how they are distributed, one row per target."""
    figure, axes_by_row = panels(10, 2.2 * len(names), len(names), 2, sharey="row", width_ratios=(3, 1))
    rows = axes_by_row.reshape(-1, 2)
    for k, ((left, right), name) in enumerate(zip(rows, names, strict=True)):
        known = ~np.isnan(truth[:, k])
        residuals = predicted[known, k] - truth[known, k]
        left.axhline(0, color="0.7", linewidth=1, zorder=0)
        left.scatter(predicted[known, k], residuals, s=14, color=BLUE, alpha=_alpha(len(residuals)), linewidths=0)
        left.set_ylabel(f"{as_drawn(short(name, 20))}\npredicted - true", fontsize=9)
        bins = min(40, max(5, math.ceil(2 * len(residuals) ** (1 / 3))))
        right.hist(residuals, bins=bins, orientation="horizontal", color=BLUE, alpha=0.7)
        right.axhline(0, color="0.7", linewidth=1)
        if len(residuals):
            right.axhline(residuals.mean(), color=ORANGE, linewidth=1.4, label=f"mean {residuals.mean():.3g}")
            right.legend(frameon=False, fontsize=8, loc="upper right")
        for axes in (left, right):
            axes.tick_params(labelsize=8)
    rows[-1, 0].set_xlabel("predicted")
    rows[-1, 1].set_xlabel("sequences")
    figure.align_ylabels(rows[:, 0])
    return figure


def _alpha(count: int) -> float:
    """Many points are fainter, so that their density is seen."""
    return float(np.clip(20 / math.sqrt(max(count, 1)), 0.1, 0.8))


# The page


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
            "<p>The largest errors of the test set, in standard deviations of the target.</p>"
            + image(lambda: draw_sequences(lines, captions), "the sequences with the largest errors"),
        ),
    ]
