"""A gateway that is asked to restart ends its work first, and what comes meanwhile waits."""

import json
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from fakes.wire import Start, Wire

from hermes_lab.config.cron import CronJobConfig
from hermes_lab.cron.jobs import JobStore
from hermes_lab.cron.runs import RunStore
from hermes_lab.gateway import daemon, restart
from hermes_lab.gateway.daemon import Gateway
from hermes_lab.gateway.store import GatewayStore

WAIT = 120
"""Seconds after which a test gives up on a loaded machine."""


def work(seconds: float) -> str:
    return f"CALL terminal {json.dumps({'command': f'sleep {seconds}; echo worked'})}\n"


def add(home: Path) -> None:
    """A job that is due within two seconds."""
    home.mkdir()
    job = CronJobConfig(name="ask", schedule="every 1s", zone="UTC", prompt=work(3))
    JobStore(home).add(job, datetime.now(UTC), folder=home)


async def restarting(gateway: Gateway) -> None:
    with anyio.fail_after(WAIT):
        while not gateway.restarting:  # noqa: ASYNC110 - another task
            await anyio.sleep(0.02)


async def draining(gateway: Gateway) -> None:
    with anyio.fail_after(WAIT):
        while not gateway._draining:  # noqa: ASYNC110 - another task
            await anyio.sleep(0.02)


async def acted(home: Path) -> None:
    with anyio.fail_after(WAIT):
        while not any(row.acted for row in GatewayStore(home).waiting()):  # noqa: ASYNC110 - another task
            await anyio.sleep(0.02)


async def test_a_turn_under_way_is_answered_and_later_messages_wait_for_the_restart(start: Start, home: Path) -> None:
    wire = Wire()
    async with start(wire) as gateway:
        await wire.say(work(3))
        await acted(home)
        restart.ask(home)
        await draining(gateway)
        await wire.say("To the same chat")
        await wire.say("To another chat", chat="2")
        await restarting(gateway)
    store = GatewayStore(home)
    assert [row.text for row in store.waiting()] == ["To the same chat", "To another chat"]
    after = Wire()
    async with start(after) as gateway:
        assert await after.replies(1, "2", WAIT) == ["To another chat"]
        left = 2 - len(wire.sent)  # the answer may have been sent before or after the restart
        answers = [*(each.text for each in wire.sent), *await after.replies(left, seconds=WAIT)]
        assert "worked" in answers[0]
        assert answers[1:] == ["To the same chat"]
        assert not gateway.restarting  # the request was for the gateway before


async def test_a_job_under_way_ends_and_none_begins(start: Start, wire: Wire, home: Path) -> None:
    add(home)
    async with start(wire) as gateway:
        with anyio.fail_after(WAIT):
            while not gateway._ticker.working:  # noqa: ASYNC110 - another task
                await anyio.sleep(0.02)
        restart.ask(home)
        await restarting(gateway)
    states = [run.state for run in RunStore(home).latest(1000, "ask")]
    assert states.count("ok") == 1
    assert set(states) <= {"ok", "skipped"}  # its slots while it ran


async def test_it_does_not_wait_for_ever(start: Start, wire: Wire, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "_DRAIN_SECONDS", 0.5)
    async with start(wire) as gateway:
        await wire.say(work(50))
        await acted(home)
        restart.ask(home)
        await restarting(gateway)
    after = Wire()
    async with start(after):
        assert "I was restarted while I worked on this" in (await after.replies(1, seconds=WAIT))[0]
