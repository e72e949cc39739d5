"""The model card of a run: README.md as the Hugging Face hub shows it, with data, scores, seed and command."""

import json
from typing import Any

from longwave.report.base import score_text
from longwave.train.folder import RunFolder

# What the hub calls such a task, by kind.
PIPELINES = {
    "forecast": "time-series-forecasting",
    "audio": "audio-classification",
    "speech-commands": "audio-classification",
    "spoken-digits": "audio-classification",
    "images": "image-classification",
    "pathfinder": "image-classification",
    "tokens": "text-classification",
    "text": "text-generation",
    "density": "unconditional-image-generation",
}
USE = """```python
import longwave

model = longwave.load_model("{name}").eval()
```"""


def model_card(run: RunFolder, result: dict[str, Any], name: str, licence: str | None) -> str:
    """The text of the card; `name` is what the hub calls the model."""
    experiment, task = run.config.experiment, run.config.task
    scores = {score: value for score, value in result["test"].items() if isinstance(value, int | float)}
    head: dict[str, Any] = {"library_name": "longwave", "tags": ["state-space-model", "s4", "long-sequences"]}
    if licence is not None:
        head["license"] = licence
    if experiment.task.kind in PIPELINES:
        head["pipeline_tag"] = PIPELINES[experiment.task.kind]
    head["model-index"] = [
        {
            "name": name.rpartition("/")[2],
            "results": [
                {
                    "task": {"type": head.get("pipeline_tag", "other")},
                    "dataset": {"name": task["name"], "type": task["name"]},
                    "metrics": [{"type": score, "value": value} for score, value in scores.items()],
                }
            ],
        }
    ]
    examples = task["examples"]
    sections = {
        "Data": f"{task['name']}: {examples['train']:,} examples to train, {examples['valid']:,} to validate, "
        f"{examples['test']:,} to test." + "".join(f"\n\nNote: {note}." for note in run.config.notes),
        "Scores on the test set": _scores(result, list(scores)),
        "Training": f"`{run.config.command}`, seed {experiment.loop.seed}, {result['steps']:,} steps, "
        f"{result['seconds'] / 60:.1f} minutes, {result['parameters']:,} parameters; "
        + ", ".join(f"{package} {version}" for package, version in run.config.versions.items())
        + ". All settings are in run.json.",
        "Use": USE.format(name=name),
        "Licence": licence or "None was stated.",
    }
    # JSON is YAML, too, and quotes what has to be quoted.
    lines = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in head.items())
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    title = f"{experiment.name}: {result.get('model', experiment.model.label)}"
    return f"---\n{lines}---\n\n# {title}\n\n{body}\n"


def _scores(result: dict[str, Any], names: list[str]) -> str:
    """A table of the run's scores and those of its baselines, and notes."""
    rows = [("this model", result["test"])]
    rows += [(name, splits["test"]) for name, splits in result.get("baselines", {}).items()]
    if result.get("paper"):
        rows.append(("S4, the paper", result["paper"]))
    head = f"| model | {' | '.join(name.replace('_', ' ') for name in names)} |\n|---|{'---|' * len(names)}\n"
    lines = (
        f"| {_cell(model)} | {' | '.join(score_text(s[name]) if name in s else '' for name in names)} |"
        for model, s in rows
    )
    return head + "\n".join(lines) + "".join(f"\n\nNote: {note}." for note in result.get("notes", ()))


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
