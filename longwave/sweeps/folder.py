"""The folder of a sweep: sweep.json, which lists its runs; one folder per run; table.csv and a picture.

Runs are compared by their scores on the validation set. Scores on the test set, from the same result.json, are left
out, and shown on request for the best settings only.
"""

import math
import shlex
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from longwave.core import files
from longwave.core.settings import flat, typed
from longwave.core.terminal import command_line, with_command
from longwave.experiments import Experiment
from longwave.io.csv import write_csv
from longwave.sweeps.plan import Member
from longwave.tasks.base import scored_split
from longwave.train.folder import RunFolder

FORMAT = 1
ABLATION = "ablation-"  # the prefix of its experiments
State = Literal["finished", "failed", "interrupted", "new"]


@dataclass(frozen=True)
class SweepFolder:
    """A sweep on disk."""

    path: Path
    members: list[Member]
    goal: str
    higher_is_better: bool
    data_dir: Path | None = None

    @classmethod
    def open(cls, path: str | Path) -> "SweepFolder":
        file = Path(path) / "sweep.json"
        try:
            content = files.read_json(file)
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']!r:.80} is that of another version of longwave")
            members = [_member(one, f"runs[{k}]", str(file)) for k, one in enumerate(content["runs"])]
            if len({one.name for one in members}) < len(members) or not members:
                raise ValueError("runs: expected one or more, each with its own name")
            return cls(
                Path(path),
                members,
                typed(content["goal"], str, "goal"),
                typed(content["higher_is_better"], bool, "higher_is_better"),
                typed(content["data_dir"], Path | None, "data_dir"),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: expected the folder of a sweep, with a sweep.json ({error})") from error

    def write(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        runs = [one._asdict() | {"experiment": one.experiment.to_dict()} for one in self.members]
        content = {
            "format": FORMAT,
            "command": command_line(),
            "data_dir": None if self.data_dir is None else str(self.data_dir),
            "goal": self.goal,
            "higher_is_better": self.higher_is_better,
            "runs": runs,
        }
        files.write_json(self.path / "sweep.json", content)

    @property
    def is_ablation(self) -> bool:
        """Whether its rows are the experiments of the paper's ablation."""
        names = ((one.row, one.experiment.name) for one in self.members)
        return all(row == name and row.startswith(ABLATION) for row, name in names)

    @property
    def resume_command(self) -> str:
        return f"longwave sweep --resume {shlex.quote(str(self.path))}"

    def check_members(self, members: Sequence[Member]) -> None:
        """Refuse runs that are not those of this sweep."""
        known = {one.name: one.experiment for one in self.members}
        reasons = [
            f"{one.name} has other settings: {_difference(known[one.name], one.experiment)}"
            for one in members
            if one.name in known and one.experiment != known[one.name]
        ]
        if {one.name for one in members} != known.keys():
            reasons.append(f"it has {len(known)} other runs")
        if reasons:
            raise ValueError(
                with_command(
                    f"{self.path}: another sweep already exists ({reasons[0]}); choose another folder with --out, or "
                    "resume it with",
                    self.resume_command,
                )
            )

    def place(self, member: Member) -> Path:
        return self.path / member.name

    def state(self, member: Member) -> State:
        place = self.place(member)
        if (place / "failure.json").exists():
            return "failed"
        if (place / "report.html").exists() and (place / "result.json").exists():
            return "finished"
        return "interrupted" if (place / "config.json").exists() else "new"

    def result(self, member: Member) -> dict[str, Any]:
        """The result of a finished run, without the test set."""
        content = self._result(member)
        return {name: value for name, value in content.items() if name not in ("test", "baselines", "parts", "notes")}

    def _result(self, member: Member) -> dict[str, Any]:
        found = RunFolder.open(self.place(member), published=False).result()
        assert found is not None, f"{member.name} is not finished"
        if self.goal not in found["valid"]:
            raise ValueError(f"{self.place(member) / 'result.json'}: expected a validation score {self.goal}")
        return found

    def failure(self, member: Member) -> str:
        path = self.place(member) / "failure.json"
        try:
            return str(files.read_json(path)["reason"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: expected the reason of a failure ({error}); remove it to run again") from error

    def rows(self) -> list["Row"]:
        """The rows, best first; those without a score last."""
        grouped: dict[str, list[Member]] = {}
        for member in self.members:
            grouped.setdefault(member.row, []).append(member)
        sign = -1 if self.higher_is_better else 1
        found = [self._row(name, members) for name, members in grouped.items()]
        return sorted(found, key=lambda row: (row.mean is None, sign * (row.mean or 0.0)))

    def _row(self, name: str, members: list[Member]) -> "Row":
        states = [self.state(member) for member in members]
        results = [self.result(one) for one, state in zip(members, states, strict=True) if state == "finished"]
        scores = [result["valid"][self.goal] for result in results]
        # No mean if a seed failed: it would be that of the lucky ones.
        complete = len(scores) == len(members)
        trained: list[Any] = [self.train_score(member) for member in members]
        return Row(
            name,
            members[0].values,
            members,
            states,
            scores,
            statistics.mean(scores) if complete else None,
            statistics.stdev(scores) if complete and len(scores) > 1 else None,
            statistics.mean(trained) if complete and None not in trained else None,
            [result["seconds"] / 60 for result in results],
            results[0]["parameters"] if results else None,
        )

    def test_scores(self, row: "Row") -> dict[str, list[float]]:
        """The test scores of one row, by name, one per seed; validation scores where there is no test set."""
        found = [self._result(member) for member in row.members]
        results = [result[scored_split(result)[0]] for result in found]
        return {name: [result[name] for result in results] for name in results[0] if all(name in r for r in results)}

    def curves(self, member: Member) -> list[dict[str, Any]]:
        """The lines that a run logged at each validation."""
        path = self.place(member)
        return RunFolder.open(path, published=False).metrics() if (path / "config.json").exists() else []

    def train_score(self, member: Member) -> float | None:
        """The goal's score on the training set, over the last epoch, if it was logged."""
        logged = self.curves(member)
        return logged[-1].get(f"train_{self.goal}") if logged else None

    def write_table(self) -> Path:
        """Write table.csv, one line per run, best rows first."""
        names = list(dict.fromkeys(name for member in self.members for name in member.values))
        scores = [f"valid_{self.goal}", f"train_{self.goal}"]
        lines = [[*names, "seed", "state", *scores, "best_step", "steps", "minutes", "parameters"]]
        for row in self.rows():
            for member, state in zip(row.members, row.states, strict=True):
                cells = [*(member.values.get(name, "") for name in names), member.experiment.loop.seed, state]
                if state == "finished":
                    result = self.result(member)
                    minutes = round(result["seconds"] / 60, 2)
                    cells += [result["valid"][self.goal], self.train_score(member)]
                    cells += [result["best_step"], result["steps"], minutes, result["parameters"]]
                lines.append(cells)
        path = self.path / "table.csv"
        write_csv(path, lines)
        return path


def _difference(there: Experiment, wanted: Experiment) -> str:
    """The settings in which two experiments differ."""
    first, second = (flat(one.to_dict()) for one in (there, wanted))
    names = [name for name in dict.fromkeys((*first, *second)) if first.get(name) != second.get(name)]
    return ", ".join(f"{name} ({first.get(name)} there, {second.get(name)} here)" for name in names)


def _member(content: Any, where: str, file: str) -> Member:
    """A run from sweep.json; its name is that of a folder inside the sweep's."""
    name, row = (typed(content[field], str, f"{where}: {field}") for field in ("name", "row"))
    if not name or name.startswith(".") or Path(name).name != name or "\0" in name:
        raise ValueError(f"{where}: name: expected the name of a folder, got {name!r:.80}")
    if not isinstance(content["values"], dict):
        raise ValueError(f"{where}: values: expected settings by name, got {content['values']!r:.80}")
    return Member(name, row, content["values"], Experiment.from_dict(content["experiment"], file))


class Row(NamedTuple):
    """Runs that differ only in the seed."""

    name: str
    values: dict[str, Any]
    members: list[Member]
    states: list[State]
    scores: list[float]  # on the validation set, of the finished runs
    mean: float | None  # of the scores, if all runs are finished
    spread: float | None  # their standard deviation, of several
    train: float | None  # the mean of the scores in training, over the last epoch, if all runs have one
    minutes: list[float]  # of training, of the finished runs
    parameters: int | None

    @property
    def is_finite(self) -> bool:
        """Whether there is a mean to compare."""
        return self.mean is not None and math.isfinite(self.mean)
