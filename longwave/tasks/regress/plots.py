"""Pictures of predicted numbers beside the true ones."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.pictures.style import BLUE, ORANGE, as_drawn, short
from longwave.tasks.sequences.plots import make_panels

Values = NDArray[np.float64]
COLUMNS, SIDE = 3, 3.3  # panels in a row, and their size in inches


def draw_predictions(truth: Values, predicted: Values, names: Sequence[str]) -> Any:
    """Predicted over true values (n, targets), one panel per target; on the line they agree. NaN is not drawn."""
    figure, panels = make_panels(len(names), min(COLUMNS, len(names)), SIDE, SIDE)
    for k, (axes, name) in enumerate(zip(panels, names, strict=True)):
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
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 2.2 * len(names)), layout="constrained")
    rows = figure.subplots(len(names), 2, squeeze=False, sharey="row", width_ratios=(3, 1))
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
