"""The report of a run as one self-contained HTML page, without scripts or network."""

import html
import json
from typing import Any

import numpy as np

from longwave.core import files
from longwave.pictures.html import Section, duration, image, score_text, table
from longwave.pictures.kernels import draw_kernels, draw_planes
from longwave.pictures.style import BLUE, GREY, ORANGE, as_drawn, end_at_one, panels
from longwave.tasks.base import Task, scored_split
from longwave.train.folder import RunFolder
from longwave.train.trained import RunConfig

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a202c; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.sub { color: #4a5568; margin-top: .2rem; }
td { overflow-wrap: anywhere; } td.n { overflow-wrap: normal; }
table { border-collapse: collapse; } th, td { padding: .25rem 1rem .25rem 0; border-bottom: 1px solid #e2e8f0; }
th { text-align: left; font-weight: 600; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.pair { display: flex; flex-wrap: wrap; gap: 1rem 3rem; align-items: flex-start; } .pair > div { min-width: 0; }
tr.own { font-weight: 600; } img { max-width: 100%; }
pre.text { white-space: pre-wrap; overflow-wrap: anywhere; } .given { color: #718096; }
details { margin-top: 1rem; } pre { background: #f7fafc; padding: 1rem; overflow-x: auto; font-size: .85rem; }
@media (prefers-color-scheme: dark) { body { background: #1a202c; color: #e2e8f0; } .sub { color: #a0aec0; }
  th, td { border-color: #2d3748; } pre { background: #2d3748; } img { background: white; border-radius: 4px; } }
"""

KERNELS = """<p>A row is the convolution kernel of one feature, scaled to its largest value: the weight, positive (red)
or negative (blue), of the input at each lag in the output. The smaller the step size dt of a feature, the more slowly
its kernel changes, and the longer it remembers: dt falls from the bottom to the top.</p>"""


def write_report(folder: RunFolder, model: Any, task: Task, result: dict[str, Any]) -> None:
    """Write report.html into the folder of a run, whose best weights `model` has."""
    config, metrics = folder.config, folder.metrics()
    title = html.escape(config.experiment.title)
    sections = [
        Section(f"Scores on the {scored_split(result)[1]} set", scores_html(result)),
        *(task.report(model) if len(task.test) else ()),  # which show the test set
        Section("Training", _training(metrics, task, result)),
        *_kernels(model, task),
        Section("Settings", _settings(config, result)),
    ]
    body = "".join(f"<h2>{html.escape(head)}</h2>\n{content}\n" for head, content in sections)
    sub = f"{result['parameters']:,} parameters, {result['steps']:,} steps, {duration(result['seconds'])}"
    sub = f"run {html.escape(folder.path.resolve().name)}: {sub}"
    page = (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title} - longwave</title><style>{STYLE}</style></head>\n"
        f'<body>\n<h1>{title}</h1>\n<p class="sub">{sub}</p>\n{body}</body>\n</html>\n'
    )
    files.write_text(folder.path / "report.html", page)


def _kernels(model: Any, task: Task) -> list[Section]:
    """The kernels of the first and of the last S4 layer, if there are any."""
    layers = model.state_spaces
    if not layers:
        return []
    shown = {"first layer": layers[0]} | ({"last layer": layers[-1]} if len(layers) > 1 else {})
    length = task.spec.length or 1024
    picture = KERNELS + image(lambda: draw_kernels(shown, length), "kernels of the first and the last layer")
    size = task.plane
    if size is not None:
        picture += "<p>Some of them as images, in the order of the pixels, row by row; lag 0 is at the top left.</p>"
        picture += image(lambda: draw_planes(shown, size), "kernels reshaped to the plane")
    return [Section("Learned kernels", picture)]


def score_table(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the scores: the run, its parts, the baselines, the paper."""
    split, _ = scored_split(result)
    found = {f"{result.get('model', 'S4')} (this run)": result[split]}
    found |= {f"{part} (of this run)": splits[split] for part, splits in result.get("parts", {}).items()}
    found |= {baseline: splits[split] for baseline, splits in result.get("baselines", {}).items()}
    if result.get("paper"):
        found["S4 (the paper)"] = result["paper"]
    scores = list(result[split])
    rows = [[name, *(score_text(of[s]) if s in of else "-" for s in scores)] for name, of in found.items()]
    return ["model", *(score.upper().replace("_", " ") for score in scores)], rows


def interval_table(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the scores of prediction intervals; no rows for a run without them."""
    found = {name: of for name, of in result.get("intervals", {}).items() if isinstance(of, dict)}
    rows = [
        [name, f"{level} %", f"{100 * of['coverage']:.1f} %", score_text(of["width"]), score_text(of["pinball"])]
        for name, levels in found.items()
        for level, of in levels.items()
    ]
    return ["intervals", "level", "covered", "mean width", "pinball loss"], rows


def scores_html(result: dict[str, Any]) -> str:
    """Scores and notes as HTML."""
    notes = "".join(f"<p><strong>Note:</strong> {html.escape(note)}.</p>" for note in result.get("notes", ()))
    head, rows = interval_table(result)
    return table(*score_table(result), own=0) + (f"<br>{table(head, rows)}" if rows else "") + notes


def _training(metrics: list[dict[str, Any]], task: Task, result: dict[str, Any]) -> str:
    """Learning curves, or a sentence if there are no two points to draw one through."""
    goal = f"valid_{task.goal}"
    metrics = [line for line in metrics if {"epoch", "seconds", "loss", goal} <= line.keys()]
    if len(metrics) > 1:
        baseline = task.best_baseline(result.get("baselines", {}), "valid")
        return image(
            lambda: training_curves(metrics, task.goal, baseline), "loss and validation score over epochs and minutes"
        )
    if not metrics:
        return "<p>No validation was logged.</p>"
    (line,) = metrics
    text = (
        f"There was one validation, after epoch {line['epoch']:.3g} and {duration(line['seconds'])}: "
        f"{task.goal.replace('_', ' ')} {score_text(line[goal])}, loss of the last batch {score_text(line['loss'])}."
    )
    if baseline := task.best_baseline(result.get("baselines", {}), "valid"):
        text += f" The best baseline, {baseline[0]}, has {score_text(baseline[1])} on the same set."
    return f"<p>{html.escape(text)}</p>"


def training_curves(metrics: list[dict[str, Any]], goal: str, baseline: tuple[str, float] | None = None) -> Any:
    """Loss and validation score over epochs; the score beside the best baseline, and over minutes on a second axis."""
    from matplotlib.ticker import MaxNLocator

    figure, (left, right) = panels(10, 3.0, 1, 2)
    epochs = [line["epoch"] for line in metrics]
    left.plot(epochs, [line["loss"] for line in metrics], color=BLUE, marker="o", markersize=3)
    left.set(ylabel="training loss, last batch", xlabel="epoch")
    right.plot(epochs, [line[f"valid_{goal}"] for line in metrics], color=ORANGE, marker="o", markersize=3)
    right.set(ylabel=f"validation {goal.replace('_', ' ')}", xlabel="epoch")
    if baseline is not None:
        right.axhline(baseline[1], color=GREY, linestyle="--", linewidth=1, label=as_drawn(baseline[0]))
        right.legend(fontsize=8, frameon=False)
    end_at_one(right, goal)
    for axes in (left, right):
        axes.yaxis.set_major_formatter("{x:.7g}")  # never with an offset, which would stand where the upper axis is
        if epochs[-1] - epochs[0] >= 1:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _show_time(right, epochs, [line["seconds"] for line in metrics])
    return figure


def _show_time(axes: Any, epochs: list[float], seconds: list[float]) -> None:
    """Add an x-axis at the top, with the time that the epochs took."""
    from matplotlib.ticker import MaxNLocator

    unit, scale = ("seconds", 1) if seconds[-1] < 120 else ("minutes", 60)
    times = [one / scale for one in seconds]
    first, last = times[0], times[-1]
    ticks = [tick for tick in MaxNLocator(6).tick_values(first, last) if first <= tick <= last]
    top = axes.secondary_xaxis("top")
    top.set_xticks(np.interp(ticks, times, epochs), [f"{tick:g}" for tick in ticks])
    top.set_xlabel(f"{unit} of training")


def _settings(config: RunConfig, result: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in config.versions.items())
    notes = "".join(f"<p>Note: {html.escape(note)}.</p>" for note in config.notes)
    text = html.escape(json.dumps({"experiment": config.experiment.to_dict(), "result": result}, indent=2))
    return (
        f"<p>{html.escape(config.examples)}.<br>{html.escape(versions)}.</p><pre>{html.escape(config.command)}</pre>"
        f"{notes}<details><summary>every setting and score</summary><pre>{text}</pre></details>"
    )
