"""How the program of a server is found, and what it needs in a sandbox."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from hermes_lab.config.mcp import McpConfig, McpServerConfig
from hermes_lab.errors import ConfigError
from hermes_lab.sandbox.extras import NOTHING_MORE, Extras
from hermes_lab.sandbox.installation import check_hides_lab, installation, seen_executable

_PATH = "/usr/local/bin:/usr/bin:/bin"


def check_programs(config: McpConfig) -> None:
    """Raises `ConfigError` if the program of a server is not installed, or a folder that it needs is missing."""
    for name, server in config.servers.items():
        if server.program:
            executable(name, server)
        for folder in server.installed:
            if not Path(folder).expanduser().exists():
                raise ConfigError(f"mcp.servers.{name}.installed: {folder}: no such file or folder")
            try:
                check_hides_lab(Path(folder).expanduser())
            except ConfigError as error:
                raise ConfigError(f"mcp.servers.{name}.installed: {error}") from None


def executable(name: str, server: McpServerConfig) -> Path:
    """The program of a server on this machine. Raises `ConfigError` if it is missing."""
    program = os.path.expanduser(server.program[0])  # noqa: PTH111
    if found := shutil.which(program):
        return Path(found).absolute()
    raise ConfigError(f"mcp.servers.{name}.command: {program!r} is not installed, or not on the PATH")


def extras_of(config: McpConfig) -> Extras:
    """What the sandboxes of a run need for its servers. Programs in JavaScript reserve more address space than they
    use, so only the meter limits memory."""
    inside = {name: server for name, server in config.servers.items() if server.in_sandbox}
    if not inside:
        return NOTHING_MORE
    folders: dict[Path, None] = {}
    for name, server in inside.items():
        given = [Path(folder).expanduser().absolute() for folder in server.installed]
        scripts = [path for each in server.program[1:] if each.startswith("/") and (path := Path(each)).is_file()]
        program = executable(name, server)
        try:
            needed = [folder for each in (program, *scripts) for folder in installation(each)]
        except ConfigError as error:
            raise ConfigError(f"mcp.servers.{name}: {error}") from None
        for folder in (*given, *needed):
            if not any(folder.is_relative_to(other) for other in folders):
                folders[folder] = None
    return Extras(installed=tuple(folders), address_space=False)


def command_inside(name: str, server: McpServerConfig) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The command line and environment of a server in a sandbox. Its own folder comes first on the PATH."""
    program = seen_executable(executable(name, server))
    environment = {"PATH": f"{program.parent}:{_PATH}", "HOME": "/tmp", "LANG": "C.UTF-8", **server.env}
    return (str(program), *server.program[1:]), environment
