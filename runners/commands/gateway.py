"""`gateway`: the agent on chat platforms."""

import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from hermes_lab.config.home_file import FILE, resolve_home
from hermes_lab.config.masking import as_written
from hermes_lab.errors import ConfigError
from hermes_lab.gateway import access
from hermes_lab.gateway import restart as restarting
from hermes_lab.gateway.daemon import Gateway
from hermes_lab.gateway.platforms import open_platform
from hermes_lab.gateway.store import GatewayStore
from hermes_lab.harness.check import check_own_loop
from hermes_lab.models import REMOTE
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.engine.folder import lock_folder
from hermes_lab.runners.tables import table
from hermes_lab.sandbox import check_required, missing_guarantees
from hermes_lab.sessions import hermes_home
from hermes_lab.text.printable import printable
from hermes_lab.tools.toolbox import check_toolsets

_RESTART_SECONDS, _LOOK_SECONDS = 60.0, 0.2
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_BACK_SECONDS = 10.0
"""How long a gateway that ended may stay away, until whoever started it starts it again."""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, help="The agent on chat platforms: run, status, restart, pair, unpair.")
    app.add_typer(group, name="gateway")
    group.command(
        "run",
        help="Run the agent on the platforms of gateway.platforms, until Ctrl-C. Settings come from config.yaml of the "
        "Hermes home and from -c.\n\n"
        "HERMES_HTTP_KEY=secret hermes-lab gateway run -c 'gateway.platforms=\\[http]' -c model.yaml\n\n"
        "TELEGRAM_BOT_TOKEN=... hermes-lab gateway run -c 'gateway.platforms=\\[telegram]' -c model.yaml",
    )(run)
    group.command(
        "status",
        help="Show whether the gateway runs, its platforms, and pending messages. Exits 3 if it does not run.\n\n"
        "hermes-lab gateway status --json",
    )(status)
    group.command(
        "restart",
        help="Restart a running gateway, for a new version or a changed config.yaml. It finishes its turns, and starts "
        "again with the same options. Messages that arrive meanwhile are answered afterwards. Exits 3 if it does not "
        "run, or does not come back.\n\nhermes-lab gateway restart",
    )(restart)
    group.command(
        "pair",
        help="Approve a person who wrote to the agent and got this CODE. Without CODE, list who waits and who is "
        "approved.\n\nhermes-lab gateway pair K7M2P9QX",
    )(pair)
    group.command("unpair", help="Withdraw the approval of a person.\n\nhermes-lab gateway unpair telegram 5490634439")(
        unpair
    )


def run(config: options.Config = None) -> int:
    """`hermes-lab gateway run`."""
    home = hermes_home()
    found = resolve_home(home / FILE, config or [])
    loaded = found.config
    try:
        check_own_loop(loaded, "gateway run")
        check_toolsets(loaded.agent.toolsets, loaded.agent.disabled_tools)
        check_required(loaded.sandbox)
    except ConfigError as error:
        raise ConfigError(as_written(str(error), found.references)) from None
    if not loaded.gateway.platforms:
        raise ConfigError("gateway.platforms: is empty; give for example -c 'gateway.platforms=[telegram,http]'")
    if loaded.model.provider not in (*REMOTE, "scripted"):
        raise ConfigError(
            f"model.provider: {loaded.model.provider} would load a model for every chat; start it with `hermes-lab "
            "serve`, and give its address: model.base_url"
        )
    level = _log_level()
    platforms = [open_platform(name, loaded.gateway) for name in loaded.gateway.platforms]
    for promise in missing_guarantees(loaded.sandbox):
        output.warn(f"sandbox.backend {loaded.sandbox.backend}: {promise}")
    _log_to_stderr(level)
    folder = home / "gateway"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    gateway = Gateway(loaded, home, platforms, config or [])
    with lock_folder(folder):
        anyio.run(_run, gateway)
    if gateway.restarting:
        command = restarting.program()
        os.execv(command[0], [*command, *sys.argv[1:]])  # the same process, so whoever started it keeps it
    return 0


async def _run(gateway: Gateway) -> None:
    async with anyio.create_task_group() as group:

        async def stop() -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    group.cancel_scope.cancel()
                    return

        group.start_soon(stop)
        await gateway.run()
        group.cancel_scope.cancel()


