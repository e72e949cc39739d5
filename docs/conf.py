import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import results_data
import results_tables
from docutils import nodes
from sphinx import addnodes

_project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# What the API reference documents, by the last part of its name.
PUBLIC = {
    name.rpartition(".")[2]: name
    for page in sorted((Path(__file__).parent / "api").glob("*.md"))
    for name in re.findall(r"^\.\. auto(?:class|function|data):: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE)
}

project = "longwave"
author = "the longwave contributors"
copyright = author
version = release = _project["version"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax"]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
autosummary_generate = False
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_static"]

# Tutorials are run when the pages are built, those that changed alone; an error in one fails the build.
nb_execution_mode = "cache"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300  # for a cell, on a busy machine; docs/tutorials/index.md has the CPU seconds
nb_execution_show_tb = True
nb_merge_streams = True
os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"  # tqdm, which wants a widget

# MathJax comes from _static: a built page loads nothing from the network. Its menu is off because it could.
mathjax_path = "mathjax/tex-svg.js"
mathjax3_config = {"options": {"enableMenu": False}}
math_eqref_format = "({number})"

highlight_language = "none"  # fences without a language are commands and their output
html_theme = "furo"
html_title = f"longwave {release}"
html_static_path = ["_static"]
html_css_files = ["results.css"]
html_copy_source = False
html_show_sphinx = False


def _fill_results(app: Any, page: str, source: list[str]) -> None:
    """Make a page's tables of results anew from the CSV files, on which the page then depends."""
    if results_tables.BLOCK.search(source[0]):
        source[0] = results_tables.fill(source[0], results_data.Results())
        for name in results_data.COLUMNS:
            app.env.note_dependency(str(results_data.FOLDER / name))


def _as_rst(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: code in single backticks, formulas as they are, parameters in two columns."""
    if what == "data":
        lines.clear()  # the docstring of its class
    found: list[str] = []
    in_list = False
    for line in lines:
        row = re.fullmatch(r"(\w[\w., *]*?) {2,}(\S.*)", line)
        if row is None and in_list:  # the longest names of a list fill the first column
            row = re.fullmatch(r"(\w+(?:, \w+)+) (\S.*)", line)
        if row:
            found += [*([] if in_list else [""]), f"- **{_escaped(row[1])}**: {_escaped(row[2])}"]
        elif in_list and line.startswith("  "):
            found.append(f"  {_escaped(line.strip())}")
            continue
        else:
            found += [*([""] if in_list else []), _escaped(line.strip())]
        in_list = row is not None
    lines[:] = found


def _escaped(text: str) -> str:
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\\\*_|])", r"\\\1", part) for part in parts[::2]]
    return "``".join(parts)


def _public_name(code: str) -> str | None:
    """The public name that a piece of code is, or calls: `longwave.stream(model)`, `S4Forecaster`, `param_groups`.

    A single lower-case word (`stream`, `open`) can be a command or anything else, and needs its module before it.
    """
    found = re.fullmatch(r"(longwave\.(?:\w+\.)?)?(\w+)(\(.*\))?", code, re.DOTALL)
    if found is None or not (found[1] or re.search("[A-Z_]", found[2])):
        return None
    name = PUBLIC.get(found[2])
    return name if name and found[1] in (None, name.removesuffix(found[2])) else None


def _link_names(app: Any, page: Any) -> None:
    """Public names in the text of a page lead to the API reference; the build fails where one has no entry there."""
    if app.env.docname.startswith("api/"):
        return
    for literal in list(page.findall(nodes.literal)):
        name = _public_name(literal.astext())
        if name and not isinstance(literal.parent, nodes.reference | nodes.title | addnodes.pending_xref):
            settings = {"refdomain": "py", "reftype": "obj", "refdoc": app.env.docname, "refwarn": True}
            link = addnodes.pending_xref("", literal.deepcopy(), reftarget=name, refexplicit=True, **settings)
            literal.replace_self(link)


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", _as_rst)
    app.connect("doctree-read", _link_names)
    app.connect("source-read", _fill_results)
