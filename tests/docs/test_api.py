"""Every public name has a page in docs/api/ with an example, and the examples run."""

import re
import runpy

import pytest
from dense import ROOT

import longwave
from longwave import ssm

PAGES = {path.stem: path.read_text() for path in sorted((ROOT / "docs" / "api").glob("*.md")) if path.stem != "index"}
NAMES = [f"longwave.{name}" for name in longwave.__all__ if not name.startswith("_")]
NAMES += [f"longwave.ssm.{name}" for name in ssm.__all__]


def example(page: str) -> str:
    (code,) = re.findall(r"```python\n(.*?)```", PAGES[page], re.DOTALL)
    return code


def test_every_public_name_is_documented_once_and_used_in_the_example_of_its_page():
    documented = {
        name: page
        for page, text in PAGES.items()
        for name in re.findall(r"^\.\. auto(?:class|function|data):: (\S+)", text, re.MULTILINE)
    }
    assert sorted(documented) == sorted(NAMES)
    for name, page in documented.items():
        assert re.search(rf"\b{name.rpartition('.')[2]}\b", example(page)), name


@pytest.mark.parametrize("page", PAGES)
def test_the_example_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(example(page), f"docs/api/{page}.md", "exec"), {"__name__": "example"})


def test_the_guides_link_public_names_and_calls_of_them_and_nothing_else():
    pytest.importorskip("sphinx")
    public_name = runpy.run_path(str(ROOT / "docs" / "conf.py"))["_public_name"]
    assert public_name("S4(256, d_state=64)") == public_name("longwave.S4") == "longwave.S4"
    assert public_name("param_groups") == "longwave.param_groups"
    assert public_name("longwave.stream(model)") == "longwave.stream"
    assert public_name("longwave.ssm.hippo") == "longwave.ssm.hippo"
    for other in ("stream", "longwave train", "longwave.models.UNet", "layer.step", "S5", "longwave.S4.step"):
        assert public_name(other) is None
