"""Scores over sampling rates."""

from collections.abc import Mapping
from pathlib import Path

from longwave.pictures.style import BLUE, GREY, end_at_one, panels, save


def draw_rates(scores: Mapping[float, float], name: str, path: str | Path) -> None:
    """Plot a score over rates on a logarithmic axis, with the training rate marked."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    rates = sorted(scores)
    figure, (axes,) = panels(6.0, 3.6)
    axes.axvline(1, color=GREY, linewidth=1, linestyle=":")
    axes.plot(rates, [scores[rate] for rate in rates], color=BLUE, marker="o", markersize=5)
    axes.annotate(
        "as in training", (1, 0), (4, 4), xycoords=("data", "axes fraction"), textcoords="offset points", color=GREY
    )
    for rate in rates:
        axes.annotate(
            f"{scores[rate]:.3f}",
            (rate, scores[rate]),
            (0, 8),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(rates))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.margins(x=0.08, y=0.18)
    end_at_one(axes, name, room=0.15)  # for the number above a point
    axes.grid(axis="y", color="0.9")
    axes.set(xlabel="rate (2: half the sampling frequency, dt doubled)", ylabel=name.replace("_", " "))
    save(figure, path, dpi=130)
