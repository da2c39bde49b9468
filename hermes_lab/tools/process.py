"""The `process` tool: lists, polls, waits for and kills background commands."""

from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from hermes_lab.errors import ToolError
from hermes_lab.tools.background import Background, Process
from hermes_lab.tools.registry import ToolContext, tool

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
_COMMAND_CHARS = 200


@tool(toolset="process")
async def process(
    ctx: ToolContext,
    action: Literal["list", "poll", "wait", "log", "kill"],
    id: str = "",
    timeout: Annotated[float | None, Field(gt=0)] = None,
    offset: Annotated[int | None, Field(ge=1)] = None,
    limit: Annotated[int, Field(ge=1)] = 200,
) -> dict[str, Any]:
    """Manage background commands. {terminal: Start them with terminal.} poll: status and new output. wait: the same,
    once it has ended. log: lines of its whole output. kill: end it and everything it started.

    Args:
        id: The command's id; not for list.
        timeout: Maximum seconds to wait.
        offset: First line of the log; if omitted, the last lines.
        limit: Maximum number of log lines.
    """
    background = ctx.state(Background)
    if action == "list":
        await background.look(ctx, background.processes.values())
        return {"processes": [_summary(each) | _shown(each.command) for each in background.processes.values()]}
    if not id:
        raise ToolError(f"{action} needs the id of a background command")
    found = background.find(id)
    if action == "log":
        text, total = await background.lines(ctx, found, offset, limit)
        return {"id": id, "output": text, "total_lines": total}
    if action == "kill":
        await background.kill(ctx, found)
        return _summary(found)
    if action == "wait":
        await _wait(ctx, found, ctx.config.timeout if timeout is None else timeout)
    log = await background.news(ctx, found)
    skipped = {"skipped_bytes": log.skipped} if log.skipped else {}
    return _summary(found) | {"output": log.text} | skipped


async def _wait(ctx: ToolContext, found: Process, seconds: float) -> None:
    pause, deadline = _FIRST_PAUSE, anyio.current_time() + seconds
    await ctx.state(Background).look(ctx, [found])
    while found.status == "running" and (left := deadline - anyio.current_time()) > 0:
        await anyio.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)
        await ctx.state(Background).look(ctx, [found])


def _summary(found: Process) -> dict[str, Any]:
    ended = {} if found.status == "running" else {"exit_code": found.exit_code}
    return {"id": found.id, "status": found.status} | ended


def _shown(command: str) -> dict[str, str]:
    return {"command": command if len(command) <= _COMMAND_CHARS else f"{command[:_COMMAND_CHARS]} [...]"}
