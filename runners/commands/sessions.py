"""`sessions`: lists, shows, searches, renames and deletes saved chats."""

from typing import Annotated

import anyio
import typer

from hermes_lab.config.home_file import load_home_config
from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.chat.summary import summarise_hits
from hermes_lab.runners.commands import options
from hermes_lab.runners.confirm import confirmed
from hermes_lab.runners.tables import table
from hermes_lab.sessions import SessionInfo, SessionKey, SessionStore, hermes_home
from hermes_lab.sessions.summary import Summary
from hermes_lab.text.printable import printable
from hermes_lab.types import Message
from hermes_lab.types.message import Role

Which = Annotated[
    str,
    typer.Argument(
        help="A name, an id or its prefix, or a key: cli, telegram:dm:549, telegram:group:-100:7, slack:C012AB3CD, "
        "matrix:!room%3Aserver.",
        show_default=False,
    ),
]
Limit = Annotated[int, typer.Option("--limit", "-n", help="Maximum number of results.", min=1, max=1_000_000)]
Platform = Annotated[
    str, typer.Option(help="Only sessions of this platform, such as cli or telegram.", show_default=False)
]
_TERMINAL = str(SessionKey.parse("cli"))
"""The key of most sessions, which lists leave out."""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, help="Saved chats: list, show, search, rename, delete.")
    app.add_typer(group, name="sessions")
    group.command(
        "list",
        help="List sessions, latest first.\n\nhermes-lab sessions list --limit 50\n\n"
        "hermes-lab sessions list --platform telegram",
    )(list_)
    group.command("show", help="Print the messages of a session.\n\nhermes-lab sessions show taxes")(show)
    group.command(
        "search",
        help="Search messages, best match first. Supports AND, OR, NOT, phrases and prefixes; any other query is "
        "matched word by word.\n\n"
        "hermes-lab sessions search 'invoice AND (march OR april)'\n\n"
        "hermes-lab sessions search '\"disk full\" NOT test*' --role assistant --session taxes\n\n"
        "hermes-lab sessions search 'invoice' --platform telegram\n\n"
        "hermes-lab sessions search 'invoice' --summary -c model.yaml",
    )(search)
    group.command("rename", help="Rename a session.\n\nhermes-lab sessions rename 20261122-1015 taxes")(rename)
    group.command(
        "delete",
        help="Delete a session, its turns, reviews and memories for good, after you confirm.\n\n"
        "hermes-lab sessions delete taxes\n\n"
        "hermes-lab sessions delete taxes --yes   (without asking, as in a script)",
    )(delete)


def list_(limit: Limit = 20, platform: Platform = "", json: options.Json = False) -> None:
    """`hermes-lab sessions list`."""
    store = SessionStore()
    infos = store.latest(limit, platform=store.check_platform(platform))
    if json:
        output.print_json({"sessions": infos})
        return
    if not infos:
        output.say("no sessions yet; start one with `hermes-lab chat`")
        return
    header = ("ID", "NAME", "KEY", "UPDATED", "MESSAGES", "TOKENS", "MODEL", "BEGINS WITH")
    for line in table(header, list(map(_cells, infos))):
        typer.echo(line)


def show(session: Which, json: options.Json = False) -> None:
    """`hermes-lab sessions show`."""
    store = SessionStore()
    whole = store.load(store.find(session).id)
    if json:
        output.print_json(whole)
        return
    typer.echo(_line(whole))
    for message in whole.messages:
        typer.echo(f"\n## {'tool' if message.results else message.role}\n{printable(_body(message), keep=chr(10))}")


def search(
    query: Annotated[str, typer.Argument(help="Words, or FTS5 syntax.", show_default=False)],
    limit: Limit = 20,
    role: Annotated[Role | None, typer.Option(help="Only messages of this role.", show_default=False)] = None,
    session: Annotated[str, typer.Option(help="Only in this session.")] = "",
    platform: Platform = "",
    summary: Annotated[
        bool, typer.Option("--summary", help="Also summarise the hits, with the `auxiliary` model or else `model`.")
    ] = False,
    config: options.Config = None,
    json: options.Json = False,
) -> int:
    """`hermes-lab sessions search`."""
    if config and not summary:
        raise ConfigError("--config: only names the model for --summary; add --summary, or leave it out")
    loaded = load_home_config(hermes_home(), config or []) if summary else None
    store = SessionStore()
    platform, session = store.check_platform(platform), store.find(session).id if session else ""
    hits = store.search(query, limit, role=role, session=session, platform=platform)
    written = anyio.run(summarise_hits, loaded, store, query, hits) if loaded and hits else Summary()
    if json:
        said = {"summary": written.text} if written.text else {"not_summarised": written.failure}
        output.print_json({"hits": hits} | (said if summary else {}))
    else:
        for hit in hits:
            typer.echo(f"{hit.name or hit.session}  {hit.role} {hit.place}  {_one_line(hit.snippet)}")
        if written.text:
            typer.echo(f"\n{printable(written.text, keep=chr(10))}")
    if not hits:
        output.say("nothing found")
    if written.failure:
        output.say(f"hermes-lab: error: not summarised: {written.failure}")
    return 3 if written.failure else 0


def rename(
    session: Which, name: Annotated[str, typer.Argument(help="The new name.")], json: options.Json = False
) -> None:
    """`hermes-lab sessions rename`."""
    store = SessionStore()
    info = store.find(session)
    store.rename(info.id, name)
    _done("renamed", store.find(info.id), json)


def delete(
    session: Which,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: options.Json = False,
) -> int:
    """`hermes-lab sessions delete`. Exits 1 if the answer is no."""
    from hermes_lab.chat.deletion import delete_session

    store = SessionStore()
    info = store.find(session)
    memory = load_home_config(hermes_home(), []).memory
    if not yes and not confirmed(f"delete session {info.name or info.id} ({info.length} messages) and its turns"):
        output.say("nothing was deleted")
        return 1
    delete_session(hermes_home(), memory, info.id)
    _done("deleted", info, json)
    return 0


def _done(what: str, info: SessionInfo, json: bool) -> None:
    if json:
        output.print_json({what: info})
    else:
        output.say(f"{what}: {_line(info)}")


def _line(info: SessionInfo) -> str:
    name = f"{info.name}  " if info.name else ""
    name += f"{info.key}  " if info.key != _TERMINAL else ""
    counts = f"{info.length} messages, {_tokens(info):,} tokens"
    return f"{info.id}  {name}{info.updated[:16].replace('T', ' ')}  {counts}  {info.model}  {_one_line(info.opening)}"


def _cells(info: SessionInfo) -> tuple[str, ...]:
    when = info.updated[:16].replace("T", " ")
    counts = (str(info.length), f"{_tokens(info):,}")
    return info.id, info.name or "-", info.key, when, *counts, info.model, info.opening


def _tokens(info: SessionInfo) -> int:
    return info.usage.prompt_tokens + info.usage.completion_tokens


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())


def _body(message: Message) -> str:
    # In the text format, calls are already part of the content.
    calls = [f"[{c.name} {c.raw or c.arguments}]" for c in message.tool_calls if c.name not in message.content]
    return "\n".join([*([message.content] if message.content else []), *calls])
