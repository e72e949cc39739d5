"""The results in docs/results/*.csv, read and checked.

`paper.csv` has the paper's numbers, `measured.csv` a line for each measurement, `not_measured.csv` the reasons for what
is missing (patterns of ids, the first that fits), `machines.csv` the machines.
"""

import csv
import re
from fnmatch import fnmatchcase
from pathlib import Path

from results_layouts import LAYOUTS

Line = dict[str, str]
FOLDER = Path(__file__).resolve().parent / "results"
# file: its columns; those in capitals must not be empty
COLUMNS = {
    "paper.csv": "ID TABLE ROW MODEL METRIC better VALUE note same_as",
    "measured.csv": "id table ROW MODEL METRIC VALUE spread seeds COMMAND COMMIT MACHINE threads minutes "
    "details readme note",
    "not_measured.csv": "IDS REASON",
    "machines.csv": "KEY PROCESSOR CORES MEMORY SOFTWARE kernel note",
}
WITHOUT_NUMBER = ("claim", "settings")  # metrics of rows of the paper that are text


class Results:
    """The lines of the four files; a line that cannot be right is refused."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.measured, self.reasons = _read(folder / "measured.csv"), _read(folder / "not_measured.csv")
        self.paper, self.machines = _by(folder / "paper.csv", "id"), _by(folder / "machines.csv", "key")
        seen = set()
        for k, line in enumerate(self.measured, 2):
            what = tuple(line[field] for field in ("table", "row", "model", "metric", "command", "commit"))
            if problem := "the same measurement stands above" if what in seen else self._problem(line):
                raise ValueError(f"measured.csv, line {k}: {problem}")
            seen.add(what)
        for line in self.paper.values():
            same = self.paper.get(line["same_as"] or line["id"])
            if same is None or same["value"] != line["value"]:
                raise ValueError(f"paper.csv, {line['id']}: same_as {line['same_as']!r} does not have the same value")
            if line["model"].startswith("S4") and not self.of(line) and not self.reason(line):
                raise ValueError(f"paper.csv, {line['id']}: neither in measured.csv nor in not_measured.csv")
        for line in self.reasons:
            if not any(fnmatchcase(name, line["ids"]) for name in self.paper):
                raise ValueError(f"not_measured.csv: {line['ids']!r} fits no id in paper.csv")

    def of(self, paper: Line) -> list[Line]:
        """The measurements that belong to a number of the paper."""
        return [line for line in self.measured if line["id"] == (paper["same_as"] or paper["id"])]

    def reason(self, paper: Line) -> str:
        """Why a number of the paper was not measured, or an empty text."""
        name = paper["same_as"] or paper["id"]
        return next((line["reason"] for line in self.reasons if fnmatchcase(name, line["ids"])), "")

    def _problem(self, line: Line) -> str:
        paper = self.paper.get(line["id"])
        if line["id"] and paper is None:
            return f"id {line['id']!r} is not in paper.csv (leave it empty if the paper has no such number)"
        if paper and paper["metric"] not in WITHOUT_NUMBER and _kind(paper) != _kind(line):
            return f"metric {line['metric']!r}, but {line['id']} is {paper['metric']!r}"
        if line["table"] and line["table"] not in LAYOUTS:
            return f"table {line['table']!r}; expected {', '.join(LAYOUTS)}, or nothing"
        if line["table"] and not LAYOUTS[line["table"]].shows(line["model"], line["metric"]):
            return f"table {line['table']!r} has no column for {line['metric']!r} of {line['model']!r}"
        if line["machine"] not in self.machines:
            return f"machine {line['machine']!r} is not in machines.csv"
        if not all(re.fullmatch("[0-9a-f]{7,40}", commit) for commit in line["commit"].split()):
            return f"commit {line['commit']!r}; expected 7 to 40 hexadecimal digits (several with spaces between them)"
        for field in ("value", "spread", "threads", "minutes"):
            if line[field] and not re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", line[field]):
                return f"{field} {line[field]!r} is not a number"
        if line["details"] and not all("=" in detail for detail in line["details"].split(";")):
            return f"details {line['details']!r}; expected name=text; name=text"
        return ""


def _kind(line: Line) -> str:
    """The first word of a metric: a speed may be over GPT-2 where the paper's is over its Transformer."""
    return re.split(r"[ ,]", line["metric"])[0]


def _by(path: Path, key: str) -> dict[str, Line]:
    found: dict[str, Line] = {}
    for line in _read(path):
        if line[key] in found:
            raise ValueError(f"{path.name}: {key} {line[key]!r} stands there twice")
        found[line[key]] = line
    return found


def _read(path: Path) -> list[Line]:
    columns = COLUMNS[path.name].split()
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        if reader.fieldnames != [column.lower() for column in columns]:
            raise ValueError(f"{path.name}: columns {reader.fieldnames}; expected {COLUMNS[path.name].lower()}")
        lines = list(reader)
    for k, line in enumerate(lines, 2):
        if None in line or None in line.values():
            raise ValueError(f"{path.name}, line {k}: expected {len(columns)} fields")
        for column in columns:
            if column.isupper() and not line[column.lower()].strip():
                raise ValueError(f"{path.name}, line {k}: {column.lower()} is missing")
    return lines
