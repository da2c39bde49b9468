"""`env`: the suites as reinforcement-learning environments."""

from typing import Annotated

import typer

from hermes_lab.errors import ConfigError


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Reinforcement-learning environments.", no_args_is_help=True)
    group.command("check", help="Gymnasium's own checker on a suite's environment.\n\nhermes-lab env check ledger")(
        check
    )
    group.callback()(lambda: None)  # keeps `check` a sub-command while it is the only one
    app.add_typer(group, name="env")


def check(suite: Annotated[str, typer.Argument(help="A suite's name.", show_default=False)]) -> None:
    """`hermes-lab env check`."""
    import gymnasium
    from gymnasium.utils.env_checker import check_env

    import envs  # noqa: F401  (makes the ids known)

    name = f"HermesLab/{suite}-v0"
    if name not in gymnasium.registry:
        raise ConfigError(f"{suite}: no such suite; `hermes-lab tasks list` names them")
    env = gymnasium.make(name, render_mode="ansi").unwrapped
    check_env(env)
    env.close()
    typer.echo(f"{name}: passes gymnasium's check_env")
