"""How a scripted policy reads the web with a browser, in place of `web_search` and `web_extract`."""

import json
import re
from collections.abc import Generator, Iterable

from hermes_lab.tasks.family import Action
from hermes_lab.types import ToolResult
from hermes_lab.web.browser.site import SEARCH

_LINK = re.compile(r'- link .*?\[ref=(\w+)\].*:\n\s*- /url: "?([^"\n]+)')


def browsing(actions: Iterable[Action]) -> Generator[Action, ToolResult, None]:
    """The actions, with each call of the toolset `web` as calls of the toolset `browser`: a search fills in the form of
    the search page, and a page is read by a click on the link to it, if one is in sight."""
    results = page = ""
    for action in actions:
        if action.tool == "web_search":
            page = _snapshot((yield Action("browser_navigate", {"url": SEARCH}, action.thought)))
            field = {"ref": _ref(page, "textbox"), "text": action.arguments["query"]}
            page = _snapshot((yield Action("browser_type", field, "I fill in the form.")))
            results = page = _snapshot((yield Action("browser_click", {"ref": _ref(page, "button")}, "I send it.")))
        elif action.tool == "web_extract":
            thought = action.thought
            for url in action.arguments["urls"]:
                if url not in _links(page) and url in _links(results):
                    results = page = _snapshot((yield Action("browser_back", {}, "Back to what I found.")))
                if ref := _links(page).get(url):
                    page = _snapshot((yield Action("browser_click", {"ref": ref}, thought)))
                else:
                    page = _snapshot((yield Action("browser_navigate", {"url": url}, thought)))
        else:
            yield action


def _snapshot(result: ToolResult) -> str:
    """The snapshot in the result of a browser tool; "" if there is none."""
    try:
        return str(json.loads(result.content)["snapshot"])
    except (ValueError, KeyError, TypeError):
        return ""


def _ref(snapshot: str, role: str) -> str:
    """The ref of the first element of that role; "" if there is none."""
    found = re.search(rf"- {role} .*?\[ref=(\w+)\]", snapshot)
    return found[1] if found else ""


def _links(snapshot: str) -> dict[str, str]:
    """The refs of the links, by address."""
    return {url: ref for ref, url in _LINK.findall(snapshot)}
