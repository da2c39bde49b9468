"""The tools of a run's servers, as they were before its first episode."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hermes_lab.config.mcp import McpServerConfig
from hermes_lab.errors import ConfigError
from hermes_lab.mcp.connection import Listing
from hermes_lab.mcp.declaration import Declared, declare, digest_of
from hermes_lab.types import ServedTools

MOST_TOOLS = 500
"""Of one server. More than models tell apart."""


@dataclass(frozen=True)
class Snapshot:
    """The tools of one server, by the name that the model sees, what is recorded of them, and what was listed."""

    tools: Mapping[str, Declared]
    served: ServedTools
    listing: Listing


def snapshot_of(name: str, config: McpServerConfig, listing: Listing) -> Snapshot:
    """The snapshot of what a server listed. Raises `ConfigError` if `tools` names one that it does not have."""
    listed: dict[str, dict[str, Any]] = {}
    twice: set[str] = set()
    for tool in listing.tools:
        if listed.setdefault(tool["name"], tool) != tool:
            twice.add(tool["name"])
    if missing := [tool for tool in config.tools or () if tool not in listed]:
        raise ConfigError(
            f"mcp.servers.{name}.tools: the server has no tool {missing[0]!r}; it has: {', '.join(sorted(listed))}"
        )
    if config.tools is None and len(listed) > MOST_TOOLS:
        raise ConfigError(
            f"mcp.servers.{name}.tools: the server has {len(listed):,} tools; name those to offer, {MOST_TOOLS} at most"
        )
    tools: dict[str, Declared] = {}
    digests: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for own, tool in sorted(listed.items()):
        if config.tools is not None and own not in config.tools:
            continue
        digests[own] = digest_of(tool)
        declared = "it is listed twice, differently" if own in twice else declare(name, tool)
        if isinstance(declared, str):
            left_out[own] = declared
        elif declared.name in tools:
            left_out[own] = f"its name for the model is that of {tools[declared.name].own_name}"
        else:
            tools[declared.name] = declared
    said = json.dumps([name, sorted(digests.items())])
    digest = hashlib.sha256(said.encode(errors="replace")).hexdigest()
    served = ServedTools(listing.server, listing.version, listing.protocol, digest, digests, left_out)
    return Snapshot(tools, served, listing)


def tools_digest(config_digest: str, served: Mapping[str, ServedTools]) -> str:
    """The digest of a configuration together with the tools of its servers; that of the configuration without any."""
    if not served:
        return config_digest
    said = [config_digest, sorted((name, each.digest) for name, each in served.items())]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def differences(was: Mapping[str, ServedTools], now: Mapping[str, ServedTools]) -> Iterator[str]:
    """What has changed of the servers, one line for each tool or server."""
    for name in sorted({*was, *now}):
        if name not in now or name not in was:
            yield f"mcp.servers.{name}: the server was {'removed' if name in was else 'added'}"
            continue
        a, b = was[name], now[name]
        for tool in sorted({*a.tools, *b.tools}):
            if a.tools.get(tool) != b.tools.get(tool):
                how = "is new" if tool not in a.tools else "is gone" if tool not in b.tools else "has changed"
                yield f"mcp.servers.{name}: the tool {tool} {how}"
        if (a.server, a.version) != (b.server, b.version):
            yield f"mcp.servers.{name}: was {a.server} {a.version}, now {b.server} {b.version}"
