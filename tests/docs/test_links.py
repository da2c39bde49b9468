"""Links of the pages, without building the site: files and headings exist, and every page is in the navigation.

`make docs` checks the same in the built site, strictly.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from code_blocks import DOCS, ROOT

PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
FENCE = re.compile(r"^( *)(`{3,}).*?^\1\2`*$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(?<!`)(`+)(?!`)(?:(?!\n\n).)+?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^()\s]+(?:\([^()]*\))?)\)")
SITE = (ROOT / "mkdocs.yml").read_text()
NAVIGATION = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", SITE, re.MULTILINE)


@cache
def prose(page: Path) -> str:
    """A page without its code."""
    return CODE.sub("", FENCE.sub("", page.read_text()))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The ids of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^(`{3,}).*?^\1`*$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#{1,6} +(.+?)(?: #+)?$", text, re.MULTILINE)
    found: list[str] = []
    for heading in headings:
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", unicodedata.normalize("NFC", plain)).strip().lower().replace(" ", "-")
        found.append(slug)
    return frozenset(found)


def links(page: Path) -> Iterator[str]:
    yield from (match["target"] for match in LINK.finditer(prose(page)))


def broken(page: Path, target: str) -> str:
    """Why a link leads nowhere; "" for one that is right, or that leads out of the repository."""
    if re.match(r"https?://|mailto:", target):
        return ""
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return f"{target}: no such file"
    if anchor and anchor not in anchors(file):
        return f"{target}: no such heading"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [why for target in links(page) if (why := broken(page, target))] == []


def test_a_broken_link_would_be_noticed() -> None:
    page = DOCS / "design.md"
    assert [broken(page, to) for to in ("glossary.md", "#submissions", "statistics.md#looking-early")] == [""] * 3
    assert broken(page, "glossry.md") == "glossry.md: no such file"
    assert broken(page, "#submision") == "#submision: no such heading"
    assert broken(page, "statistics.md#look-early") == "statistics.md#look-early: no such heading"
    assert sum(1 for each in PAGES for _ in links(each)) > 250


def test_every_page_is_in_the_navigation_once() -> None:
    pages = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    assert sorted(NAVIGATION) == pages, "add the page to `nav` of mkdocs.yml"


def test_the_site_asks_no_other_host() -> None:
    assert "font: false" in SITE
    for file in (DOCS / "site").glob("*.*"):  # not the folder of compiled modules
        assert not re.search(r"https?://", file.read_text()) or file.suffix == ".py"
    assert not re.search(r"!\[[^]]*\]\(https?:", "".join(map(prose, PAGES)))
