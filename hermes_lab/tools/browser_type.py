"""The `browser_type` tool: fills in a field of the page."""

from typing import Any

from hermes_lab.tools.browser_snapshot import browse, ref_of
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.web.browser.installed import browser_extras, missing_browser


@tool(toolset="browser", available=missing_browser, extras=browser_extras)
async def browser_type(
    ctx: ToolContext, ref: str, text: str, submit: bool = False, element: str = ""
) -> dict[str, Any]:
    """Fill in a field of the open page, or choose from a list, replacing its value. Returns the updated page.

    Args:
        ref: The field's ref in the last snapshot.
        text: The new value, or the label to choose.
        submit: Press Enter afterwards.
        element: What it is, in words.
    """
    return await browse(ctx, "type", text=text, submit=submit, ref=ref_of(ref, element))
