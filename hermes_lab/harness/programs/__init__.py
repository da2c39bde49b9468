"""The programs that the lab can run, by name: its own and those of other packages (`hermes_lab.programs`)."""

import sys
from functools import cache
from importlib import import_module

from hermes_lab.errors import ConfigError
from hermes_lab.harness.program import Program
from hermes_lab.plugins import PluginGroup
from hermes_lab.text.suggest import did_you_mean

_PLUGINS = PluginGroup("hermes_lab.programs", "agent.program")
"""Other packages add programs by a name and a `Program` class."""
_OWN = {
    "hermes": "Hermes",
    "claude": "Claude",
    "codex": "Codex",
    "qwen": "Qwen",
    "opencode": "OpenCode",
    "mini-swe-agent": "MiniSweAgent",
}


def program_names() -> list[str]:
    """All names, the lab's own first."""
    return [*_OWN, *(name for name in _PLUGINS.names() if name not in _OWN)]


@cache
def find_program(name: str) -> Program:
    """The program of that name. Raises `ConfigError` if there is none, or if another package's cannot be imported."""
    if name in _OWN:
        module = import_module(f"{__name__}.{name.replace('-', '_')}")
        program: Program = getattr(module, _OWN[name])()
        return program
    if plugin := _PLUGINS.find(name):
        found = plugin.create()
        if not isinstance(found, Program):
            raise plugin.error("is not a hermes_lab.harness.program.Program")
        return found
    meant = did_you_mean(name, program_names())
    raise ConfigError(
        f"agent.program: there is no program {name!r}{meant} (known: {', '.join(program_names())}). A program of your "
        f"own is found if its package, with the entry point {_PLUGINS.group}, is installed in the lab's environment "
        f"({sys.executable})"
    )
