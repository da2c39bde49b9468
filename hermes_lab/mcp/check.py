"""Checks before a run whether its MCP servers can be used."""

import os
from importlib.util import find_spec

from hermes_lab.config.mcp import REFERENCE, McpConfig
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.mcp.programs import check_programs
from hermes_lab.text.suggest import did_you_mean
from hermes_lab.tools.registry import known_tools
from hermes_lab.tools.toolsets import SEPARATOR, SERVER, of_server


def check_servers(config: RunConfig, mcp: McpConfig) -> None:
    """Raises `ConfigError` if the SDK or the program of a server is missing, if `agent` names tools of a server that is
    not configured, or if a recording is to be replayed, whose calls no server may answer again."""
    for field in ("toolsets", "disabled_tools"):
        for name in getattr(config.agent, field):
            if of_server(name) and name not in known_tools():
                _check_name(f"agent.{field}", name, mcp)
    if not mcp.servers:
        return
    need_sdk(mcp)
    if config.model.provider == "replay":
        raise ConfigError(
            "model.provider: replay cannot repeat the calls of MCP servers, which may have effects; replay single "
            "episodes with `hermes-lab replay`"
        )


def need_sdk(config: McpConfig) -> None:
    """Raises `ConfigError` if servers are configured whose program, or the MCP SDK, is not installed."""
    if not config.servers:
        return
    if find_spec("mcp") is None:
        raise ConfigError("mcp.servers: `mcp` is not installed: pip install 'hermes-lab[mcp]'")
    check_programs(config)


def check_variables(config: McpConfig) -> None:
    """Raises `ConfigError` for the first `${NAME}` that the environment does not have."""
    for name, server in config.servers.items():
        for field, text in server.with_references.items():
            if missing := [each for each in REFERENCE.findall(text) if each not in os.environ]:
                raise ConfigError(f"mcp.servers.{name}.{field}: set {missing[0]} in the environment")


def _check_name(field: str, name: str, config: McpConfig) -> None:
    server = name.removeprefix(SERVER) if name.startswith(SERVER) else name.partition(SEPARATOR)[0]
    if server in config.servers:
        return
    hint = did_you_mean(server, config.servers)
    there = f"there are: {', '.join(config.servers)}" if config.servers else "none is configured"
    raise ConfigError(f"{field}: {name}: mcp.servers has no server {server!r}{hint}; {there}")
