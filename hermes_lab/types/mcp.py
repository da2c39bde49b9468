"""What is recorded of MCP servers."""

from msgspec import Struct


class ServedTools(Struct, frozen=True, omit_defaults=True):
    """The tools of an MCP server, as it listed them before the first episode.

    `server` and `version` are what it calls itself, `protocol` is the version of MCP. `tools` has the digest of each
    tool's declaration by the tool's own name, `left_out` the reason for each tool that is not offered, and `digest` is
    a sha256 of all of them.
    """

    server: str
    version: str
    protocol: str
    digest: str
    tools: dict[str, str] = {}
    left_out: dict[str, str] = {}
