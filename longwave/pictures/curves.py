"""Line plots: scores over epochs, minutes and settings, and time and memory over sizes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from longwave.pictures import style
from longwave.pictures.style import BLUE, GREY, ORANGE, as_drawn, end_at_one, lone_points, save, short

COLOURS = (BLUE, ORANGE, "#38a169", "#9f7aea", "#d53f8c", "#b7791f", "#319795", "#1a202c")
FAINT = "#cbd5e0"
WIDTH, HEIGHT = 4.6, 3.4
FEW = 6  # values that are labelled one by one


class Curve(NamedTuple):
    """A named line, or points if its style is empty; curves of one name share their place in the legend."""

    name: str  # empty: not in the legend
    x: Sequence[Any]
    y: Sequence[float]
    colour: str = BLUE
    style: str = "-"
    width: float = 1.6


class Panel(NamedTuple):
    """One plot, over words side by side or over numbers, optionally on a logarithmic axis."""

    title: str
    xlabel: str
    ylabel: str
    curves: Sequence[Curve]
    is_log: bool = False
    is_whole: bool = False  # x is a count: integer ticks
    is_scaling: bool = False  # a time, a size or a speed over a length: both axes are logarithmic, and points marked


def draw_panels(panels: Sequence[Panel], path: str | Path, columns: int = 2, shares_y: bool = False) -> None:
    """Draw the panels in rows, above one legend; with `shares_y`, those of a row have the same y-axis."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    legend: dict[str, Any] = {}
    size = WIDTH * columns, HEIGHT * rows + 0.5
    figure, places = style.panels(*size, rows, columns, len(panels), sharey="row" if shares_y else False)
    for axes, panel in zip(places, panels, strict=True):
        legend |= _show(axes, panel)
    for axes, panel in zip(places, panels, strict=True):  # once all have been drawn: they may share the axis
        end_at_one(axes, panel.ylabel)
    if legend:
        names = [as_drawn(short(name, 40)) for name in legend]
        most = max(1, int(WIDTH * columns / (0.09 * max(map(len, names)) + 0.6)))
        figure.legend(
            list(legend.values()), names, loc="outside lower center", ncols=min(most, 4), frameon=False, fontsize=8
        )
    save(figure, path, dpi=130)


def _show(axes: Any, panel: Panel) -> dict[str, Any]:
    """Draw a panel; its lines by their names in the legend."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

    legend: dict[str, Any] = {}
    words = list(dict.fromkeys(str(x) for curve in panel.curves for x in curve.x if not isinstance(x, int | float)))
    for rank, curve in enumerate(panel.curves):
        x = [words.index(str(value)) for value in curve.x] if words else list(curve.x)
        points = {"marker": "o", "markersize": 5, "linestyle": ""} if not curve.style else {"linestyle": curve.style}
        options = points if not curve.style else {**points, **lone_points(curve.y)}
        if panel.is_scaling:
            options |= {"marker": "o", "markersize": 5, "mfc": "white" if curve.style == "--" else curve.colour}
        (line,) = axes.plot(
            x, curve.y, color=curve.colour, linewidth=curve.width, zorder=3 - rank / len(panel.curves), **options
        )
        if curve.name:
            legend.setdefault(curve.name, line)
    if words:
        axes.set_xticks(range(len(words)), [as_drawn(short(word, 20)) for word in words], fontsize=8)
        if len(words) > 4:
            axes.tick_params(axis="x", rotation=30)
        axes.set_xlim(-0.5, len(words) - 0.5)
    else:
        values = sorted({x for curve in panel.curves if not curve.style for x in curve.x})
        if panel.is_log:
            axes.set_xscale("log")
        if panel.is_scaling:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:,.6g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
            measured = sorted({x for curve in panel.curves if curve.style == "-" for x in curve.x})
            if measured and measured[0] > 0:
                axes.set_xscale("log", base=2)
                axes.set_xticks(measured)
            axes.xaxis.set_major_formatter("{x:,.0f}")
        elif 1 < len(values) <= FEW:  # they are the ticks themselves
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xticks(values, [f"{value:g}" for value in values])
            axes.margins(x=0.15)
    if panel.is_whole:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, colors=GREY)
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    axes.set_title(as_drawn(panel.title), fontsize=10)
    return legend
