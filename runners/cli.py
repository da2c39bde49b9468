"""`hermes-lab`: every command, and the one place where an error becomes a line and an exit code.

Exit codes: 0 everything wanted was done; 2 usage or configuration; 3 the infrastructure failed, resume will try again;
130 interrupted, resumable.
"""

import os
import sys

import typer
from typer.exceptions import TyperException

from hermes_lab.errors import HermesLabError, InfraError
from runners.commands import adapters, analyse, doctor, environments, run, serve, suites, train

app = typer.Typer(
    name="hermes-lab",
    help="Did this agent get better, by how much, and was it the skills or the weights?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (run, analyse, suites, environments, train, adapters, serve, doctor):
    module.register(app)


def main() -> None:
    """The console script."""
    try:
        code = app(standalone_mode=False)
    except TyperException as error:
        sys.exit(_fail(error.format_message()))
    except InfraError as error:
        _fail(f"{error}; nothing is lost, --resume tries again")
        sys.exit(3)
    except HermesLabError as error:
        sys.exit(_fail(str(error)))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away; point stdout at nothing so that the interpreter's last flush is quiet too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        sys.exit(_fail(f"{error.filename or 'system'}: {error.strerror or error}"))
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> int:
    typer.echo(f"hermes-lab: error: {' '.join(message.split())}", err=True)
    return 2
