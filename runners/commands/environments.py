"""`env`: the task suites as reinforcement-learning environments."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options

Lock = Annotated[
    Path | None,
    typer.Option(
        "--lock",
        help="A lock file with a `grpo` section; a source that sets another value for one of its fields is refused.",
    ),
]
Folder = Annotated[
    Path | None, typer.Option("--out", "-o", help="The folder for episodes and vLLM's log.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Reinforcement-learning environments.", no_args_is_help=True)
    group.command("list", help="List the environments.\n\nhermes-lab env list")(list_)
    group.command(
        "check",
        help="Run Gymnasium's environment checker on a suite. With --signal, measure how many groups have "
        "usable reward differences, and suggest changes, before a trainer is started.\n\n"
        "hermes-lab env check ledger\n\n"
        "hermes-lab env check ledger --signal -n 16 -c configs/env/atropos.yaml -c model.adapter=packaged",
    )(check)
    group.command(
        "serve",
        help="Send scored groups to an Atropos server. Stops when the trainer has reached its step count.\n\n"
        "hermes-lab env serve -c configs/env/atropos.yaml --api-url http://127.0.0.1:8000\n\n"
        "hermes-lab env serve -c configs/env/locked.yaml --lock configs/locks/grpo-cpu.yaml --api-url "
        "http://127.0.0.1:8010",
    )(serve)
    group.command(
        "process",
        help="Write scored groups to a file instead of a server.\n\n"
        "hermes-lab env process -c configs/env/atropos.yaml -n 8 -o groups.jsonl --html",
    )(process)
    group.command(
        "evaluate",
        help="Measure the success rate on held-out tasks. Samples greedily; gives a 95 % Wilson interval.\n\n"
        "hermes-lab env evaluate -c configs/env/atropos.yaml -c env.eval_count=50 -o evaluation.json",
    )(evaluate)
    app.add_typer(group, name="env")


def list_(json: options.Json = False) -> None:
    """`hermes-lab env list`."""
    from hermes_lab.tasks import list_suites

    suites = list_suites()
    if json:
        output.print_json(suites)
        return
    for suite in suites:
        typer.echo(f"{suite:<20} HermesLab/{suite}-v0")


def check(
    suite: Annotated[
        str,
        typer.Argument(
            help="A suite's name, module:Class of your own, a JSONL file, or a folder of Harbor tasks.",
            show_default=False,
        ),
    ],
    signal: Annotated[
        bool, typer.Option("--signal", help="Roll out groups with the model of -c, and measure how rewards vary.")
    ] = False,
    count: Annotated[int, typer.Option("-n", "--count", help="With --signal: tasks or learning episodes.", min=1)] = 16,
    config: options.Config = None,
    lock: Lock = None,
    out: Folder = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """`hermes-lab env check`."""
    if signal:
        return _check_signal(suite, config or [], lock, out, count=count, json=json, quiet=quiet)
    if config or lock or out or json:
        raise ConfigError("env check: --config, --lock, --out and --json are for --signal; add it")
    _check_gymnasium(suite)
    return 0


def _check_signal(
    suite: str, sources: list[str], lock: Path | None, out: Path | None, *, count: int, json: bool, quiet: bool
) -> int:
    from hermes_lab.runners.commands.suites_options import field_of
    from hermes_lab.runners.environments.runs import run_check
    from hermes_lab.training.plan import lines

    say = output.say_nothing if quiet else output.say
    field = field_of(suite)
    other = "name" if field == "path" else "path"  # of the configuration, whose suite is another one
    given = [f"suite.{other}=", f"suite.{field}={suite}"]
    config, checked = run_check([*sources, *given], lock, out, count=count, say=say)
    if json:
        more = {"advice": checked.tips, "episodes": str(checked.folder), "interrupted": checked.interrupted}
        output.print_json(checked.signal.to_dict() | more)
    else:
        solve = config.env.objective == "solve"
        what = f"rollouts, knowledge {config.env.knowledge}" if solve else f"reviews, objective {config.env.objective}"
        typer.echo(f"{suite}: groups of {config.env.group_size} {what}")
        typer.echo("\n".join(lines(checked.rows())))
    if checked.interrupted:
        return 130
    return 0 if checked.signal.usable else 1


def _check_gymnasium(suite: str) -> None:
    import gymnasium
    from gymnasium.envs.registration import EnvSpec
    from gymnasium.utils.env_checker import check_env

    import hermes_lab.envs  # noqa: F401  (registers the environments)
    from hermes_lab.runners.commands.suites_options import field_of
    from hermes_lab.tasks.registry import is_own

    name: str | EnvSpec = f"HermesLab/{suite}-v0"
    if is_own(suite) or field_of(suite) == "path":
        given = {"config": [f"suite.{field_of(suite)}={suite}"]}
        name = EnvSpec("HermesLab/own-v0", entry_point="hermes_lab.envs.gym:HermesLabEnv", kwargs=given)
    elif name not in gymnasium.registry:
        raise ConfigError(f"{suite}: no such suite; `hermes-lab tasks list` lists them")
    env = gymnasium.make(name, render_mode="ansi").unwrapped
    check_env(env)
    env.close()
    shown = name if isinstance(name, str) else suite
    typer.echo(f"{shown}: passed Gymnasium's environment checker")


def serve(
    config: options.Config = None,
    api_url: Annotated[
        str, typer.Option(help="The address of the Atropos trajectory server (`run-api`).")
    ] = "http://127.0.0.1:8000",
    lock: Lock = None,
    out: Folder = None,
    quiet: options.Quiet = False,
) -> None:
    """`hermes-lab env serve`."""
    from hermes_lab.runners.environments.runs import run_serve

    run_serve(config or [], api_url, lock, out, output.say_nothing if quiet else output.say)


def process(
    out: Annotated[Path, typer.Option("--out", "-o", help="The JSON Lines file to write.", show_default=False)],
    config: options.Config = None,
    count: Annotated[int, typer.Option("-n", "--count", help="Tasks, or learning episodes, to roll out.", min=1)] = 8,
    form: Annotated[
        Literal["atropos", "groups"],
        typer.Option("--format", help="The rows that a server receives, or scored groups."),
    ] = "atropos",
    html: Annotated[bool, typer.Option("--html", help="Also write an HTML page of the conversations.")] = False,
    lock: Lock = None,
    quiet: options.Quiet = False,
) -> int:
    """`hermes-lab env process`."""
    from hermes_lab.runners.environments.runs import run_process

    say = output.say_nothing if quiet else output.say
    tally = run_process(config or [], lock, out, count=count, scored=form == "groups", html=html, say=say)
    typer.echo(f"{out}: {tally}")
    if not tally.groups:
        output.say("hermes-lab: error: no usable group, for the reasons above")
    return 0 if tally.groups else 1


def evaluate(
    config: options.Config = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The JSON file to write.", show_default=False)] = None,
    lock: Lock = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """`hermes-lab env evaluate`."""
    from hermes_lab.envs.atropos.evaluate import line
    from hermes_lab.runners.environments.runs import run_evaluate

    report = run_evaluate(config or [], lock, out, output.say_nothing if quiet else output.say)
    if json:
        output.print_json(report)
    else:
        typer.echo(line(report))
    return 3 if report["errored"] else 0
