"""Toolsets composed of others. A basic toolset has the tools that name it in `@tool(toolset=...)`."""

COMPOSITES: dict[str, tuple[str, ...]] = {
    "shell": ("terminal", "process"),
    "reading": ("read_file", "search_files"),
    "coding": ("shell", "file", "code_execution", "todo"),
    "learning": ("skills", "memory"),
    "core": ("coding", "learning", "skill_compile", "session_search", "delegate_task", "clarify"),
}
"""Name -> toolsets or tools, in the order in which a model sees them."""

SERVER = "mcp:"
"""Begins the toolset of an MCP server's tools."""
SEPARATOR = "__"
"""Separates the name of a server from that of its tool."""


def of_server(name: str) -> bool:
    """Whether the name of a toolset or tool is that of an MCP server."""
    return name.startswith(SERVER) or SEPARATOR in name
