"""Pictures of the figures: lines over a length, a size or a context, on logarithmic axes."""

from pathlib import Path
from typing import Any, NamedTuple

from longwave.pictures import style

Points = list[tuple[float, float]]


class Panel(NamedTuple):
    """One plot: named lines, each a list of points (x, y); those of the paper are dashed."""

    title: str
    xlabel: str
    ylabel: str
    lines: dict[str, Points]
    paper: dict[str, Points] = {}  # noqa: RUF012  never changed


def draw(panels: list[Panel], path: Path) -> None:
    """The panels in rows of two, with one legend; a name has the same colour in all of them."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    panels = [panel for panel in panels if any(panel.lines.values())]
    columns, rows = min(2, len(panels)), -(-len(panels) // 2)
    figure, places_of_panels = style.panels(5.2 * columns, 4.0 * rows + 0.6, rows, columns, len(panels))
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    legend: dict[str, Any] = {}
    for axes, panel in zip(places_of_panels, panels, strict=True):
        for dashes, suffix, lines in (("-", "", panel.lines), ("--", ", the paper", panel.paper)):
            for name, points in lines.items():
                if points:
                    x, y = zip(*sorted(points), strict=True)
                    color = f"C{names.index(name) % 10}"
                    face = "white" if suffix else color
                    axes.plot(x, y, dashes, color=color, marker="o", mfc=face, markersize=5, label=name + suffix)
        places = sorted({x for points in panel.lines.values() for x, _ in points})
        if places and places[0] > 0:
            axes.set_xscale("log", base=2)
            axes.set_xticks(places)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.grid(color="0.9")
        axes.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel)
        legend |= {str(line.get_label()): line for line in axes.lines}
    if legend:
        figure.legend(list(legend.values()), list(legend), loc="outside lower center", ncols=3, frameon=False)
    style.save(figure, path, dpi=130)
