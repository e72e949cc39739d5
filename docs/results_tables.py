"""Tables of results in Markdown, made from the CSV files in docs/results.

A page or the README names a table in a comment, and the table stands below it:

    <!-- results: images -->
    <!-- end of results -->

`python docs/results_tables.py` (`make results`) writes the tables into the files. Sphinx makes them anew whenever it
reads a page, so that the built pages always show what the CSV files have.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import results_claims
from results_data import WITHOUT_NUMBER, Line, Results
from results_layouts import LAYOUTS, Column

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- results: (.+?) -->\n).*?(<!-- end of results -->)", re.DOTALL)
WITHOUT_LAYOUT = ("readme", "machines", "forecasting-claims")
SPACE_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:us|ms|s|MB|GB|M)\b)")


def table(name: str, results: Results) -> str:
    """The table that a page calls by this name: one of WITHOUT_LAYOUT, `paper LABEL`, or one of LAYOUTS."""
    if name.startswith("paper "):
        return paper_table(name.removeprefix("paper "), results)
    if name == "readme":
        rows = [
            [x["readme"], _arrowed(x["metric"]), _value(x), _paper(x, results)] for x in results.measured if x["readme"]
        ]
        return markdown(["", "metric", "measured here", "the paper's S4"], rows)
    if name == "machines":
        return markdown(next(iter(results.machines.values())), [list(x.values()) for x in results.machines.values()])
    if name == "forecasting-claims":
        headings = ["claim of the paper", "in its tables", *results_claims.MODELS.values()]
        return markdown(headings, results_claims.forecasting(results))
    if name not in LAYOUTS:
        known = ", ".join((*WITHOUT_LAYOUT, "paper LABEL", *LAYOUTS))
        raise ValueError(f"no table {name!r} of results; expected {known}")
    return page_table(name, results)


def _arrowed(metric: str) -> str:
    """A metric with an arrow: whether higher or lower is better."""
    is_higher_better = metric.startswith(("accuracy", "speed")) or metric.endswith("LSSL / S4")
    return f"{metric} {'↑' if is_higher_better else '↓'}"


def paper_table(label: str, results: Results) -> str:
    """A table or figure of the paper row by row: its numbers, what was measured here, and how, or why not."""
    lines = [line for line in results.paper.values() if line["table"] == label]
    if not lines:
        raise ValueError(f"paper.csv has no table {label!r}")
    rows = []
    for row in dict.fromkeys(line["row"] for line in lines):
        s4 = [line for line in lines if line["row"] == row and line["model"].startswith("S4")]
        others = [line for line in lines if line["row"] == row and line not in s4]
        measured = [found for line in s4 + others for found in results.of(line)]
        missing = [line for line in s4 if not results.of(line)]
        how = _how(measured) + [f"{line['metric']}: {results.reason(line)}" for line in missing]
        if not measured:
            how = [results.reason(missing[0])]
        metrics = {line["metric"] for line in s4}
        known = metrics.pop() if len(metrics) == 1 else ""
        cells = [_listed(of, known) for of in (s4, others, measured)]
        rows.append([row, *cells[:2], cells[2] or "not measured", "<br>".join(how)])
    same = {line["metric"] for line in lines}
    unit = "" if len(same) > 1 or same <= set(WITHOUT_NUMBER) else f": {lines[0]['metric']}"
    return markdown(["", f"S4, the paper{unit}", "others, the paper", "measured here", "how, or why not"], rows)


def page_table(name: str, results: Results) -> str:
    """The measurements whose field `table` has this name, laid out as LAYOUTS says."""
    layout, runs = LAYOUTS[name], dict[tuple[str, ...], list[Line]]()
    for line in results.measured:
        if line["table"] == name:
            runs.setdefault(tuple(line[key] for key in (*layout.keys, "command", "commit")), []).append(line)
    rows = []
    for key, lines in runs.items():
        cells = [_cell(lines, column, results) for column in layout.columns]
        if layout.best:
            better = max if lines[0]["id"] and results.paper[lines[0]["id"]]["better"] == "higher" else min
            scores = [k for k, column in enumerate(layout.columns) if column.field in ("value", "paper") and cells[k]]
            best = better(scores, key=lambda k: float(cells[k].split()[0]))
            cells[best] = re.sub(r"^\S+", r"**\g<0>**", cells[best])
        rows.append([*key[: len(layout.keys)], *cells])
    return markdown([*layout.keys.values(), *(column.heading for column in layout.columns)], rows)


def markdown(headings: Iterable[str], rows: list[list[str]]) -> str:
    """A table; columns without a single entry are left out, and a number stays on one line with its unit."""
    rows = [[SPACE_BEFORE_UNIT.sub("\u00a0", cell.replace("|", "\\|")) for cell in row] for row in rows]
    used = [k for k in range(len(rows[0])) if any(row[k] for row in rows)] if rows else []
    kept = [[row[k] for k in used] for row in [list(headings), *rows]]
    kept.insert(1, ["---"] * len(used))
    return "".join("| " + " | ".join(row) + " |\n" for row in kept)


def fill(text: str, results: Results) -> str:
    """A page's text, its tables made anew."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{table(found[2], results)}\n{found[3]}", text)


