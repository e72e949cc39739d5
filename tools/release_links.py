"""Prepare a checkout for PyPI, which has no other files of the repository: whole addresses for the links of the README.

    python tools/release_links.py https://example.org/owner/longwave v0.2.0

Links to files, pages and pictures then lead to that version in the repository, and pyproject.toml has [project.urls].
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Rewrite README.md and pyproject.toml in place; the release workflow calls it with its own address."""
    address, version = sys.argv[1:]
    for name, prepared in ("README.md", readme), ("pyproject.toml", project):
        path = ROOT / name
        path.write_text(prepared(path.read_text(encoding="utf-8"), address, version), encoding="utf-8")


def readme(text: str, address: str, version: str) -> str:
    """The README with whole addresses in place of paths."""

    def whole(link: re.Match[str]) -> str:
        kind = "raw" if link[1] else "blob"
        return f"{link[1]}[{link[2]}]({address}/{kind}/{version}/{link[3]})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:)([^)]+)\)", whole, text)


def project(text: str, address: str, version: str) -> str:
    """pyproject.toml with the addresses that PyPI shows beside the README."""
    pages = {"Repository": "", "Documentation": f"/blob/{version}/docs/index.md", "Issues": "/issues"}
    urls = "".join(f'{name} = "{address}{page}"\n' for name, page in pages.items())
    return text.replace("\n[project.scripts]\n", f"\n[project.urls]\n{urls}\n[project.scripts]\n", 1)


if __name__ == "__main__":
    main()
