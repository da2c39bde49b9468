"""`tools`: lists the tools that an agent can use."""

import typer

from hermes_lab.runners.commands import options


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Tools, toolsets and their distributions.", no_args_is_help=True)
    group.callback()(lambda: None)  # keeps `list` a sub-command while it is the only one
    group.command(
        "list",
        help="List the values of agent.toolsets and agent.distribution.\n\nhermes-lab tools list\n\n"
        "hermes-lab run -c configs/run.yaml -c agent.toolsets=\\[core] --out runs/core",
    )(list_)
    app.add_typer(group, name="tools")


def list_(json: options.Json = False) -> None:
    """`hermes-lab tools list`."""
    from hermes_lab.tools.distributions import DISTRIBUTIONS
    from hermes_lab.tools.registry import unavailable_tools
    from hermes_lab.tools.toolbox import known_toolsets

    toolsets, missing = known_toolsets(), unavailable_tools()
    if json:
        import msgspec

        content = {"toolsets": toolsets, "unavailable": missing, "distributions": DISTRIBUTIONS}
        typer.echo(msgspec.json.encode(content).decode())
        return
    for name, tools in toolsets.items():
        typer.echo(f"{name:<16} {', '.join(tools)}")
    for name, reason in missing.items():
        typer.echo(f"unavailable: {name}: {reason}")
    typer.echo("\ndistributions (the share of tasks with each toolset)")
    for name, shares in DISTRIBUTIONS.items():
        typer.echo(f"{name:<16} {', '.join(f'{toolset} {share:.0%}' for toolset, share in shares.items())}")
