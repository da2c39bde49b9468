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
PROTOCOLS = ("2025-06-18", "2025-03-26", "2024-11-05")
PRIORITIES = ("low", "normal", "high", "urgent")
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_TICKET: dict[str, dict[str, Any]] = {
    "reference": {"type": "string", "description": "The reference of the report, such as REF-1042."},
    "desk": {"type": "string", "description": "The help desk that the ticket is for."},
    "title": _TEXT,
    "details": _TEXT,
    "queue": {"type": "string", "description": "The queue at that desk.", "default": "inbox"},
    "priority": {"type": "string", "enum": list(PRIORITIES), "default": "normal"},
    "tags": {**_TEXTS, "default": []},
    "watchers": {**_TEXTS, "description": "Who is notified of every change.", "default": []},
    "due_days": {
        "type": "integer",
        "minimum": 0,
        "description": "Days until the ticket is due; 0 for no due date.",
        "default": 0,
    },
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
        "File a ticket. Replaces an existing ticket with the same reference.",
        _TICKET,
        ["reference", "desk", "title", "details"],
        False,
    ),
    _tool("get_ticket", "Get a ticket.", {"reference": _TICKET["reference"]}, ["reference"], True),
    _tool("list_tickets", "List the tickets of one desk, or of all desks.", {"desk": _TICKET["desk"]}, [], True),
    _tool("delete_ticket", "Delete a ticket.", {"reference": _TICKET["reference"]}, ["reference"], False),
]


class Refused(Exception):
    """A call that cannot be done; the message is for the agent."""


class Invalid(Exception):
    """A request that breaks the protocol, with the error code of JSON-RPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def read() -> dict[str, Any]:
    """All tickets by reference."""
    try:
        found = json.loads(STATE.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise Refused(f"{STATE} is damaged: {error}") from None
    if not isinstance(found, dict) or not all(_is_ticket(each) for each in found.values()):
        raise Refused(f"{STATE} is damaged: it contains something other than tickets")
    return found


def _is_ticket(found: Any) -> bool:
    return isinstance(found, dict) and {"reference", "desk", "title"} <= found.keys()


def write(tickets: dict[str, Any]) -> None:
    """Replaces all tickets."""
    fresh = STATE.with_suffix(".new")
    fresh.write_text(json.dumps(tickets, indent=1))
    fresh.replace(STATE)


def check(name: str, value: Any, schema: dict[str, Any]) -> None:
    """Raises `Refused` for a value that does not fit the schema of its argument."""
    kind: Any = {"string": str, "integer": int, "array": list}[schema["type"]]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Refused(f"{name} must be of type {schema['type']}")
    if "enum" in schema and value not in schema["enum"]:
        raise Refused(f"{name} must be one of {', '.join(schema['enum'])}")
    if value < schema.get("minimum", value):
        raise Refused(f"{name} must be at least {schema['minimum']}")
    for each in list(value) if "items" in schema else []:
        check(f"each of {name}", each, schema["items"])


def call(name: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The structured result of a call. Raises `Refused`, and `Invalid` for an unknown tool."""
    tool = next((each for each in TOOLS if each["name"] == name), None)
    if tool is None:
        raise Invalid(-32602, f"unknown tool {name!r}")
    schema: dict[str, Any] = tool["inputSchema"]
    for each in schema["required"]:
        if each not in arguments:
            raise Refused(f"{each} is missing")
    for each, value in arguments.items():
        if each not in schema["properties"]:
            raise Refused(f"unknown argument {each!r}")
        check(each, value, schema["properties"][each])
    tickets = read()
    if name == "file_ticket":
        defaults = {key: value["default"] for key, value in _TICKET.items() if "default" in value}
        ticket = {**defaults, **arguments}
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
    found: dict[str, Any] = tickets[arguments["reference"]]
    return found


def answer(method: Any, params: Any) -> dict[str, Any]:
    """The result of a request. Raises `Invalid`."""
    if not isinstance(params, dict) or not isinstance(params.get("arguments", {}), dict):
        raise Invalid(-32602, "params, and the arguments of a call, are objects")
    if method == "initialize":
        wanted = params.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in PROTOCOLS else PROTOCOLS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "desk", "version": "1"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        try:
            result = call(params.get("name"), params.get("arguments", {}))
        except Refused as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        return {"content": [{"type": "text", "text": json.dumps(result)}], "structuredContent": result}
    raise Invalid(-32601, f"unknown method {method!r}")


def reply(line: str) -> dict[str, Any] | None:
    """The reply to a line; None for what wants none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {"id": None, "error": {"code": -32700, "message": "not valid JSON"}}
    if not isinstance(message, dict) or not isinstance(message.get("method", ""), str):
        return {"id": None, "error": {"code": -32600, "message": "a message is an object with a method"}}
    if (
        "id" not in message or "method" not in message
    ):  # a notification, or the answer to a request, of which it has none
        return None
    try:
        return {"id": message["id"], "result": answer(message["method"], message.get("params", {}))}
    except Invalid as error:
        return {"id": message["id"], "error": {"code": error.code, "message": str(error)}}


def main() -> None:
    """Answers requests, one JSON message a line, until stdin ends."""
    for line in sys.stdin:
        if line.strip() and (said := reply(line)):
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **said}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
