"""Hooks of the documentation site: files of the repository that a page links to become pages of the site.

In the repository a link such as `../configs/endpoint.yaml` opens that file. The site shows the file as a page below
`source/`: notebooks with their outputs, other files as code. A link to a folder becomes plain text.
"""

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>\.\./[^)#\s]+)\)")
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
    """Points links to such files at their pages."""
    docs = Path(config.docs_dir)
    up = "../" * page.file.src_uri.count("/")

    def replaced(match: re.Match[str]) -> str:
        path = _outside(docs / page.file.src_uri, match["target"], docs)
        if path is None or not path.exists():
            return match[0]
        return f"[{match['text']}]({up}{_address(path, docs)})" if path.is_file() else match["text"]

    return LINK.sub(replaced, markdown)


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
