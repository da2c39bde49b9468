"""`update`: installs a new version beside the old one, and switches to it."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.updates.kind import how_to_update
from hermes_lab.runners.updates.layout import Installation, installation_here
from hermes_lab.runners.updates.update import Wanted, roll_back
from hermes_lab.runners.updates.update import update as install
from hermes_lab.runners.updates.urls import absolute
from hermes_lab.sessions import hermes_home


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "update",
        help="Install a new version, check it, and switch to it atomically. The current version stays beside it for "
        "--rollback. Continues if the terminal closes; the log is logs/update.log of the Hermes home. Uses pip's "
        "configuration, including offline indexes. Exits 2 if the request is refused (history, --to, an extra, another "
        "update), 3 if fetching, building or checking fails; nothing has changed in either case.\n\n"
        "hermes-lab update --at ~/.local/hermes-lab --from https://example.org/hermes-lab.git   (the first version)\n\n"
        "hermes-lab update   (the newest)\n\n"
        "hermes-lab update --to v0.2.0 --extras docker,postgres\n\n"
        "hermes-lab update --rollback",
    )(update)


def update(
    at: Annotated[
        Path | None,
        typer.Option("--at", help="The installation's folder. Without it: the one that this command belongs to."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="A Git repository (a folder or URL), a wheel, or `index`: the package index of pip. Without it: where "
            "the current version came from.",
        ),
    ] = None,
    to: Annotated[
        str, typer.Option("--to", help="A version, or of a repository a branch, tag or commit; without it the newest.")
    ] = "",
    extras: Annotated[
        str | None,
        typer.Option("--extras", help="The extras to install, as in docker,postgres; kept by later updates."),
    ] = None,
    packages: Annotated[
        list[str] | None,
        typer.Option("--with", help="Another package to install; kept by later updates; repeatable; '' removes them."),
    ] = None,
    rollback: Annotated[bool, typer.Option("--rollback", help="Switch back to the version before.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """`hermes-lab update`."""
    installation = Installation(absolute("--at", at).resolve()) if at else installation_here()
    if installation is None:
        raise ConfigError(f"update: {how_to_update()}")
    if rollback:
        if source or to or extras is not None or packages:
            raise ConfigError(
                "--rollback: takes no --from, --to, --extras or --with; it switches back to what was there"
            )
        done = roll_back(installation, hermes_home(), quiet=quiet or json)
    else:
        named = None if extras is None else tuple(filter(None, map(str.strip, extras.split(","))))
        wanted = Wanted(source, to, named, tuple(packages) if packages else None)
        done = install(installation, wanted, hermes_home(), quiet=quiet or json)
    if json:
        output.print_json(msgspec.to_builtins(done))
