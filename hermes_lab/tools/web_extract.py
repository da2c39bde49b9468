"""The `web_extract` tool: reads web pages."""

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import Field

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.tools.web_search import web_of
from hermes_lab.web.shown import NOTE, shown_page


def reads_pages(ctx: ToolContext, _offered: Collection[str]) -> bool:
    """Whether the episode has pages, or a provider that can read them."""
    return bool(ctx.pages) or (ctx.web is not None and ctx.web.reads_pages)


@tool(toolset="web", parallel=True, serves=reads_pages)
async def web_extract(
    ctx: ToolContext,
    urls: Annotated[list[str], Field(min_length=1, max_length=10)],
    offset: Annotated[int, Field(ge=0)] = 0,
) -> dict[str, Any]:
    """Read web pages as Markdown.

    Args:
        urls: Addresses of pages, at most 10.
        offset: Characters to skip, to continue a long page.
    """
    wanted = [url.strip() for url in dict.fromkeys(urls)]
    if not all(wanted):
        raise ToolError("urls: an address is empty")
    web = web_of(ctx)
    documents = await web.extract(wanted)
    if all(document.error and not document.text for document in documents):
        raise ToolError("; ".join(f"{document.url}: {document.error}" for document in documents))
    pages = [shown_page(document, offset, outside=web.outside) for document in documents]
    return ({"note": NOTE} if web.outside else {}) | {"pages": pages}
