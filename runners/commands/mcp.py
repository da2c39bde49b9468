"""`mcp`: the tools of MCP servers."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes_lab.errors import ConfigError, HermesLabError, McpError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.text.printable import printable

if TYPE_CHECKING:
    from hermes_lab.config.schema import RunConfig
    from hermes_lab.mcp.servers import Servers
    from hermes_lab.mcp.snapshot import Snapshot

    _Caller = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]

_WHICH = "Without -c, the servers of your chats (config.yaml of the Hermes home)."
_CHARS = 100


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="The tools of MCP servers (mcp.servers, docs/mcp.md).", no_args_is_help=True)
    group.command(
        "list",
        help=f"List the servers and their tools, as the agent sees them. {_WHICH}\n\nhermes-lab mcp list\n\n"
        "hermes-lab mcp list -c mcp.yaml --json   (with the schemas)",
    )(list_)
    group.command(
        "check",
        help="Check that each server starts and answers. Lists its tools, and calls one that only reads and needs no "
        f"arguments. Servers of scope `episode` run in a sandbox. Exits 1 if a server fails. "
        f"{_WHICH}\n\nhermes-lab mcp check -c mcp.yaml",
    )(check)
    group.command(
        "call",
        help="Call one tool, and print its answer as the agent would see it. ARGUMENTS is a JSON object. Exits 1 if "
        f"the call fails. {_WHICH}\n\n"
        'hermes-lab mcp call files read_text_file \'{"path": "/home/ann/notes/todo.md"}\'',
    )(call)
    group.command(
        "serve",
        help="Serve runs to other agents as a read-only MCP server. Its tools are runs, summary, show, compare, skills "
        "and tasks; over stdin and stdout, or streamable HTTP at /mcp.\n\nhermes-lab mcp serve --runs runs\n\n"
        "hermes-lab mcp serve --http 127.0.0.1:8765\n\n"
        "claude mcp add lab -- hermes-lab mcp serve --runs /home/ann/runs",
    )(serve)
    app.add_typer(group, name="mcp")


def list_(config: options.Config = None, json: options.Json = False) -> int:
    """`hermes-lab mcp list`."""
    return _each(config, json, called=False)


def check(config: options.Config = None, json: options.Json = False) -> int:
    """`hermes-lab mcp check`."""
    return _each(config, json, called=True)


def _each(sources: list[str] | None, json: bool, *, called: bool) -> int:
    import anyio

    whole = _configured(sources)
    found: dict[str, dict[str, Any]] = {}

    async def all_servers() -> None:
        async with anyio.create_task_group() as group:
            for name in whole.mcp.servers:
                group.start_soon(one, name)

    async def one(name: str) -> None:
        try:
            found[name] = await _looked_at(name, whole, called=called)
        except HermesLabError as error:
            found[name] = {"error": str(error)}

    anyio.run(all_servers)
    found = {name: found[name] for name in whole.mcp.servers}
    if json:
        output.print_json(found)
    else:
        for name, server in found.items():
            _show(name, server, called=called)
        tools = sum(len(server.get("tools", ())) for server in found.values())
        failed = sum("error" in server for server in found.values())
        from hermes_lab.text.counted import counted

        of = counted(len(found) - failed, "server")
        typer.echo(f"{counted(tools, 'tool')} of {of}" + (f"; {failed} failed" if failed else ""))
    failure = 1 if called else 3  # a failed check; or a list that lacks a server
    return failure if any("error" in server for server in found.values()) else 0


def _show(name: str, server: dict[str, Any], *, called: bool) -> None:
    if "error" in server:
        typer.echo(f"{name}: failed")
        output.say(f"hermes-lab: error: {server['error']}")
        return
    who = printable(" ".join(filter(None, (server["server"], server["version"]))))
    typer.echo(f"{name}: {who or 'no name'}, protocol {server['protocol']}, scope {server['scope']}")
    if not called:
        width = max(map(len, server["tools"]), default=0)
        for tool, declared in server["tools"].items():
            first = declared["description"].strip().partition("\n")[0]
            typer.echo(printable(f"  {tool:<{width}}  {first[:_CHARS]}"))
    else:
        said = f"called {server['called']} in {server['seconds'] * 1000:.0f} ms" if server["called"] else "none called"
        why = "" if server["called"] else ": no tool only reads and needs no arguments"
        typer.echo(f"  {len(server['tools'])} tools; {said}{why}")
    for tool, reason in server["left_out"].items():
        typer.echo(printable(f"  left out: {tool}: {reason}"))


async def _looked_at(name: str, whole: "RunConfig", *, called: bool) -> dict[str, Any]:
    import time

    async with _opened(name, whole) as (servers, tools):
        snapshot: Snapshot = servers.snapshots[name]
        served = snapshot.served
        listed = {
            each.name: {"description": each.description, "parameters": each.parameters, "digest": each.digest}
            for each in snapshot.tools.values()
        }
        found = {
            "server": served.server,
            "version": served.version,
            "protocol": served.protocol,
            "digest": served.digest,
            "scope": whole.mcp.servers[name].scope,
            "tools": listed,
            "left_out": served.left_out,
        }
        if not called:
            return found
        safe = [each for each in snapshot.tools.values() if each.read_only and not each.parameters.get("required")]
        # The shortest name is the most likely to be a plain getter; a long one may take long or need more.
        first = min(safe, key=lambda each: (len(each.name), each.name), default=None)
        started = time.monotonic()
        if first is not None:
            answer = await tools(first.name, {})
            if "error" in answer:
                raise McpError(f"mcp.servers.{name}: {first.own_name} failed: {answer['error']}")
        return found | {"called": first.name if first else "", "seconds": time.monotonic() - started}


def call(
    server: Annotated[str, typer.Argument(help="The server's name in mcp.servers.", show_default=False)],
    tool: Annotated[str, typer.Argument(help="The tool's own name, or SERVER__TOOL.", show_default=False)],
    arguments: Annotated[str, typer.Argument(help="The arguments, a JSON object.")] = "{}",
    config: options.Config = None,
) -> int:
    """`hermes-lab mcp call`."""
    import anyio
    import msgspec

    whole = _configured(config)
    if server not in whole.mcp.servers:
        raise ConfigError(f"mcp.servers has no server {server!r}; there are: {', '.join(whole.mcp.servers)}")
    try:
        given = msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ConfigError(f"ARGUMENTS: not a JSON object: {error}") from None

    async def once() -> dict[str, Any]:
        async with _opened(server, whole) as (servers, tools):
            known = servers.snapshots[server]
            names = {each.own_name: name for name, each in known.tools.items()} | {name: name for name in known.tools}
            if tool not in names:
                why = known.served.left_out.get(tool)
                left_out = f"{server}: the tool {tool} is left out: {why}"
                has = ", ".join(each.own_name for each in known.tools.values())
                there = f"{server} has no tool {tool!r}; it has: {has}"
                raise ConfigError(left_out if why else there)
            answer: dict[str, Any] = await tools(names[tool], given)
            return answer

    answer = anyio.run(once)
    typer.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
    return 1 if "error" in answer else 0


def serve(
    runs: Annotated[Path, typer.Option("--runs", help="The folder with the runs.")] = Path("runs"),
    http: Annotated[str, typer.Option("--http", help="HOST:PORT; default: stdin and stdout.", show_default=False)] = "",
) -> None:
    """`hermes-lab mcp serve`."""
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise ConfigError("`mcp` is not installed: pip install 'hermes-lab[mcp]'")
    if not runs.is_dir():
        raise ConfigError(f"--runs: {runs}: no such folder")
    host, _, port = http.rpartition(":")
    if http and not (host and port.isdecimal() and 0 < int(port) < 65536):
        raise ConfigError(f"--http: {http!r}: give HOST:PORT, such as 127.0.0.1:8765")
    from hermes_lab.runners.mcp_server import build_server

    server = build_server(runs)
    if http:
        output.say(f"serving {runs} at http://{http}/mcp")
        server.run("streamable-http", host=host, port=int(port))
    else:
        server.run("stdio")


@asynccontextmanager
async def _opened(name: str, whole: "RunConfig") -> "AsyncIterator[tuple[Servers, _Caller]]":
    """One server, and what calls its tools, by the names that the model sees."""
    import msgspec

    from hermes_lab.config.mcp import McpConfig
    from hermes_lab.mcp.servers import open_servers
    from hermes_lab.sandbox import open_sandbox
    from hermes_lab.tools.registry import ToolContext
    from hermes_lab.tools.toolbox import Toolbox
    from hermes_lab.types import ToolCall

    server = whole.mcp.servers[name]
    opener = partial(open_sandbox, whole.sandbox)
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(open_servers(McpConfig(servers={name: server}), opener))
        sandbox: Any = await stack.enter_async_context(opener(servers.extras)) if server.in_sandbox else None
        here = await stack.enter_async_context(servers.episode(sandbox))
        toolbox = Toolbox((), ToolContext(sandbox, None, whole.sandbox), given=here.tools)

        async def called(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
            result = await toolbox.run(ToolCall("1", tool, arguments))
            answer: dict[str, Any] = msgspec.json.decode(result.content)
            return answer

        yield servers, called


def _configured(sources: list[str] | None) -> "RunConfig":
    """The configuration with the servers. Raises `ConfigError` if there are none, or one cannot be started."""
    from hermes_lab.config.home_file import load_home_config
    from hermes_lab.config.sources import load_config
    from hermes_lab.mcp.check import need_sdk
    from hermes_lab.sessions import hermes_home

    config = load_config(sources) if sources else load_home_config(hermes_home(), ())
    if not config.mcp.servers:
        where = "the configuration" if sources else str(hermes_home() / "config.yaml")
        raise ConfigError(f"mcp.servers: {where} names no servers (docs/mcp.md)")
    need_sdk(config.mcp)
    return config
