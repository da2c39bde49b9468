"""Writes the groups of `serve` to files, without a server."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import anyio
import msgspec

from hermes_lab.envs.atropos.html import write_page
from hermes_lab.envs.atropos.source import Made, Source
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.envs.groups import write_groups
from hermes_lab.errors import HermesLabError
from hermes_lab.models.weights import Say
from hermes_lab.records import write_atomic


async def process(
    source: Source, tally: Tally, *, count: int, out: Path, scored: bool, page: Path | None, say: Say
) -> None:
    """Rolls out the groups of `count` tasks and, at the end, writes those that a server would receive, in order.

    `out` gets one JSON object per posted group, or `ScoredGroup`s with `scored`; `page` gets the conversations as HTML.
    If interrupted, only the episodes are kept, from which groups can be exported.
    """
    in_order = await roll_out(source, tally, count, say)
    write_made(in_order, out, scored=scored, page=page)


async def roll_out(source: Source, tally: Tally, count: int, say: Say) -> list[Made]:
    """The groups of `count` items of the source, in order, without those that are refused.

    An item is drawn when there is room for it, since the source chooses by what it has seen so far.
    """
    made: dict[int, list[Made]] = {}
    items = enumerate(islice(source.items(), count))
    failures: list[HermesLabError] = []

    async def make_next() -> None:
        for number, item in items:
            try:
                made[number] = await source.make_all(item)
            except HermesLabError as error:
                failures.append(error)
                return work.cancel_scope.cancel()
            tally.sent([each.group for each in made[number]])
            say(str(tally))
        return None

    async with anyio.create_task_group() as work:
        for _ in range(source.at_once):
            work.start_soon(make_next)
    if failures:
        raise failures[0]  # and not in an ExceptionGroup
    return [group for number in sorted(made) for group in made[number]]


def write_made(made: Sequence[Made], out: Path, *, scored: bool, page: Path | None) -> None:
    """Writes groups as `process` does."""
    if scored:
        write_groups([group.group for group in made], out)
    else:
        write_atomic(out, b"".join(msgspec.json.encode(group.data) + b"\n" for group in made))
    if page:
        write_page(page, out.name, [group.data for group in made])
