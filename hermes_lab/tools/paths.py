"""Paths as models write them: `~` and `$HOME` are the workspace."""

import re

from hermes_lab.tools.registry import ToolContext

_HOME = re.compile(r"(?:~|\$HOME|\$\{HOME\})(?:/+(?P<below>.*))?", re.DOTALL)


def file_path(path: str) -> str:
    """`path` for a tool that works on files of the workspace: relative to it where it begins with the home folder."""
    home = _HOME.fullmatch(path)
    return path if home is None else home["below"] or "."


def folder_path(ctx: ToolContext, path: str) -> str:
    """`path` for a command, whose relative paths begin at the shell's own directory."""
    home = _HOME.fullmatch(path)
    return path if home is None else f"{ctx.sandbox.seen_workspace}/{home['below'] or ''}".rstrip("/")