def pages() -> list[Path]:
    """The files that may have tables of results."""
    return [ROOT / "README.md", *sorted((ROOT / "docs" / "results").glob("*.md"))]


def _cell(lines: list[Line], column: Column, results: Results) -> str:
    for line in lines:
        if column.model in ("", line["model"]) and column.metric in ("", line["metric"]):
            details = dict(part.strip().split("=", 1) for part in line["details"].split(";") if part)
            made = {"value": _value(line), "paper": _paper(line, results), "run": _how([line])[0]}
            if found := {**line, **details, **made}.get(column.field):
                return found
    return ""


def _listed(lines: list[Line], known: str) -> str:
    """The values by model, with their metric unless it is the known one, and the notes of the paper's."""
    models: dict[str, list[str]] = {}
    for line in lines:
        metric = "" if line["metric"] in (known, *WITHOUT_NUMBER) else line["metric"]
        text = f"{metric}: {_value(line)}" if " " in metric else f"{metric}\u00a0{_value(line)}".strip()
        note = f" ({line['note']})" if "same_as" in line and line["note"] else ""
        models.setdefault(line["model"], []).append(text + note)
    named = {model: "" if models.keys() == {"S4"} else f"{model}\u00a0" for model in models}
    return "<br>".join(named[model] + ", ".join(of) for model, of in models.items())


def _how(lines: list[Line]) -> list[str]:
    """Command, commit, seeds and machine of each run, once."""
    runs: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        runs.setdefault((line["command"], line["commit"]), []).append(line)
    found = []
    for (command, commit), of in runs.items():
        once = {field: "; ".join(dict.fromkeys(x[field] for x in of if x[field])) for field in of[0]}
        parts = [
            f"`{command}`",
            f"commit {commit.replace(' ', ', ')}",
            once["seeds"] and f"seed{'s' * (' ' in once['seeds'])} {once['seeds']}",
        ]
        parts += [once["machine"], once["threads"] and f"{once['threads']} thread{'s' * (once['threads'] != '1')}"]
        parts += [once["minutes"] and f"{once['minutes']} minutes"]
        found.append(", ".join(part for part in parts if part) + (f"; {once['note']}" if once["note"] else ""))
    return found


def _paper(line: Line, results: Results) -> str:
    return _number(results.paper[line["id"]]["value"]) if line["id"] else ""


def _value(line: Line) -> str:
    return _number(line["value"]) + (f"\u00a0±\u00a0{line['spread']}" if line.get("spread") else "")


def _number(text: str) -> str:
    return f"{int(text):,}" if text.isdecimal() else text


if __name__ == "__main__":
    known = Results()
    for path in pages():
        old = path.read_text(encoding="utf-8")
        if (new := fill(old, known)) != old:
            path.write_text(new, encoding="utf-8")
            print("updated", path.relative_to(ROOT))
