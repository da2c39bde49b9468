"""`gateway`: the agent on chat platforms."""

import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import anyio
import msgspec
import typer

from hermes_lab.config.home_file import FILE, resolve_home
from hermes_lab.config.masking import as_written
from hermes_lab.errors import ConfigError
from hermes_lab.gateway import access
from hermes_lab.gateway.daemon import HEARTBEAT_SECONDS, STATUS, Gateway
from hermes_lab.gateway.platforms import open_platform
from hermes_lab.gateway.store import GatewayStore
from hermes_lab.harness.check import check_own_loop
from hermes_lab.models import REMOTE
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.engine.folder import lock_folder
from hermes_lab.runners.tables import table
from hermes_lab.sandbox import missing_guarantees
from hermes_lab.sessions import hermes_home
from hermes_lab.text.printable import printable
from hermes_lab.tools.toolbox import check_toolsets

_LATE_SECONDS = 5 * HEARTBEAT_SECONDS


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, help="The agent on chat platforms: run, status, pair, unpair.")
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
        help="Show whether the gateway runs, its platforms, and what waits. Exits 3 if it does not run.\n\n"
        "hermes-lab gateway status --json",
    )(status)
    group.command(
        "pair",
        help="Let in a person who wrote to the agent and got this CODE. Without it, list who waits and who was let "
        "in.\n\nhermes-lab gateway pair K7M2P9QX",
    )(pair)
    group.command("unpair", help="Shut out a person who was let in.\n\nhermes-lab gateway unpair telegram 5490634439")(
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
    except ConfigError as error:
        raise ConfigError(as_written(str(error), found.references)) from None
    if not loaded.gateway.platforms:
        raise ConfigError("gateway.platforms: is empty; give for example -c 'gateway.platforms=[telegram,http]'")
    if loaded.model.provider not in (*REMOTE, "scripted"):
        raise ConfigError(
            f"model.provider: {loaded.model.provider} would load a model for every chat; start it with `hermes-lab "
            "serve`, and give its address: model.base_url"
        )
    platforms = [open_platform(name, loaded.gateway) for name in loaded.gateway.platforms]
    for promise in missing_guarantees(loaded.sandbox):
        output.warn(f"sandbox.backend {loaded.sandbox.backend}: {promise}")
    _log_to_stderr()
    folder = home / "gateway"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with lock_folder(folder):
        return anyio.run(_run, Gateway(loaded, home, platforms, config or []))


async def _run(gateway: Gateway) -> int:
    async with anyio.create_task_group() as group:

        async def stop() -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    group.cancel_scope.cancel()
                    return

        group.start_soon(stop)
        await gateway.run()
    return 0


def status(json: options.Json = False) -> int:
    """`hermes-lab gateway status`."""
    path = hermes_home() / STATUS
    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, Any]) if path.exists() else {}
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: damaged: {error}; remove it, the gateway writes it again") from None
    runs = bool(found) and not found["ended"] and time.time() - found["heartbeat"] < _LATE_SECONDS
    runs = runs and Path("/proc", str(found["pid"])).exists()
    if json:
        output.print_json({"running": runs, **found})
        return 0 if runs else 3
    if not runs:
        typer.echo("the gateway does not run; start it with: hermes-lab gateway run")
        return 3
    typer.echo(f"running since {found['started']}, process {found['pid']}")
    rows = [[name, each["state"], each.get("why", "")] for name, each in found["platforms"].items()]
    rows.append(["cron", found["cron"]["state"], found["cron"]["why"]])
    typer.echo("\n".join(table(["platform", "state", "why"], rows)))
    inbox, outbox = found["inbox"], found["outbox"]
    waiting = inbox.get("waiting", 0) + inbox.get("running", 0)
    unsent = outbox.get("pending", 0) + outbox.get("sending", 0)
    typer.echo(f"{found['chats']} open chats, {found['working']} turns under way, {waiting} messages to answer")
    typer.echo(f"{unsent} messages to send, {outbox.get('dead', 0)} could not be sent")
    return 0


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


def _log_to_stderr() -> None:
    """Ids are hashed in these lines, and no texts stand in them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("hermes_lab.gateway")
    log.addHandler(handler)
    log.setLevel(os.environ.get("HERMES_LOG", "INFO"))
