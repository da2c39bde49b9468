"""The `browser_snapshot` tool, and what the browser tools share: the browser of an episode, and how pages are shown."""

import re
from typing import Annotated, Any

from pydantic import Field

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.web.browser.installed import browser_extras, missing_browser
from hermes_lab.web.browser.session import MOST, Action, BrowserSession, Seen
from hermes_lab.web.shown import NOTE, PAGE_CHARS, defused, fenced

_REF = re.compile(r"@?(?:\[?ref=)?((?:f\d+)?e\d+)\]?")


@tool(toolset="browser", available=missing_browser, extras=browser_extras)
async def browser_snapshot(ctx: ToolContext, offset: Annotated[int, Field(ge=0)] = 0) -> dict[str, Any]:
    """Get the open page again: its text and elements, each with a ref.

    Args:
        offset: Characters to skip, to continue a long page.
    """
    return await browse(ctx, "snapshot", offset=offset)


async def browse(ctx: ToolContext, action: Action, *, offset: int = 0, **given: object) -> dict[str, Any]:
    """Does an action in the episode's browser, and returns the page afterwards. Raises `ToolError` if it failed."""
    from hermes_lab.web.browser.site import Site

    site = Site(ctx.pages, ctx.web, network=ctx.config.backend == "local")
    seen = await ctx.state(BrowserSession).act(ctx.sandbox, ctx.config, site, action, **given)
    return _shown(seen, offset, min(PAGE_CHARS, ctx.config.output_chars), outside=site.outside)


def ref_of(text: str, element: str) -> str:
    """The argument `ref` of an action, from e5, @e5 or [ref=e5]. Raises `ToolError` for anything else."""
    if not (match := _REF.fullmatch(text.strip())):
        raise ToolError(
            f"ref: {text[:80]!r} is not a ref{f' of {element}' if element else ''}; use one from the snapshot"
        )
    return match[1]


def _shown(seen: Seen, offset: int, most: int, *, outside: bool) -> dict[str, Any]:
    clean = defused if outside else str
    text = clean(seen.text)
    part = text[offset : offset + most]
    error = f"HTTP {seen.status}: {clean(seen.title) or 'no page'}" if seen.status >= 400 else ""
    notes = list(map(clean, seen.notes))
    if (end := offset + len(part)) < len(text):
        notes.append(f"characters {offset:,} to {end:,} of {len(text):,}; continue with browser_snapshot, offset {end}")
    elif offset and not part:
        notes.append(f"the page has only {len(text):,} characters")
    if not seen.whole:
        notes.append(f"only the first {MOST:,} characters of the page can be read")
    return {
        **({"error": error} if error else {}),
        **({"note": NOTE} if outside else {}),
        "url": seen.url,
        "title": clean(seen.title),
        **({"notes": notes} if notes else {}),
        "snapshot": fenced(part) if outside else part,
    }
