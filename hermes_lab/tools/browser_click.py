"""The `browser_click` tool: clicks an element of the page."""

from typing import Any

from hermes_lab.tools.browser_snapshot import browse, ref_of
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.web.browser.installed import browser_extras, missing_browser


@tool(toolset="browser", available=missing_browser, extras=browser_extras)
async def browser_click(ctx: ToolContext, ref: str, element: str = "") -> dict[str, Any]:
    """Click an element of the open page. Returns the updated page.

    Args:
        ref: The element's ref in the last snapshot.
        element: What it is, in words.
    """
    return await browse(ctx, "click", ref=ref_of(ref, element))
