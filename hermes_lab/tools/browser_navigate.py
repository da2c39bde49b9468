"""The `browser_navigate` tool: opens a page."""

from typing import Any
from urllib.parse import urlsplit

from hermes_lab.errors import ToolError
from hermes_lab.tools.browser_snapshot import browse
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.web.browser.installed import browser_extras, missing_browser

_SCHEMES = ("http", "https", "file")


@tool(toolset="browser", available=missing_browser, extras=browser_extras)
async def browser_navigate(ctx: ToolContext, url: str) -> dict[str, Any]:
    """Open a page in the browser, and see its text and elements. An element has a ref{browser_click:, by which
    browser_click takes it}.

    Args:
        url: The address of the page. At http://search.test/ the web can be searched.
    """
    url = url.strip()
    address = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme.lower() not in _SCHEMES or not (parts.hostname or parts.scheme == "file"):
        raise ToolError(f"url: {url[:200]!r} is no address of a page; it begins with http, https or file")
    return await browse(ctx, "navigate", url=address)