def status(json: options.Json = False) -> int:
    """`hermes-lab gateway status`."""
    found, runs = restarting.read_status(hermes_home())
    if json:
        output.print_json({"running": runs, **found})
        return 0 if runs else 3
    if not runs:
        typer.echo("the gateway does not run; start it with: hermes-lab gateway run")
        return 3
    draining = "; it restarts once the turns under way have ended" if found.get("draining") else ""
    typer.echo(f"running since {found['started']}, process {found['pid']}, version {found['version']}{draining}")
    rows = [[name, each["state"], each.get("why", "")] for name, each in found["platforms"].items()]
    rows.append(["cron", found["cron"]["state"], found["cron"]["why"]])
    typer.echo("\n".join(table(["platform", "state", "why"], rows)))
    inbox, outbox = found["inbox"], found["outbox"]
    waiting = inbox.get("waiting", 0) + inbox.get("running", 0)
    unsent = outbox.get("pending", 0) + outbox.get("sending", 0)
    typer.echo(f"{found['chats']} open chats, {found['working']} turns under way, {waiting} messages to answer")
    typer.echo(f"{unsent} messages to send, {outbox.get('dead', 0)} could not be sent")
    return 0


def restart(
    if_older: Annotated[
        bool, typer.Option("--if-older", help="Only if it runs from another installation or version than this.")
    ] = False,
) -> int:
    """`hermes-lab gateway restart`."""
    home = hermes_home()
    before, runs = restarting.read_status(home)
    if not runs:
        if not if_older:
            typer.echo("the gateway does not run; start it with: hermes-lab gateway run")
        return 0 if if_older else 3
    if if_older and before.get("installation") == restarting.installation():
        return 0
    if "installation" not in before:
        raise ConfigError(
            f"version {before['version']} of the gateway cannot restart itself: end it (process {before['pid']}), and "
            "start it again with: hermes-lab gateway run"
        )
    restarting.ask(home)
    return _await_restart(home, before)


def _await_restart(home: Path, before: Mapping[str, Any]) -> int:
    now = time.monotonic()
    deadline, gone = now + _RESTART_SECONDS, now + _BACK_SECONDS
    while True:
        now = time.monotonic()
        found, runs = restarting.read_status(home)
        if runs and found["started"] != before["started"]:
            typer.echo(f"restarted with version {found['version']}{_elsewhere(found.get('installation'))}")
            return 0
        if restarting.lives(before["pid"]):
            gone = now + _BACK_SECONDS
        if now > min(deadline, gone):  # the time is up, or whoever started it had time to start it again
            break
        time.sleep(_LOOK_SECONDS)
    if not found["ended"] and restarting.lives(before["pid"]):
        typer.echo(f"asked to restart; it first finishes {found['working']} turns: see hermes-lab gateway status")
        return 0
    typer.echo(
        "the gateway ended and has not come back; its output says why; start it again with: hermes-lab gateway run"
    )
    return 3


def _elsewhere(place: str | None) -> str:
    """What to say of a gateway that came back from another installation than this program's."""
    here = restarting.installation()
    return "" if place in (None, here) else f" from {place}; to change to {here}, end it and start it again with that"


def pair(code: Annotated[str, typer.Argument(help="The code that the person was given.")] = "") -> int:
    """`hermes-lab gateway pair`."""
    store = GatewayStore(hermes_home())
    if code:
        platform, sender = access.approve(store, code)
        typer.echo(f"let in: {sender.id} on {platform}{f' ({printable(sender.name)})' if sender.name else ''}")
        return 0
    waiting = [[platform, id, printable(name), "waits"] for platform, id, name, _ in store.pairings(access.since())]
    rows = waiting + [[platform, id, "", "let in"] for platform, id in store.allowed()]
    listed = table(["platform", "id", "name", "state"], rows) if rows else ["nobody waits, and nobody was let in"]
    typer.echo("\n".join(listed))
    return 0


def unpair(
    platform: Annotated[str, typer.Argument(help="The platform.")],
    id: Annotated[str, typer.Argument(help="The person's id there.")],
) -> int:
    """`hermes-lab gateway unpair`."""
    if not GatewayStore(hermes_home()).disallow(platform, id):
        raise ConfigError(f"{id}: nobody with this id was let in on {platform}; `hermes-lab gateway pair` lists them")
    return 0


def _log_level() -> str:
    """That of `HERMES_LOG`. Raises `ConfigError` if there is none of that name."""
    given = os.environ.get("HERMES_LOG", "") or _LEVELS[1]
    if (level := given.upper()) not in _LEVELS:
        raise ConfigError(f"HERMES_LOG: there is no level {given!r}; choose from: {', '.join(_LEVELS)}")
    return level


def _log_to_stderr(level: str) -> None:
    """Ids are hashed in these lines, and no texts stand in them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("hermes_lab.gateway")
    log.addHandler(handler)
    log.setLevel(level)
