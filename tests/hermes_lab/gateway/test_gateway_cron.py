"""Scheduled jobs that a gateway runs, and whose results it sends."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from fakes.wire import Start, Wire

from hermes_lab.config.cron import CronJobConfig
from hermes_lab.cron.jobs import JobStore
from hermes_lab.cron.runs import RunStore
from hermes_lab.gateway.platform import Refused
from hermes_lab.gateway.restart import STATUS

HOME_CHAT = "gateway.home=wire:dm:9"


def add(home: Path, name: str, **fields: Any) -> None:
    """A job that is due within two seconds."""
    given = {"schedule": "every 1s", "repeat": 1, "zone": "UTC"} | fields
    home.mkdir(exist_ok=True)
    JobStore(home).add(CronJobConfig(name=name, **given), datetime.now(UTC), folder=home)


async def delivery(home: Path, name: str) -> str:
    """How the result of a job was delivered, once it was."""
    with anyio.fail_after(60):
        while not (runs := RunStore(home).latest(1, name)) or runs[0].delivery in ("", "undelivered"):  # noqa: ASYNC110 - another thread
            await anyio.sleep(0.05)
    return runs[0].delivery


async def test_results_go_to_the_home_chat_and_to_named_chats_with_their_files(
    start: Start, wire: Wire, home: Path
) -> None:
    add(home, "ask", prompt="Say it.", deliver="wire")
    add(home, "fails", command="show nowhere", deliver="wire:group:7")
    add(home, "writes", command="config init", deliver="wire:dm:8", files=("*.yaml", "none-*.png"))
    async with start(wire, sources=(HOME_CHAT,)):
        assert await wire.replies(1, "9", 60) == ["Say it."]
        (failed,) = await wire.replies(1, "7", 60)
        assert failed.startswith("fails: failed, exit code 2")
        with anyio.fail_after(60):
            while not (sent := [each for each in wire.sent if each.files]):  # noqa: ASYNC110 - another task
                await anyio.sleep(0.05)
        assert [(each.chat, each.text, [path.name for path in each.files]) for each in sent] == [
            ("8", "", ["config.yaml"])
        ]
        for name in ("ask", "fails", "writes"):
            assert await delivery(home, name) == "delivered"


async def test_a_result_without_a_chat_is_refused_and_its_output_stays(start: Start, wire: Wire, home: Path) -> None:
    add(home, "other", prompt="Say it.", deliver="telegram")
    add(home, "none", prompt="Say it.", deliver="wire")
    async with start(wire):
        assert await delivery(home, "none") == "refused"
        assert await delivery(home, "other") == "refused"
    (run,) = RunStore(home).latest(1, "none")
    assert run.state == "ok"
    assert not wire.sent


async def test_jobs_run_while_a_platform_is_down(start: Start, wire: Wire, home: Path) -> None:
    other = Wire("other")
    other.refusals = [Refused("wrong token")]
    add(home, "ask", prompt="Say it.", deliver="wire")
    async with start(wire, other, sources=(HOME_CHAT,)):
        assert await wire.replies(1, "9", 60) == ["Say it."]
        status = json.loads((home / STATUS).read_bytes())
    assert status["cron"] == {"state": "up", "why": ""}
    assert status["platforms"]["other"]["state"] == "down"


async def test_ids_of_chats_stand_in_no_log(
    start: Start, wire: Wire, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "hermes_lab.gateway")
    add(home, "none", prompt="Say it.", deliver="telegram:dm:5550199")
    async with start(wire):
        assert await delivery(home, "none") == "refused"
    assert "none" in caplog.text
    assert "5550199" not in caplog.text


async def test_results_come_though_the_database_of_jobs_was_moved_away(start: Start, wire: Wire, home: Path) -> None:
    for number in (1, 2):
        add(home, "ask", prompt=f"Result {number}.", deliver="wire:dm:9")
        async with start(wire):
            assert await wire.replies(number, "9", 60) == [f"Result {each}." for each in range(1, number + 1)]
            assert await delivery(home, "ask") == "delivered"
        (home / "cron.db").rename(home / f"away-{number}.db")
