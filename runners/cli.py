"""`hermes-lab`: the command line. Turns errors into one-line messages and exit codes.

Exit codes: 0 success; 1 a failed check; 2 usage or configuration error; 3 infrastructure failure, can be resumed; 130
interrupted, can be resumed.
"""

import errno
import os
import signal
import sys
from importlib import metadata
from typing import Annotated

import typer
from typer.exceptions import TyperException

from hermes_lab.errors import HermesLabError, InfraError, first_failure
from hermes_lab.runners.command_list import CommandList

_CHARS = 200
_STDOUT, _STDERR = 1, 2

app = typer.Typer(
    name="hermes-lab",
    cls=CommandList,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Did this agent get better, by how much, and was it the skills or the weights?"""
    if show:
        typer.echo(f"hermes-lab {metadata.version('hermes-lab')}")
        raise typer.Exit


def main() -> None:
    """The entry point of the console script."""
    # SIGTERM, e.g. from a scheduler, acts as Ctrl-C: finished episodes are kept and nothing is left running. Background
    # jobs of a shell start with SIGINT ignored, so its handler is set too.
    _open_closed_streams()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        code = app(standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        code = _explain(first_failure(error))
    sys.exit(code if isinstance(code, int) else 0)


def _open_closed_streams() -> None:
    """Opens stdin, stdout and stderr where they are closed, as by `2>&-`: the next files to be opened would get their
    numbers, and then whatever is printed."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, number in (("stdout", _STDOUT), ("stderr", _STDERR)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115


def _explain(error: BaseException) -> int:
    """Prints a one-line error message and returns the exit code. Unexpected errors are raised again."""
    if isinstance(error, TyperException):
        return _fail(error.format_message(), 2) if error.format_message() else 2  # empty: the help was shown
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return 130
    if isinstance(error, BrokenPipeError):
        # The reader closed the pipe. Redirect stdout, so that the interpreter's final flush does not fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    if isinstance(error, InfraError):
        kept = " (finished episodes are kept; --resume continues)" if _resumes() else ""
        return _fail(f"{error}{kept}", 3)
    if isinstance(error, HermesLabError):
        return _fail(str(error), 2)
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return _fail(f"{str(error.filename)[:_CHARS]}...: the name is too long; give a shorter one", 2)
    if isinstance(error, OSError):
        kept = "; finished episodes are kept" if _resumes() else ""
        return _fail(f"{error.filename or 'cannot write to disk'}: {error.strerror or error}{kept}", 3)
    raise error


def _resumes() -> bool:
    """Whether the current command keeps episodes in a run folder, which --resume continues."""
    command = typer.main.get_command(app)
    for word in sys.argv[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    return {"--resume", "--out"} <= {option for parameter in command.params for option in parameter.opts}


def _fail(message: str, code: int) -> int:
    typer.echo(f"hermes-lab: error: {' '.join(message.split())}", err=True)
    return code
