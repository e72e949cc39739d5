"""The model card of a run: the README.md that the Hugging Face hub shows, with data, scores, seed and command."""

from typing import Any

from longwave.models import hub
from longwave.pictures.html import score_text
from longwave.tasks.base import scored_split
from longwave.train.trained import Trained

BAR = r"\|"  # within a cell of a table


def model_card(run: Trained, result: dict[str, Any], name: str, licence: str | None) -> str:
    """The text of the card; `name` is what the hub calls the model."""
    experiment, task = run.config.experiment, run.config.task
    split, where = scored_split(result)
    scores = {score: value for score, value in result[split].items() if isinstance(value, int | float)}
    facts: dict[str, Any] = {}
    if experiment.task.pipeline is not None:
        facts["pipeline_tag"] = experiment.task.pipeline
    facts["model-index"] = [
        {
            "name": name.rpartition("/")[2],
            "results": [
                {
                    "task": {"type": facts.get("pipeline_tag", "other")},
                    "dataset": {"name": task["name"], "type": task["name"]},
                    "metrics": [{"type": score, "value": value} for score, value in scores.items()],
                }
            ],
        }
    ]
    sections = {
        "Data": f"{task['name']}: {run.config.examples}." + "".join(f"\n\nNote: {note}." for note in run.config.notes),
        f"Scores on the {where} set": _scores(result, list(scores), split),
        "Training": f"`{run.config.command}`, seed {experiment.loop.seed}, {result['steps']:,} steps, "
        f"{result['seconds'] / 60:.1f} minutes, {result['parameters']:,} parameters; "
        + ", ".join(f"{package} {version}" for package, version in run.config.versions.items())
        + ". All settings are in run.json.",
    }
    title = f"{experiment.name}: {result.get('model', experiment.model.label)}"
    commands = [command for command in ("generate", "predict") if experiment.task.action(command)]
    return hub.card(title, sections, name, licence, facts, commands)


def _scores(result: dict[str, Any], names: list[str], split: str) -> str:
    """A table of the run's scores and those of its baselines, and notes."""
    rows = [("this model", result[split])]
    rows += [(name, splits[split]) for name, splits in result.get("baselines", {}).items()]
    if result.get("paper"):
        rows.append(("S4, the paper", result["paper"]))
    head = f"| model | {' | '.join(name.replace('_', ' ') for name in names)} |\n|---|{'---|' * len(names)}\n"
    lines = (
        f"| {model.replace('|', BAR)} | {' | '.join(score_text(s[name]) if name in s else '' for name in names)} |"
        for model, s in rows
    )
    return head + "\n".join(lines) + "".join(f"\n\nNote: {note}." for note in result.get("notes", ()))
