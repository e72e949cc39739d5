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
NAMES += [f"longwave.layers.{name}" for name in ("MIXERS", "Mixer", "MixerConfig")]
NAMES += [f"longwave.models.{name}" for name in ("Recurrence", "UNet", "UNetConfig")]
NAMES += ["longwave.runs.FinishedRun"]
GUIDES = ("docs", "results", "tutorials")


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


@pytest.fixture(scope="module")
def public_name():
    pytest.importorskip("sphinx")
    return runpy.run_path(str(ROOT / "docs" / "conf.py"))["_public_name"]


def test_the_guides_link_public_names_and_calls_of_them_and_nothing_else(public_name):
    assert public_name("S4(256, d_state=64)") == public_name("longwave.S4") == "longwave.S4"
    assert public_name("param_groups") == "longwave.param_groups"
    assert public_name("longwave.stream(model)") == "longwave.stream"
    assert public_name("longwave.ssm.hippo") == "longwave.ssm.hippo"
    assert public_name("UNet") == public_name("longwave.models.UNet") == "longwave.models.UNet"
    for other in ("stream", "hippo", "longwave train", "longwave.models.S4", "layer.step", "S5", "longwave.S4.step"):
        assert public_name(other) is None


def test_every_public_name_is_linked_from_a_guide_and_every_guide_to_use_has_such_links(public_name):
    guides = {path: linked(path, public_name) for path in (ROOT / "docs").rglob("*.md") if path.parent.name in GUIDES}
    names = {f"longwave.{name}" for name in longwave.__all__ if not name.startswith("_")}
    assert sorted(names - set().union(*guides.values())) == []
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    (in_use,) = re.findall(r":caption: Use\n\n(.*?)```", index, re.DOTALL)
    assert [name for name in in_use.split() if not guides[ROOT / "docs" / f"{name}.md"]] == []


def linked(path, public_name):
    """The public names in the text of a page, which lead to the API reference."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {public_name(code) for code in re.findall(r"(?<![`\[])`([^`]+)`(?!`)", text)} - {None}
