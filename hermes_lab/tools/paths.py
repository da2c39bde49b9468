"""Resolves `~` and `$HOME` in paths written by models; both stand for the workspace."""

import re

from hermes_lab.tools.registry import ToolContext

_HOME = re.compile(r"(?:~|\$HOME|\$\{HOME\})(?:/+(?P<below>.*))?", re.DOTALL)


def file_path(path: str) -> str:
    """Returns `path` for a tool that works on workspace files; the home folder is replaced by a relative path."""
    home = _HOME.fullmatch(path)
    return path if home is None else home["below"] or "."


def folder_path(ctx: ToolContext, path: str) -> str:
    """Returns `path` for a command, where relative paths start at the shell's current directory."""
    home = _HOME.fullmatch(path)
    return path if home is None else f"{ctx.sandbox.workspace_path}/{home['below'] or ''}".rstrip("/")
