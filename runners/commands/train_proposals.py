"""`train proposals`: lists training runs that agents have proposed."""

from typing import Annotated, Any

import typer

from hermes_lab.runners import output
from hermes_lab.runners.commands import options


def register(group: typer.Typer) -> None:
    """Adds the command."""
    group.command(
        "proposals",
        help="List the training runs that agents have proposed, or print one. Proposals are stored in "
        "$HERMES_HOME/proposals; each starts only with the command that is printed with it.\n\n"
        "hermes-lab train proposals\n\nhermes-lab train proposals grpo-ledger",
    )(proposals)


def proposals(
    name: Annotated[str, typer.Argument(help="The proposal to print.", show_default=False)] = "",
    json: options.Json = False,
) -> None:
    """`hermes-lab train proposals`."""
    from hermes_lab.text.printable import printable
    from hermes_lab.training.proposals import find_proposal, list_proposals, proposals_folder, read_text

    found = [find_proposal(name)] if name else list_proposals()
    if json:
        output.print_json([_row(one) for one in found])
        return
    if not found:
        output.say(f"{proposals_folder()}: no proposals; agents with the toolset `rl` create them")
    if name:
        typer.echo(printable(read_text(found[0]), keep="\n").rstrip())
    for one in found:
        state = f"cannot be started: {one.problem}" if one.problem else "started" if one.started else "not started"
        typer.echo(printable(f"{one.name}  {one.method}, {state}"))
        if not one.problem and not one.started:
            typer.echo(f"  {printable(one.command)}")


def _row(proposal: Any) -> dict[str, Any]:
    return {
        "name": proposal.name,
        "method": proposal.method,
        "file": str(proposal.path),
        "problem": proposal.problem,
        "started": proposal.started,
        "command": proposal.command,
    }
