"""report.html of a run: one self-contained page, no script, no network."""

import base64
import html
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from longwave.models import SequenceModel
from longwave.report.forecast import BLUE, ORANGE, draw_windows
from longwave.tasks.base import Task
from longwave.tasks.forecasting import ForecastTask

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a202c; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.sub { color: #4a5568; margin-top: .2rem; }
table { border-collapse: collapse; } th, td { padding: .25rem 1rem .25rem 0; border-bottom: 1px solid #e2e8f0; }
th { text-align: left; font-weight: 600; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
tr.own { font-weight: 600; } img { max-width: 100%; }
details { margin-top: 1rem; } pre { background: #f7fafc; padding: 1rem; overflow-x: auto; font-size: .85rem; }
@media (prefers-color-scheme: dark) { body { background: #1a202c; color: #e2e8f0; } .sub { color: #a0aec0; }
  th, td { border-color: #2d3748; } pre { background: #2d3748; } img { background: white; border-radius: 4px; } }
"""


def write_report(folder: Path, task: Task) -> None:
    """Write report.html beside the run's result.json."""
    config = json.loads((folder / "config.json").read_text())
    result = json.loads((folder / "result.json").read_text())
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    model = SequenceModel.from_pretrained(folder / "best").eval()
    name = config["experiment"]["name"]
    sections = [
        ("Scores on the test part", _scores(result)),
        ("Training", _image(lambda: _curves(metrics, task.goal), "loss and validation score over the epochs")),
    ]
    if isinstance(task, ForecastTask):
        sections.insert(
            1, ("Forecasts over truth", _image(lambda: _forecasts(model, task), "forecasts of test windows"))
        )
    sections.append(("Learned kernels", _image(lambda: _kernels(model), "kernels of the first and the last layer")))
    sections.append(("Settings", _settings(config, result)))
    body = "".join(f"<h2>{html.escape(title)}</h2>\n{content}\n" for title, content in sections)
    sub = f"{result['parameters']:,} parameters, {result['steps']:,} steps, {result['seconds'] / 60:.1f} minutes"
    page = (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(name)} - longwave</title><style>{STYLE}</style></head>\n"
        f'<body>\n<h1>{html.escape(name)}</h1>\n<p class="sub">{sub}</p>\n{body}</body>\n</html>\n'
    )
    part = folder / ".report.html.part"
    part.write_text(page)
    part.replace(folder / "report.html")


def _scores(result: dict[str, Any]) -> str:
    scores = list(result["test"])
    rows = [("S4, this run", result["test"], "own")]
    rows += [(name, parts["test"], "") for name, parts in result.get("baselines", {}).items()]
    if result.get("paper"):
        rows.append(("S4, the paper", result["paper"], ""))
    head = "".join(f'<th class="n">{html.escape(score.upper())}</th>' for score in scores)
    lines = [f"<tr><th>model</th>{head}</tr>"]
    for name, values, kind in rows:
        cells = "".join(
            f'<td class="n">{values[s]:.4f}</td>' if s in values else '<td class="n">-</td>' for s in scores
        )
        lines.append(f'<tr class="{kind}"><td>{html.escape(name)}</td>{cells}</tr>')
    return f"<table>{''.join(lines)}</table>"


def _curves(metrics: list[dict[str, Any]], goal: str) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 2.8), layout="constrained")
    epochs = [line["epoch"] for line in metrics]
    left, right = figure.subplots(1, 2)
    left.plot(epochs, [line["loss"] for line in metrics], color=BLUE, marker="o", markersize=3)
    left.set(title="loss of the last batch before each validation", xlabel="epoch")
    right.plot(epochs, [line[f"valid_{goal}"] for line in metrics], color=ORANGE, marker="o", markersize=3)
    right.set(title=f"validation {goal}", xlabel="epoch")
    return figure


def _forecasts(model: SequenceModel, task: ForecastTask) -> Any:
    count = min(4, len(task.test))
    indices = [round(i * (len(task.test) - 1) / max(1, count - 1)) for i in range(count)]
    batch = task.test.batch(indices)
    with torch.no_grad():
        y, _ = model(batch["x"], time=batch.get("time"))
    column = task.data.series.target
    known = batch["x"][:, : task.context, column]
    windows = [(known[i], batch["y"][i, :, column], y[i, :, column]) for i in range(count)]
    return draw_windows(windows, context_shown=min(task.context, task.horizon))


def _kernels(model: SequenceModel) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4), layout="constrained")
    blocks = list(model.blocks)
    chosen = {"first layer": blocks[0]} if len(blocks) == 1 else {"first layer": blocks[0], "last layer": blocks[-1]}
    panels = figure.subplots(1, len(chosen), squeeze=False)[0]
    for axes, (name, block) in zip(panels, chosen.items(), strict=True):
        layer: Any = block.mixer
        length = model.config.length or 1024
        with torch.no_grad():
            K = layer.kernel(length)
            K = K[0] if K.ndim == 3 else K
            order = layer.ssm().dt.argsort(descending=True)
        K = K[order] / K[order].abs().amax(-1, keepdim=True).clamp(min=1e-12)
        axes.pcolormesh(
            range(1, length + 2), range(len(K) + 1), K.numpy(), cmap="RdBu_r", vmin=-1, vmax=1, rasterized=True
        )
        axes.set_xscale("log")
        axes.set(title=name, xlabel="lag (steps)", ylabel="feature, sorted by dt")
    return figure


def _settings(config: dict[str, Any], result: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in config["versions"].items())
    examples = config["task"]["examples"]
    parts = f"{examples['train']:,} examples to train, {examples['valid']:,} to validate, {examples['test']:,} to test"
    text = html.escape(json.dumps({"experiment": config["experiment"], "result": result}, indent=2))
    return (
        f"<p>{html.escape(parts)}.<br>{html.escape(versions)}.<br><code>{html.escape(config['command'])}</code></p>"
        f"<details><summary>every setting and score</summary><pre>{text}</pre></details>"
    )


def _image(draw: Callable[[], Any], alt: str) -> str:
    """A figure as an image inside the page."""
    buffer = io.BytesIO()
    draw().savefig(buffer, format="png", dpi=110)
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{data}">'
