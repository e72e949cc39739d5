"""report.html of a run: one self-contained page, no script, no network."""

import base64
import html
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from longwave import models
from longwave.generate import generate
from longwave.models import SequenceModel
from longwave.report import classification
from longwave.report.classification import SHOWN_CLASSES
from longwave.report.forecast import draw_windows
from longwave.report.generation import draw_completions, draw_samples
from longwave.report.kernels import draw_first_and_last, draw_planes
from longwave.report.pictures import BLUE, ORANGE
from longwave.tasks.autoregressive import START
from longwave.tasks.base import Task
from longwave.tasks.classification import ClassificationTask
from longwave.tasks.density import DensityTask
from longwave.tasks.forecasting import ForecastTask
from longwave.tasks.images import ImageTask
from longwave.tasks.text import TextTask
from longwave.train import sample

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


def write_report(folder: Path, task: Task) -> None:
    """Write report.html beside the run's result.json."""
    config = json.loads((folder / "config.json").read_text())
    result = json.loads((folder / "result.json").read_text())
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    model = models.load(folder / "best").eval()
    name = config["experiment"]["name"]
    sections = [
        ("Scores on the test part", _scores(result)),
        ("Training", _image(lambda: _curves(metrics, task.goal), "loss and validation score over the epochs")),
    ]
    if isinstance(task, ForecastTask):
        sections.insert(
            1, ("Forecasts over truth", _image(lambda: _forecasts(model, task), "forecasts of test windows"))
        )
    if isinstance(task, ClassificationTask):
        sections[1:1] = _classification(model, task)
    if isinstance(task, TextTask):
        sections.insert(1, ("A sample", _text_sample(model, task)))
    if isinstance(task, DensityTask):
        sections.insert(1, ("Samples", _image_samples(model, task)))
    if isinstance(model, SequenceModel) and model.config.mixer == "s4":
        length = model.config.length or 1024
        picture = _image(lambda: draw_first_and_last(model, length), "kernels of the first and the last layer")
        if isinstance(task, ImageTask) and task.order is None:
            told = "<p>Some of them as images, row by row as the pixels come; lag 0 is at the top left.</p>"
            picture += told + _image(lambda: draw_planes(model, task.size), "kernels reshaped to the plane")
        sections.append(("Learned kernels", picture))
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
    part.write_bytes(page.encode("utf-8", "replace"))  # a file's name in the command may be no text at all
    part.replace(folder / "report.html")


def _scores(result: dict[str, Any]) -> str:
    scores = list(result["test"])
    rows = [(f"{result.get('model', 'S4')}, this run", result["test"], "own")]
    rows += [(name, parts["test"], "") for name, parts in result.get("baselines", {}).items()]
    if result.get("paper"):
        rows.append(("S4, the paper", result["paper"], ""))
    head = "".join(f'<th class="n">{html.escape(score.upper().replace("_", " "))}</th>' for score in scores)
    lines = [f"<tr><th>model</th>{head}</tr>"]
    for name, values, kind in rows:
        cells = "".join(
            f'<td class="n">{values[s]:.4f}</td>' if s in values else '<td class="n">-</td>' for s in scores
        )
        lines.append(f'<tr class="{kind}"><td>{html.escape(name)}</td>{cells}</tr>')
    return f"<table>{''.join(lines)}</table>"


def _curves(metrics: list[dict[str, Any]], goal: str) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 2.6), layout="constrained")
    epochs = [line["epoch"] for line in metrics]
    scores, told = [line[f"valid_{goal}"] for line in metrics], goal.replace("_", " ")
    panels = figure.subplots(1, 3)
    panels[0].plot(epochs, [line["loss"] for line in metrics], color=BLUE, marker="o", markersize=3)
    panels[0].set(title="loss of the batch before each validation", xlabel="epoch")
    panels[1].plot(epochs, scores, color=ORANGE, marker="o", markersize=3)
    panels[1].set(title=f"validation {told}", xlabel="epoch")
    panels[2].plot([line["seconds"] / 60 for line in metrics], scores, color=ORANGE, marker="o", markersize=3)
    panels[2].set(title=f"validation {told}", xlabel="minutes of training")
    for axes in panels:
        axes.title.set_fontsize(10)
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
    return draw_windows(windows, context_shown=min(task.context, max(task.horizon, 48)))


