"""The pictures of a sweep: the validation score over each setting and over epochs, and the paper's figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from longwave.experiments import Experiment
from longwave.layers.lssl import GAUSSIAN
from longwave.pictures.curves import COLOURS, FAINT, Curve, Panel, draw_panels
from longwave.sweeps.folder import Row, SweepFolder
from longwave.sweeps.plan import Member

NAMED = 5  # the best rows have a colour and a name
WORDS = {"legs": "HiPPO", GAUSSIAN: "random", "random-nplr": "random"}  # for initialisations
LABELS = ("HiPPO, dense", "random, dense", "random, diagonal", "HiPPO, NPLR (S4)", "random, NPLR")
COLOUR_OF = dict(zip(LABELS, COLOURS, strict=False))


def draw_sweep(sweep: SweepFolder) -> Path | None:
    """Draw sweep.png; None if no run has been validated yet."""
    rows = sweep.rows()
    curves = _curves(sweep, rows)
    if not curves:
        return None
    goal = f"validation {sweep.goal.replace('_', ' ')}"
    panels = [Panel("", "epoch", goal, curves, is_whole=True)]
    for name in dict.fromkeys(name for row in rows for name in row.values):
        panels += _setting(name, [row for row in rows if row.scores and name in row.values], goal)
    path = sweep.path / "sweep.png"
    draw_panels(panels, path, columns=min(3, len(panels)))
    return path


def _curves(sweep: SweepFolder, rows: list[Row]) -> list[Curve]:
    """The learning curve of every run; those of the best rows have colours, and names in the legend."""
    curves = []
    for rank, row in enumerate(rows):
        is_named = rank < NAMED
        for member in row.members:
            logged = sweep.curves(member)
            if logged:
                x, y = [line["epoch"] for line in logged], [line[f"valid_{sweep.goal}"] for line in logged]
                name, colour, width = (row.name, COLOURS[rank], 1.6) if is_named else ("", FAINT, 1.0)
                curves.append(Curve(name, x, y, colour, width=width))
    return curves


def _setting(name: str, rows: list[Row], goal: str) -> list[Panel]:
    """The scores over one setting, one point per run."""
    values = [row.values[name] for row in rows]
    if len(set(map(repr, values))) < 2:
        return []
    points = [(row.values[name], score) for row in rows for score in row.scores]
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    x = [value if numeric else str(value) for value, _ in points]
    is_log = numeric and min(values) > 0 and max(values) / min(values) >= 8
    curves = [Curve("", x, [score for _, score in points], COLOURS[0], "")]
    return [Panel("", name, goal, curves, is_log)]


# The paper's ablation of initialisations


def draw_ablation(sweep: SweepFolder) -> Path | None:
    """Draw ablation.png, the paper's figures: train and validation accuracy over epochs; None if nothing was run."""
    groups: dict[str, list[Member]] = {"Unconstrained": [], "NPLR": []}
    for member in sorted(sweep.members, key=lambda one: _dropout(one.experiment)):
        share, is_nplr = _dropout(member.experiment), structure(member.experiment) == "NPLR"
        name = f"Dropout {share:g}" if share else "NPLR" if is_nplr else "Unconstrained"
        groups.setdefault(name, []).append(member)
    panels = []
    for name, members in groups.items():
        training = _panel(sweep, f"{name}: training", "train_accuracy", members)
        validation = _panel(sweep, f"{name}: validation", "valid_accuracy", members)
        if training.curves or validation.curves:
            panels += [training, validation]
    if not panels:
        return None
    path = sweep.path / "ablation.png"
    draw_panels(panels, path, columns=2, shares_y=True)
    return path


def _panel(sweep: SweepFolder, title: str, score: str, members: Sequence[Member]) -> Panel:
    curves = []
    for member in members:
        logged = [line for line in sweep.curves(member) if score in line]
        if logged:
            name, is_frozen = label(member.experiment), not is_trained(member.experiment)
            colour, style = COLOUR_OF.get(name, COLOURS[-1]), "--" if is_frozen else "-"
            shown = f"{name}, frozen" if is_frozen else name
            curves.append(Curve(shown, [x["epoch"] for x in logged], [x[score] for x in logged], colour, style))
    return Panel(title, "epoch", "accuracy", curves, is_whole=True)


def label(experiment: Experiment) -> str:
    """The label of the state matrix in tables and figures."""
    init = getattr(mixer_of(experiment), "init", None)
    if init is None:
        return experiment.model.label
    words = f"{WORDS.get(init, init)}, {structure(experiment)}"
    return f"{words} (S4)" if words == "HiPPO, NPLR" else words


def is_trained(experiment: Experiment) -> bool:
    """Whether A is trained."""
    trainable = getattr(mixer_of(experiment), "trainable", True)
    return trainable if isinstance(trainable, bool) else "A" in trainable


def structure(experiment: Experiment) -> str:
    """The structure of the state matrix: dense, diagonal or NPLR; for other mixers, their kind."""
    mixer = mixer_of(experiment)
    kind = getattr(mixer, "kind", experiment.model.kind)
    return "NPLR" if kind == "s4" else str(getattr(mixer, "structure", kind))


def mixer_of(experiment: Experiment) -> Any:
    """The settings of the mixer; None for a model that has none."""
    return getattr(experiment.model, "mixer", None)


def _dropout(experiment: Experiment) -> float:
    return float(getattr(experiment.model, "dropout", 0.0))
