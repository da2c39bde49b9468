"""The command line answers at once: it imports the command that is asked for, and no library before it is needed."""

import subprocess
import sys

import pytest
import typer

from hermes_lab.runners.cli import app

COMMANDS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
HEAVY = (
    *("numpy", "pandas", "pyarrow", "scipy", "matplotlib", "aiohttp", "ray", "torch", "transformers", "datasets"),
    *("asyncssh", "grpclib", "mcp", "modal"),
)


def imported(code: str) -> set[str]:
    """The modules that a fresh interpreter has after `code`."""
    code = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_the_command_line_starts_without_the_libraries_that_only_some_commands_need() -> None:
    everything = "import typer, runners.cli; [*typer.main.get_command(runners.cli.app).commands.values()]"
    modules = imported(everything)
    assert "hermes_lab.runners.commands.chat" in modules
    assert modules.isdisjoint(HEAVY)


@pytest.mark.parametrize("words", [["--version"], ["power", "--help"]])
def test_only_the_command_that_is_asked_for_is_imported(words: list[str]) -> None:
    command = f"import runners.cli\ntry: runners.cli.app({words})\nexcept SystemExit as ended: assert not ended.code"
    modules = imported(command)
    found = {name.removeprefix("hermes_lab.runners.commands.") for name in modules if "runners.commands." in name}
    assert found & set(COMMANDS) == set(words) & set(COMMANDS)
