"""The configuration of MCP servers."""

import re
import shlex
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from hermes_lab.config.paths import InputPath
from hermes_lab.config.section import Section
from hermes_lab.config.units import Unit

_NAME = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9-])*")
_LONGEST_NAME = 24
REFERENCE = re.compile(r"\$\{(\w+)\}")
"""A reference to an environment variable."""
_FETCHING = frozenset({"npx", "uvx", "bunx", "pnpx", "docker", "podman"})
"""Programs that fetch what they run, or need a daemon of this machine."""


class McpServerConfig(Section):
    """One MCP server: a program that speaks over its stdin and stdout, or an address for streamable HTTP."""

    command: str = ""
    """The program, optionally with arguments: `npx -y @modelcontextprotocol/server-everything`."""
    args: tuple[str, ...] = ()
    """More arguments."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the program, which inherits none but PATH and HOME. `${NAME}` is replaced by a variable
    of the environment, whose value is never stored."""
    url: str = ""
    """The address of a server that speaks streamable HTTP; `${NAME}` is replaced as in `env`. Messages show it without
    its query, where keys often are."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Request headers; `${NAME}` is replaced as in `env`."""
    scope: Literal["episode", "run"] | None = None
    """`episode`: the program runs in the sandbox of each episode, over its workspace, without a network, and ends with
    it. `run`: one client for the whole run; a program runs on this machine, with its files and network. null: `run` for
    a `url`, for a program with `${NAME}` in `env`, and for npx, uvx and docker, which fetch what they run; else
    `episode`."""
    installed: tuple[InputPath, ...] = ()
    """Folders of this machine that a server in a sandbox needs, mounted read-only at the same path. The files
    of the program itself are found automatically."""
    tools: tuple[str, ...] | None = None
    """The server's tools to offer, by their own names; null: all."""
    startup_seconds: Annotated[float, Field(gt=0), Unit("seconds")] = 60.0
    """Seconds that the server may take to list its tools."""
    timeout: Annotated[float, Field(gt=0), Unit("seconds")] = 60.0
    """Seconds that a call may take."""

    @property
    def program(self) -> tuple[str, ...]:
        """The command line; empty for a `url`."""
        return (*shlex.split(self.command), *self.args)

    @property
    def with_references(self) -> dict[str, str]:
        """The texts in which `${NAME}` is replaced, by field."""
        env = {f"env.{name}": text for name, text in self.env.items()}
        return env | {"url": self.url} | {f"headers.{name}": text for name, text in self.headers.items()}

    @property
    def in_sandbox(self) -> bool:
        """Whether it runs in the sandbox of each episode."""
        return self.scope == "episode"

    @model_validator(mode="before")
    @classmethod
    def _default_scope(cls, fields: Any) -> Any:
        if not isinstance(fields, dict) or fields.get("scope") is not None:
            return fields
        command, env = fields.get("command"), fields.get("env")
        first = command.split()[0].rpartition("/")[2] if isinstance(command, str) and command.strip() else ""
        secret = isinstance(env, dict) and any("${" in str(value) for value in env.values())
        return {**fields, "scope": "run" if fields.get("url") or secret or first in _FETCHING else "episode"}

    @model_validator(mode="after")
    def _fits(self) -> "McpServerConfig":
        if bool(self.command.strip()) == bool(self.url):
            raise ValueError("give either `command` or `url`")
        try:
            self.program  # noqa: B018
        except ValueError as error:
            raise ValueError(f"`command` cannot be split into words: {error}") from None
        for name, text in (("command", self.command), *(("args", text) for text in self.args)):
            if found := REFERENCE.search(text):
                raise ValueError(
                    f"`{name}`: {found[0]} is replaced only in `env`; set it there, and have the program read it"
                )
        if self.url:
            if not self.url.startswith(("http://", "https://")):
                raise ValueError("`url` must begin with http:// or https://")
            if unused := [name for name in ("args", "env", "installed") if getattr(self, name)]:
                raise ValueError(f"`{unused[0]}` is for a `command`, not for a `url`")
            if self.in_sandbox:
                raise ValueError("`scope: episode` is for a `command`: a sandbox has no network to reach a `url`")
        elif self.headers:
            raise ValueError("`headers` are for a `url`; give a program its secrets in `env`")
        if self.in_sandbox and (secret := next((n for n, value in self.env.items() if "${" in value), None)):
            raise ValueError(
                f"`env.{secret}`: the agent's commands could read it in the sandbox; use `scope: run` for a server "
                "that needs a secret"
            )
        if not self.in_sandbox and self.installed:
            raise ValueError("`installed` is for `scope: episode`; a server of the run sees all files of this machine")
        return self


class McpConfig(Section):
    """MCP servers, whose tools the agent can call (docs/mcp.md)."""

    servers: dict[str, McpServerConfig] = Field(default_factory=dict)
    """The servers by name. The tool `read` of the server `files` is called `files__read`, in the toolset
    `mcp:files`."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that `${NAME}` names."""
        texts = [text for server in self.servers.values() for text in server.with_references.values()]
        return tuple(dict.fromkeys(name for text in texts for name in REFERENCE.findall(text)))

    @field_validator("servers")
    @classmethod
    def _names(cls, servers: dict[str, McpServerConfig]) -> dict[str, McpServerConfig]:
        for name in servers:
            if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
                raise ValueError(
                    f"{name!r} cannot name a server: use up to {_LONGEST_NAME} letters, digits, `-` and single `_`, "
                    "beginning with a letter"
                )
        return servers
