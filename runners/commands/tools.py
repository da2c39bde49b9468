"""`tools`: lists the tools that an agent can use, and shows one."""

from typing import Annotated

import typer

from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.text.counted import counted
from hermes_lab.text.suggest import did_you_mean


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Tools, toolsets and their distributions.", no_args_is_help=True)
    group.command(
        "list",
        help="List toolsets, their tools, and distributions. agent.toolsets and agent.distribution take them.\n\n"
        "hermes-lab tools list\n\n"
        "hermes-lab tools list core web   (only these toolsets)\n\n"
        "hermes-lab run -c configs/run.yaml -c agent.toolsets=\\[core] --out runs/core",
    )(list_)
    group.command(
        "show",
        help="Print a tool as the model sees it: its toolset, description and JSON schema.\n\n"
        "hermes-lab tools show terminal\n\nhermes-lab tools show terminal --json",
    )(show)
    app.add_typer(group, name="tools")


def list_(
    toolsets: Annotated[
        list[str] | None, typer.Argument(help="Only these toolsets; their tools are counted.", show_default=False)
    ] = None,
    json: options.Json = False,
) -> None:
    """`hermes-lab tools list`."""
    from hermes_lab.tools.distributions import DISTRIBUTIONS
    from hermes_lab.tools.registry import unavailable_tools
    from hermes_lab.tools.toolbox import check_toolsets, known_toolsets

    check_toolsets(toolsets or ())
    known, missing = known_toolsets(), unavailable_tools()
    shown = {name: tools for name, tools in known.items() if not toolsets or name in toolsets}
    offered = sorted({tool for tools in shown.values() for tool in tools})
    missing = {name: why for name, why in missing.items() if name in offered}
    distributions = {} if toolsets else DISTRIBUTIONS
    if json:
        output.print_json({"toolsets": shown, "unavailable": missing, "distributions": distributions})
        return
    for name, tools in shown.items():
        typer.echo(f"{name:<16} {', '.join(tools)}")
    for name, reason in missing.items():
        typer.echo(f"unavailable: {name}: {reason}")
    if distributions:
        typer.echo("\ndistributions (the share of tasks with each toolset)")
    for name, shares in distributions.items():
        typer.echo(f"{name:<16} {', '.join(f'{toolset} {share:.0%}' for toolset, share in shares.items())}")
    typer.echo(f"\n{counted(len(offered), 'tool')} in {counted(len(shown), 'toolset')}")


def show(name: Annotated[str, typer.Argument(help="A tool.", show_default=False)], json: options.Json = False) -> None:
    """`hermes-lab tools show`."""
    from json import dumps

    from hermes_lab.tools.registry import known_tools, unavailable_tools

    known = known_tools()
    if name not in known:
        raise ConfigError(f"no tool {name!r}{did_you_mean(name, known, '`hermes-lab tools list` lists them')}")
    tool, missing = known[name], unavailable_tools().get(name, "")
    schema = tool.beside(known).schema
    if json:
        output.print_json({"name": name, "toolset": tool.toolset, "unavailable": missing, "schema": schema})
        return
    function = schema["function"]
    typer.echo(f"{name}  (toolset {tool.toolset}){f'  unavailable: {missing}' if missing else ''}\n")
    typer.echo(f"{function['description']}\n\n{dumps(function['parameters'], indent=2, ensure_ascii=False)}")
