"""Writes the groups of `serve` to files, without a server."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import anyio
import msgspec

from hermes_lab.envs.atropos.html import write_page
from hermes_lab.envs.atropos.source import GroupSource, Item, Made
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.envs.groups import write_groups
from hermes_lab.errors import HermesLabError
from hermes_lab.records import write_atomic

Say = Callable[[str], None]


async def process(
    source: GroupSource, tally: Tally, *, count: int, out: Path, scored: bool, page: Path | None, say: Say
) -> None:
    """Rolls out the groups of `count` tasks and, at the end, writes those that a server would receive, in order.

    `out` gets one JSON object per posted group, or `ScoredGroup`s with `scored`; `page` gets the conversations as HTML.
    If interrupted, only the episodes are kept, from which groups can be exported.
    """
    in_order = await roll_out(source, tally, count, say)
    if scored:
        write_groups([group.group for group in in_order], out)
    else:
        write_atomic(out, b"".join(msgspec.json.encode(group.data) + b"\n" for group in in_order))
    if page:
        write_page(page, out.name, [group.data for group in in_order])


async def roll_out(source: GroupSource, tally: Tally, count: int, say: Say) -> list[Made]:
    """The groups of `count` tasks, in order, without those that are refused."""
    made: dict[int, Made] = {}
    limiter = anyio.CapacityLimiter(source.at_once)

    failures: list[HermesLabError] = []

    async def make(number: int, item: Item) -> None:
        async with limiter:
            try:
                group = await source.make(item)
            except HermesLabError as error:
                failures.append(error)
                return work.cancel_scope.cancel()
        if group:
            made[number] = group
            tally.sent([group.group])
        return say(str(tally))

    async with anyio.create_task_group() as work:
        for number, item in enumerate(islice(source.items(), count)):
            work.start_soon(make, number, item)
    if failures:
        raise failures[0]  # and not in an ExceptionGroup
    return [made[number] for number in sorted(made)]