def _classification(model: Any, task: ClassificationTask) -> list[tuple[str, str]]:
    """Confusion, mistakes, and what the model went by."""
    readings = classification.read(model, task, task.test)
    sections = [("What was taken for what", _confusion(readings, task.counts["train"]))]
    wrong = readings.wrong(12 if isinstance(task, ImageTask) else 6)
    count = int((readings.predicted != readings.labels).sum())
    if wrong:
        told = f"<p>{count:,} of {len(readings.labels):,} were read wrongly; the surest mistakes, with how sure."
        picture = _image(
            lambda: classification.draw_examples(task, task.test, readings, wrong), "wrongly read examples"
        )
        sections.append(("Wrongly read examples", f"{told}</p>{picture}"))
    else:
        sections.append(("Wrongly read examples", f"<p>None of {len(readings.labels):,}.</p>"))
    shown = wrong[:3] + readings.right(6 - len(wrong[:3]))
    shares = classification.evidence(model, task.test.batch(shown), classification.average_example(task))
    told = (
        "<p>Blue steps spoke for the class that was chosen against the one that came second, orange ones for the "
        "second: integrated gradients of the difference of their logits, from the average training example.</p>"
    )
    picture = _image(
        lambda: classification.draw_evidence(task, task.test, readings, shown, shares), "evidence along the sequence"
    )
    return [*sections, ("Where the evidence lies", told + picture)]


def _text_sample(model: Any, task: TextTask) -> str:
    """The beginning of the test part, and what the model makes of it."""
    shown, length = (200, 800) if task.unit == "byte" else (40, 160)
    given = task.test.tokens[:shown].tolist()
    made = generate(model, torch.tensor([[START, *given]]), length, seed=0)[0].tolist()
    pieces = list(task.codec.decode(given + made))  # one a token
    known, new = (html.escape("".join(part)) for part in (pieces[: len(given)], pieces[len(given) :]))
    told = f"<p>The grey beginning is that of the test part; the {length} {task.unit}s after it were drawn.</p>"
    return f'{told}<pre class="text"><span class="given">{known}</span>{new}</pre>'


def _image_samples(model: Any, task: DensityTask) -> str:
    """Images from nothing, and test images whose lower half was drawn."""
    height, width = task.size
    images = sample.complete(model, np.empty((24, 0), np.uint8), height * width, 1, seed=0)
    originals = task.test_images(range(min(4, len(task.test))))
    halves = sample.complete_halves(model, originals, 4, seed=0)
    return (
        _image(lambda: draw_samples(images.reshape(-1, height, width), 12), "images drawn by the model")
        + "<p>Test images, of which the model was given the upper half, and what it drew below:</p>"
        + _image(lambda: draw_completions(originals, halves), "completed test images")
    )


def _confusion(readings: classification.Readings, trained: tuple[int, ...]) -> str:
    recalls = classification.recalls(readings)
    balanced = sum(recall for _, _, recall in recalls) / len(recalls)
    listed = recalls[:SHOWN_CLASSES]
    worst = f" The {len(listed)} worst:" if len(listed) < len(recalls) else ""
    rows = [(readings.classes[k], f"{trained[k]:,}", f"{count:,}", f"{recall:.1%}") for k, count, recall in listed]
    recall_table = _table(("class", "to train", "to test", "recall"), rows)
    told = f"<p>The mean recall of the classes is {balanced:.4f}.{worst}</p>"
    if len(readings.classes) <= SHOWN_CLASSES:
        picture = _image(lambda: classification.draw_confusion(readings), "confusion matrix")
        return f'<div class="pair"><div>{picture}</div><div>{told}{recall_table}</div></div>'
    pairs = [(a, b, f"{n:,}", f"{share:.1%}") for a, b, n, share in classification.confused_pairs(readings)]
    pair_table = _table(("is", "read as", "times", "of its class"), pairs) if pairs else "<p>No mistakes.</p>"
    return f'<div class="pair"><div>{pair_table}</div><div>{told}{recall_table}</div></div>'


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of text; columns of numbers stand to the right."""
    numeric = [all(row[k][:1].isdigit() for row in rows) and k > 0 for k in range(len(head))]
    kinds = [' class="n"' if is_number else "" for is_number in numeric]
    lines = ["".join(f"<th{kind}>{html.escape(cell)}</th>" for cell, kind in zip(head, kinds, strict=True))]
    for row in rows:
        lines.append("".join(f"<td{kind}>{html.escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)))
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _settings(config: dict[str, Any], result: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in config["versions"].items())
    examples = config["task"]["examples"]
    parts = f"{examples['train']:,} examples to train, {examples['valid']:,} to validate, {examples['test']:,} to test"
    notes = "".join(f"<p>Note: {html.escape(note)}.</p>" for note in config["task"].get("notes", ()))
    text = html.escape(json.dumps({"experiment": config["experiment"], "result": result}, indent=2))
    return (
        f"<p>{html.escape(parts)}.<br>{html.escape(versions)}.<br><code>{html.escape(config['command'])}</code></p>"
        f"{notes}<details><summary>every setting and score</summary><pre>{text}</pre></details>"
    )


def _image(draw: Callable[[], Any], alt: str) -> str:
    """A figure as an image inside the page."""
    buffer = io.BytesIO()
    draw().savefig(buffer, format="png", dpi=110)
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{data}">'
