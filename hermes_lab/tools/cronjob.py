"""The `cronjob` tool: proposes scheduled jobs."""

from functools import partial
from typing import Annotated, Any, Literal

import anyio.to_thread
from pydantic import Field

from hermes_lab.errors import ConfigError, ToolError
from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="cron", serves=lambda ctx, _offered: ctx.jobs is not None)
async def cronjob(
    ctx: ToolContext,
    action: Literal["create", "list", "remove"],
    name: str = "",
    schedule: str = "",
    prompt: str = "",
    skills: tuple[str, ...] = (),
    repeat: Annotated[int | None, Field(ge=1)] = None,
) -> dict[str, Any]:
    """Propose a scheduled job. Once the user has approved it, it runs in a separate session that does not see this one,
    and its answer is sent to this chat. remove withdraws a proposal.

    Args:
        name: The job's name.
        schedule: Five cron fields, an interval (every, then a number and s, m, h or d), or one date and time, in the
            user's time zone.
        prompt: For create: the complete task.
        skills: Skills that the job needs.
        repeat: Total number of runs; unlimited if omitted.
    """
    if (jobs := ctx.jobs) is None:
        raise ToolError("jobs cannot be scheduled here")
    try:
        if action == "list":
            return {"jobs": await anyio.to_thread.run_sync(jobs.proposed)}
        if not name:
            raise ToolError("name: must not be empty")
        if action == "remove":
            await anyio.to_thread.run_sync(jobs.withdraw, name)
            return {"removed": name}
        first = await anyio.to_thread.run_sync(partial(jobs.propose, name, schedule, prompt, skills, repeat))
    except ConfigError as error:
        raise ToolError(str(error)) from None
    return {"proposed": name, "first_run": first, "note": f"Waiting for the user's approval: /cron approve {name}"}
