"""The table at the end of a run: the model beside the baselines and the paper."""

from typing import Any


def print_scores(name: str, result: dict[str, Any]) -> None:
    """Scores on the test part, best first."""
    from rich.console import Console
    from rich.table import Table

    scores = list(result["test"])
    table = Table(title=f"{name}: test part", title_justify="left")
    table.add_column("model")
    for score in scores:
        table.add_column(score.upper().replace("_", " "), justify="right")
    table.add_row(
        f"{result.get('model', 'S4')} (this run)", *(f"{result['test'][s]:.4f}" for s in scores), style="bold"
    )
    for baseline, parts in result.get("baselines", {}).items():
        table.add_row(baseline, *(f"{parts['test'][s]:.4f}" for s in scores))
    if result.get("paper"):
        table.add_row("S4 (the paper)", *(f"{result['paper'][s]:.4g}" if s in result["paper"] else "-" for s in scores))
    Console().print(table)
    trained = f"{result['steps']} steps in {result['seconds'] / 60:.1f} minutes, best at step {result['best_step']}"
    print(f"{result['parameters']:,} parameters, {trained}")
