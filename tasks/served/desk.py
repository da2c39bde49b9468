"""An MCP server for the tickets of help desks, in the file tickets.json of the folder in which it is started.

It runs in sandboxes with whatever Python 3 there is, so it uses the standard library alone. It knows nothing of the
rules of a desk.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

STATE = Path("tickets.json")
PRIORITIES = ("low", "normal", "high", "urgent")
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_TICKET: dict[str, dict[str, Any]] = {
    "reference": {"type": "string", "description": "The reference of the report, such as REF-1042."},
    "desk": {"type": "string", "description": "The help desk that gets it."},
    "title": _TEXT,
    "details": _TEXT,
    "queue": {"type": "string", "description": "The queue at that desk.", "default": "inbox"},
    "priority": {"type": "string", "enum": list(PRIORITIES), "default": "normal"},
    "tags": {**_TEXTS, "default": []},
    "watchers": {**_TEXTS, "description": "Who is told of every change.", "default": []},
    "due_days": {"type": "integer", "minimum": 0, "description": "Days until it is due; 0: never.", "default": 0},
}


def _tool(
    name: str, description: str, properties: dict[str, Any], required: list[str], read_only: bool
) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": read_only, "openWorldHint": False},
    }


TOOLS = [
    _tool(
        "file_ticket",
        "File a ticket, or replace the one with this reference.",
        _TICKET,
        ["reference", "desk", "title", "details"],
        False,
    ),
    _tool("get_ticket", "Get a ticket.", {"reference": _TICKET["reference"]}, ["reference"], True),
    _tool("list_tickets", "List tickets, of one desk or of all.", {"desk": _TICKET["desk"]}, [], True),
    _tool("delete_ticket", "Delete a ticket.", {"reference": _TICKET["reference"]}, ["reference"], False),
]


class Refused(Exception):
    """A call that cannot be done; the message is for the agent."""


def read() -> dict[str, Any]:
    """All tickets by reference."""
    try:
        found: dict[str, Any] = json.loads(STATE.read_text())
        return found
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Refused(f"{STATE} is damaged: {error}") from None


def write(tickets: dict[str, Any]) -> None:
    """Replaces all tickets."""
    fresh = STATE.with_suffix(".new")
    fresh.write_text(json.dumps(tickets, indent=1))
    fresh.replace(STATE)


def call(name: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The structured result of a call."""
    tool = next((each for each in TOOLS if each["name"] == name), None)
    if tool is None:
        raise Refused(f"no tool {name!r}")
    schema: dict[str, Any] = tool["inputSchema"]
    for each in schema["required"]:
        if each not in arguments:
            raise Refused(f"{each} is missing")
    for each in arguments:
        if each not in schema["properties"]:
            raise Refused(f"no argument {each!r}")
    tickets = read()
    if name == "file_ticket":
        defaults = {key: value["default"] for key, value in _TICKET.items() if "default" in value}
        ticket = {**defaults, **arguments}
        if ticket["priority"] not in PRIORITIES:
            raise Refused(f"priority is one of {', '.join(PRIORITIES)}")
        write({**tickets, ticket["reference"]: ticket})
        return ticket
    if name == "list_tickets":
        of_desk = [each for each in tickets.values() if arguments.get("desk", each["desk"]) == each["desk"]]
        return {"tickets": [{key: each[key] for key in ("reference", "desk", "title")} for each in of_desk]}
    if arguments["reference"] not in tickets:
        raise Refused(f"no ticket {arguments['reference']!r}")
    if name == "delete_ticket":
        write({key: each for key, each in tickets.items() if key != arguments["reference"]})
        return {"deleted": arguments["reference"]}
    ticket = tickets[arguments["reference"]]
    return ticket if isinstance(ticket, dict) else {}


def answer(method: Any, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request. Raises `LookupError` for an unknown method."""
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "desk", "version": "1"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        try:
            result = call(params.get("name"), params.get("arguments") or {})
        except Refused as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        return {"content": [{"type": "text", "text": json.dumps(result)}], "structuredContent": result}
    raise LookupError(method)


def main() -> None:
    """Answers requests, one JSON message a line, until stdin ends."""
    for line in sys.stdin:
        try:
            message = json.loads(line)
        except ValueError:
            reply: dict[str, Any] = {"id": None, "error": {"code": -32700, "message": "no valid JSON"}}
        else:
            if not isinstance(message, dict) or "id" not in message:
                continue
            reply = {"id": message["id"]}
            try:
                reply["result"] = answer(message.get("method"), message.get("params") or {})
            except LookupError:
                reply["error"] = {"code": -32601, "message": f"no method {message.get('method')!r}"}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **reply}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
