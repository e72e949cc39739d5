"""What a release is cut from: one version in every place, and notes for it."""

import re
import runpy
import tomllib

from dense import ROOT

from longwave import __version__

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r'^version = "(.+)"$', project, re.MULTILINE)[1] == __version__
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == __version__


def test_the_changelog_begins_with_the_section_that_takes_new_lines():
    """And the notes of a release have no section twice, as they would if lines were added to them."""
    assert re.search(r"^## (.+)$", CHANGELOG, re.MULTILINE)[1] == "[Unreleased]"
    for release in CHANGELOG.split("\n## [")[1:]:
        headings = re.findall(r"^### (.+)$", release, re.MULTILINE)
        assert len(set(headings)) == len(headings)


def test_the_newest_section_of_the_changelog_is_that_of_the_version():
    sections = re.findall(r"^## \[(.+?)\] - (.+)$", CHANGELOG, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert sections[0] == (__version__, re.search(r"^date-released: (.+)$", citation, re.MULTILINE)[1])


def test_on_pypi_the_links_of_the_readme_are_whole_addresses():
    links = runpy.run_path(str(ROOT / "tools" / "release_links.py"))
    address = "https://example.org/owner/longwave"
    before = (ROOT / "README.md").read_text(encoding="utf-8")
    after = links["readme"](before, address, "v1.2.3")
    targets = re.findall(r"\]\(([^)]+)", after)
    assert len(targets) == len(re.findall(r"\]\(", before))
    assert [target for target in targets if not target.startswith("https://")] == []
    assert f"]({address}/raw/v1.2.3/docs/_static/forecast.png)" in after
    assert f"]({address}/blob/v1.2.3/docs/index.md)" in after
    project = tomllib.loads(links["project"]((ROOT / "pyproject.toml").read_text(encoding="utf-8"), address, "v1.2.3"))
    assert project["project"]["urls"]["Repository"] == address
    assert project["project"]["scripts"]
