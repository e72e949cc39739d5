import tomllib
from pathlib import Path

# The version is read rather than imported, so that the pages build without torch.
_project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "longwave"
author = "the longwave contributors"
copyright = author
version = release = _project["version"]

extensions = ["myst_parser", "sphinx.ext.mathjax"]
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_static"]

# MathJax comes from _static: a built page loads nothing from the network. Its menu is off because it could.
mathjax_path = "mathjax/tex-svg.js"
mathjax3_config = {"options": {"enableMenu": False}}
math_eqref_format = "({number})"

html_theme = "furo"
html_title = f"longwave {release}"
html_static_path = ["_static"]
html_copy_source = False
html_show_sphinx = False
