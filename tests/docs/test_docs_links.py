"""The pages for users hang together: every link leads somewhere, and every page is reached from the README."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def links(page: Path) -> list[Path]:
    """What a page links to inside the repository."""
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    return [(page.parent / target).resolve() for target in targets if "://" not in target and not target.startswith("mailto:")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    assert [str(target) for target in links(page) if not target.exists()] == []


def test_every_page_is_reached_from_the_readme():
    reached, new = set(), {ROOT / "README.md"}
    while new:
        reached |= new
        new = {target for page in new for target in links(page) if target.suffix == ".md"} - reached
    assert [page.name for page in PAGES if page not in reached] == []
