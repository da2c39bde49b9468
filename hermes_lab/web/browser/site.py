"""What the requests of a browser get: the pages of a task or a provider, a search page, or a refusal."""

import html
import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from hermes_lab.errors import ToolError
from hermes_lab.types import Page
from hermes_lab.web.corpus import Corpus, corpus_of
from hermes_lab.web.provider import Hit, WebProvider
from hermes_lab.web.shown import defused

SEARCH = "http://search.test/"
"""The address of the search page. No host of the internet can have this name (RFC 6761)."""
_SEARCH_HOST = "search.test"
_RESULTS = 10
_OWN_HOSTS = ("localhost", "127.0.0.1", "::1", "sandbox")
_HTML = "text/html; charset=utf-8"
_HEADING = re.compile(r"(#{1,6})\s+(.+)")
_ITEM = re.compile(r"\s*[-*]\s+(.+)")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
_STATUS = re.compile(r"HTTP (\d{3})\b")


class Reply(NamedTuple):
    """The answer to a request. `passed`: the browser itself makes the request."""

    status: int = 200
    body: str = ""
    type: str = _HTML
    passed: bool = False


class Site:
    """All that a browser can reach.

    A task with `pages` has those alone; other tasks have the pages that `web` reads, or the real ones where the sandbox
    has a `network`. Servers that the agent runs in its sandbox can be reached too.
    """

    def __init__(self, pages: tuple[Page, ...], web: WebProvider | None, *, network: bool) -> None:
        self._web: WebProvider | None = corpus_of(pages) if pages else web
        self._network = network and not pages
        self._own = bool(pages)

    @property
    def network(self) -> bool:
        """Whether pages come from the network itself."""
        return self._network

    @property
    def outside(self) -> bool:
        """Whether pages come from third parties."""
        return self._network or (self._web is not None and self._web.outside)

    async def answer(self, url: str, method: str) -> Reply:
        """The answer to one request. Failures are pages with a status, which say what is wrong."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        if host == _SEARCH_HOST:
            return await self._search(parse_qs(parts.query).get("q", [""])[0])
        if host in _OWN_HOSTS or host.endswith(".localhost") or self._network:
            return Reply(passed=True)
        if self._web is None:
            return _message(403, "No network", "The sandbox has no network access, and web.provider is none.")
        if method not in ("GET", "HEAD", "POST"):
            return _message(405, "Method not allowed", method)
        if isinstance(self._web, Corpus):
            page = self._web.page(url)
            if page is None and not self._web.has_host(host):
                what = "the task's web" if self._own else "the pages of web.corpus"
                return _message(403, "No such site", f"{host} is not a site of {what}, and there is no network access.")
            return _of_page(page) if page else _message(404, "Not found", f"There is no page at {url}")
        return await self._extracted(self._web, url)

    async def _search(self, query: str) -> Reply:
        if self._web is None:
            return _message(404, "No search", "Search is not available here: web.provider is none.")
        try:
            hits = await self._web.search(query, _RESULTS) if query.strip() else []
        except ToolError as error:
            return _message(502, "The search failed", str(error))
        return Reply(body=_document("Search", _results(query, hits, outside=self._web.outside)))

    async def _extracted(self, web: WebProvider, url: str) -> Reply:
        try:
            (document,) = await web.extract([url])
        except ToolError as error:
            return _message(502, "The page cannot be read", str(error))
        if document.error and not document.text:
            status = _STATUS.search(document.error)
            return _message(int(status[1]) if status else 502, "The page cannot be read", document.error)
        return Reply(body=_document(document.title, _body(document.text)))


def _of_page(page: Page) -> Reply:
    return Reply(page.status, page.html or _document(page.title, _body(page.text)))


def _message(status: int, title: str, text: str) -> Reply:
    return Reply(status, _document(title, f"<h1>{html.escape(title)}</h1><p>{html.escape(text)}</p>"))


def _document(title: str, body: str) -> str:
    return f'<!DOCTYPE html><html lang="en"><title>{html.escape(title)}</title><body>{body}</body></html>'


def _results(query: str, hits: Sequence[Hit], *, outside: bool) -> str:
    clean = defused if outside else str
    found = "".join(
        f'<li><a href="{html.escape(hit.url)}">{html.escape(clean(hit.title) or hit.url)}</a>'
        f"<p>{html.escape(clean(hit.snippet))}</p></li>"
        for hit in hits
    )
    nothing = "<p>Nothing was found.</p>" if query.strip() and not hits else ""
    return (
        f'<h1>Search</h1><form action="/"><input name="q" aria-label="Search the web" value="{html.escape(query)}">'
        f"<button>Search</button></form><ol>{found}</ol>{nothing}"
    )


def _body(markdown: str) -> str:
    """Headings, list items and links of a page's Markdown as HTML. Other lines stay as they are, word for word."""
    parts = []
    for line in markdown.splitlines():
        if not line.strip():
            continue
        if match := _HEADING.fullmatch(line.strip()):
            level = len(match[1])
            parts.append(f"<h{level}>{_inline(match[2])}</h{level}>")
        elif match := _ITEM.fullmatch(line):
            parts.append(f"<ul><li>{_inline(match[1])}</li></ul>")
        else:
            parts.append(f"<p>{_inline(line)}</p>")
    return "\n".join(parts).replace("</ul>\n<ul>", "\n")


def _inline(text: str) -> str:
    done, at = [], 0
    for match in _LINK.finditer(text):
        done += [html.escape(text[at : match.start()])]
        done += [f'<a href="{html.escape(match[2])}">{html.escape(match[1])}</a>']
        at = match.end()
    return "".join([*done, html.escape(text[at:])])
