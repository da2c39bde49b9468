"""`agents`: the programs that can work instead of the lab's own loop."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hermes_lab.runners import output
from hermes_lab.runners.commands import options


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Programs that work instead of the lab's own loop (agent.program).", no_args_is_help=True)
    group.command(
        "list",
        help="List the programs, where they are installed, and their settings.\n\nhermes-lab agents list",
    )(list_)
    group.command(
        "check",
        help="Check that a program works with the lab. Runs one small task with a scripted model, in a sandbox and "
        "without a network: a tool call, a rejection, a second submission, a skill that it reads, and a review. Exits "
        "1 if a step fails.\n\n"
        "hermes-lab agents check hermes --at ~/.venvs/hermes",
    )(check)
    app.add_typer(group, name="agents")


def list_(json: options.Json = False) -> None:
    """`hermes-lab agents list`."""
    from hermes_lab.harness.programs import find_program, program_names
    from hermes_lab.runners.agents import describe

    found = [describe(find_program(name)) for name in program_names()]
    if json:
        output.print_json(found)
        return
    for program in found:
        typer.echo(f"{program['name']:<16} {program['summary']}")
        typer.echo(f"{'':<16} {where(program)}")
        for name, meaning in program["settings"].items():
            typer.echo(f"{'':<16} agent.settings.{name}: {meaning}")


def where(program: dict[str, Any]) -> str:
    """Where a program of `describe` is, or how to install it."""
    if program["installed"]:
        return str(program["installed"])
    return f"agent.at={program['at']}" if program["at"] else f"not on the PATH; install it with: {program['install']}"


def check(
    program: Annotated[str, typer.Argument(help="A program, as in `agents list`.", show_default=False)],
    at: Annotated[Path | None, typer.Option("--at", help="Where it is installed, as in agent.at.")] = None,
    config: options.Config = None,
    json: options.Json = False,
) -> int:
    """`hermes-lab agents check`."""
    from hermes_lab.runners.agents import Step, check_program

    def say(step: Step) -> None:
        mark = {True: "ok  ", False: "FAIL", None: "-   "}[step.works]
        typer.echo(f"{mark}  {step.what:<18} {step.detail}")

    steps = check_program(program, str(at or ""), config or [], (lambda _: None) if json else say)
    if json:
        output.print_json([step._asdict() for step in steps])
    return 1 if any(step.works is False for step in steps) else 0
