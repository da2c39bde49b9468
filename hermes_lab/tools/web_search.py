"""The `web_search` tool: searches the web."""

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import Field

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.web import WebProvider
from hermes_lab.web.shown import NOTE, shown_hits


def has_web(ctx: ToolContext, _offered: Collection[str]) -> bool:
    """Whether the episode has pages or a search provider."""
    return bool(ctx.pages) or ctx.web is not None


@tool(toolset="web", parallel=True, serves=has_web)
async def web_search(
    ctx: ToolContext,
    query: str,
    limit: Annotated[int, Field(ge=1, le=20)] = 5,
) -> dict[str, Any]:
    """Search the web. Returns title, address and snippet of each page. {web_extract: Read pages with web_extract.}

    Args:
        query: What to look for, in a few words.
        limit: Maximum number of results.
    """
    if not query.strip():
        raise ToolError("query: must not be empty")
    web = web_of(ctx)
    results = shown_hits(await web.search(query, limit), outside=web.outside)
    return ({"note": NOTE} if web.outside else {}) | {"results": results}


def web_of(ctx: ToolContext) -> WebProvider:
    """Returns the task's own pages, or else the configured provider. Raises `ToolError` if there is neither."""
    if ctx.pages:
        from hermes_lab.web.corpus import corpus_of

        return corpus_of(ctx.pages)
    if ctx.web is None:
        raise ToolError("the web is not available here: the task has no pages, and web.provider is none")
    return ctx.web
