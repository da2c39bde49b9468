"""The `browser_navigate` tool: opens a page."""

import re
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from hermes_lab.errors import ToolError
from hermes_lab.tools.browser_snapshot import browse
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.web.browser.installed import browser_extras, missing_browser

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d)")
"""Not a host with its port."""


@tool(toolset="browser", available=missing_browser, extras=browser_extras)
async def browser_navigate(ctx: ToolContext, url: str = "") -> dict[str, Any]:
    """Open a page in the browser. Returns its text and elements, each with a ref.

    Args:
        url: The address of the page; if omitted, the web search page.
    """
    from hermes_lab.web.browser.site import SEARCH

    return await browse(ctx, "navigate", url=_address(url.strip() or SEARCH))


def _address(text: str) -> str:
    """The address that is meant; a host without a scheme is one, too. Raises `ToolError` for anything else."""
    address = text if _SCHEME.match(text) else f"http://{text}"
    with suppress(ValueError):
        parts = urlsplit(address)
        valid = parts.port is None or parts.port > 0
        if valid and (parts.hostname if parts.scheme in ("http", "https") else parts.scheme == "file"):
            return address
    raise ToolError(f"url: {text[:200]!r} is not the address of a page; use http, https or file")
