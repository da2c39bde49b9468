"""Tools of test servers, as a test writes them down."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

FAKE = Path(__file__).parents[2] / "fakes" / "mcp_server.py"
ANYTHING = {"type": "object", "properties": {}}


def tool(name: str, *does: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A tool that does these steps when it is called."""
    declared = {"name": name, "description": f"Does {name}.", "inputSchema": ANYTHING, **fields}
    return declared | ({"does": list(does)} if does else {})


Given = Callable[..., dict[str, Any]]
