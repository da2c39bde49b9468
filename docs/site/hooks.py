"""Hooks of the documentation site: files of the repository that a page links to become pages of the site.

In the repository a link such as `../configs/endpoint.yaml` opens that file. The site shows the file as a page below
`source/`: notebooks with their outputs, other files as code. A link to a folder becomes plain text.

Lists are written as GitHub reads them: what belongs to an item begins below its text, and a list needs no blank line
before it. Python-Markdown, which makes the site, wants four spaces and a blank line.
"""

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>\.\./[^)#\s]+)\)")
ITEM = re.compile(r"(?:[-*+]|\d+[.)]) +")
INTERRUPTS = re.compile(r"(?:[-*+]|1[.)]) +")
"""The first item of a list that directly follows a paragraph."""
LANGUAGES = {".yaml": "yaml", ".py": "python", ".toml": "toml", ".sh": "bash"}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds a page for each file outside of the pages' folder that a page links to."""
    docs = Path(config.docs_dir)
    linked = {
        path
        for page in files.documentation_pages()
        for match in LINK.finditer(page.content_string)
        if (path := _outside(docs / page.src_uri, match["target"], docs))
    }
    for path in sorted(linked):
        if path.is_file():
            shown = _shown(path, docs.parent)
            files.append(
                File.generated(config, _address(path, docs), content=shown, inclusion=InclusionLevel.NOT_IN_NAV)
            )
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Points links to such files at their pages, and indents lists as Python-Markdown wants it."""
    docs = Path(config.docs_dir)
    up = "../" * page.file.src_uri.count("/")

    def replaced(match: re.Match[str]) -> str:
        path = _outside(docs / page.file.src_uri, match["target"], docs)
        if path is None or not path.exists():
            return match[0]
        return f"[{match['text']}]({up}{_address(path, docs)})" if path.is_file() else match["text"]

    return reindented(LINK.sub(replaced, markdown))


def reindented(markdown: str) -> str:
    """The page with what belongs to list items indented by four spaces a level, and a blank line before each list."""
    lines: list[str] = []
    starts: list[int] = []  # the columns where the texts of the open items begin
    fence, fenced_at = "", (0, 0)
    tight = False  # whether the lines since the last blank one began with an item
    for line in markdown.splitlines():
        text = line.lstrip(" ")
        column = len(line) - len(text)
        if fence:
            level, start = fenced_at
            lines.append((" " * 4 * level + line[min(column, start) :]).rstrip())
            fence = "" if text.startswith(fence) else fence
            tight = False
            continue
        if not text:
            lines.append("")
            continue
        after_blank, in_list = not lines or not lines[-1], bool(starts)
        while starts and column < starts[-1] and (after_blank or ITEM.match(text)):
            starts.pop()
        start = starts[-1] if starts else 0
        item = ITEM.match(text) if column - start < 4 else None
        if item and not after_blank and (not tight if in_list else INTERRUPTS.match(text)):
            lines.append("")
        tight = bool(item) or (tight and not after_blank)
        lines.append(" " * 4 * len(starts) + line[min(column, start) :])
        if opened := re.match(r"`{3,}", text):
            fence, fenced_at = opened[0], (len(starts), start)
        if item:
            starts.append(column + len(item[0]))
    return "\n".join(lines)


def _outside(page: Path, target: str, docs: Path) -> Path | None:
    """The file that a link of a page names, unless it is a page itself."""
    path = (page.parent / target).resolve()
    return None if path.is_relative_to(docs) else path


def _address(path: Path, docs: Path) -> str:
    return f"source/{path.relative_to(docs.parent)}.md"


def _shown(path: Path, root: Path) -> str:
    """A file as Markdown."""
    title = f"# {path.relative_to(root)}\n\n"
    if path.suffix == ".md":
        return path.read_text()
    if path.suffix == ".ipynb":
        return title + "\n\n".join(part for cell in json.loads(path.read_text())["cells"] for part in _cell(cell))
    return title + _fenced(path.read_text(), LANGUAGES.get(path.suffix, "text"))


def _cell(cell: dict[str, Any]) -> list[str]:
    """A cell of a notebook, and its outputs."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [re.sub(r"^#", "##", source, flags=re.MULTILINE)]
    return [_fenced(source, "python"), *(_output(output) for output in cell["outputs"])]


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f"![Output](data:image/png;base64,{''.join(data['image/png']).strip()})"
    return _fenced("".join(output.get("text") or data.get("text/plain", "")), "text")


def _fenced(text: str, language: str) -> str:
    return f"````{language}\n{text.rstrip()}\n````"
