"""The `browser_back` tool: returns to the page before."""

from typing import Any

from hermes_lab.tools.browser_snapshot import browse
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.web.browser.installed import browser_extras, missing_browser


@tool(toolset="browser", available=missing_browser, extras=browser_extras)
async def browser_back(ctx: ToolContext) -> dict[str, Any]:
    """Go back to the previous page, or close a new tab. Returns the page."""
    return await browse(ctx, "back")
