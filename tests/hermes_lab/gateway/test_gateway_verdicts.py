"""Reactions to replies are verdicts on the turns that they answer, and judged turns are tasks."""

import json
from pathlib import Path

import anyio
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, Reply, running
from fakes.wire import Start, Wire

from hermes_lab.gateway.platform import Judged, Sender
from hermes_lab.gateway.store import GatewayStore
from hermes_lab.records import read_episodes


def verdicts(home: Path) -> list[tuple[bool | None, float | None]]:
    """Those of the turns, in order."""
    found = sorted(read_episodes(home / "chats"), key=lambda episode: episode.place)
    return [(episode.success, episode.score) for episode in found]


async def react(
    wire: Wire, home: Path, update: str, message: str, good: bool | None, *, chat: str = "1", by: str = "ann"
) -> None:
    with anyio.fail_after(60):  # a reply has its id once the platform's answer is stored
        while "sending" in GatewayStore(home).counts()["outbox"]:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    await wire.event(Judged(update, chat, "", Sender(by), message, good))


async def test_a_reaction_judges_its_turn_in_an_open_chat_after_new_and_when_it_is_closed(
    start: Start, home: Path, wire: Wire
) -> None:
    async with start(wire):
        for number, text in enumerate(("One", "Two", "/new", "Three"), 1):
            await wire.say(text)
            await wire.replies(number)
        await react(wire, home, "r1", "m1", True)
        await react(wire, home, "r2", "m4", False)
        assert verdicts(home) == [(True, 1), (None, None), (False, 0)]
        await react(wire, home, "r3", "m4", True)
        await react(wire, home, "r4", "m1", None)
        assert verdicts(home) == [(None, None), (None, None), (True, 1)]
    again = Wire()
    async with start(again):
        await react(again, home, "r5", "m2", False)
        assert verdicts(home) == [(None, None), (False, 0), (True, 1)]
        await again.say("/good", update="20")  # goes on with the session of the third turn
        await again.say("Four", update="21")
        await again.replies(2)
        await react(again, home, "r6", "m2", True)
    assert verdicts(home) == [(None, None), (False, 0), (True, 1), (True, 1)]


async def test_the_last_verdict_holds_in_an_open_chat_and_in_one_that_was_closed(
    start: Start, home: Path, wire: Wire
) -> None:
    async with start(wire):
        await wire.say("One")
        await wire.replies(1)
        await react(wire, home, "r0", "m1", True)
        await wire.say("/bad")
        await wire.replies(2)
        assert verdicts(home) == [(False, 0)]
    second = Wire()
    async with start(second):
        await react(second, home, "r1", "m1", True)
        await second.say("/bad too long", update="20")
        await second.replies(1)
    assert verdicts(home) == [(False, 0)]


async def test_only_who_may_write_can_judge_only_replies_of_turns_and_each_event_counts_once(
    start: Start, home: Path, wire: Wire
) -> None:
    async with start(wire):
        await wire.say("One")
        await wire.replies(1)
        await wire.say("/status")
        await wire.replies(2)
        await react(wire, home, "r1", "m1", False, by="eve")
        await react(wire, home, "r2", "m2", False)
        await react(wire, home, "r3", "m9", False)
        await react(wire, home, "r4", "m1", False, chat="2")
        assert verdicts(home) == [(None, None)]
        await react(wire, home, "r5", "m1", True)
        await react(wire, home, "r6", "m1", False)
        await react(wire, home, "r5", "m1", True)  # delivered again
        assert verdicts(home) == [(False, 0)]


async def test_a_reaction_during_the_next_turn_of_its_chat_is_recorded(start: Start, home: Path, wire: Wire) -> None:
    async with start(wire):
        await wire.say("One")
        await wire.replies(1)
        await wire.say('CALL terminal {"command": "sleep 1"}\nTwo')
        await anyio.sleep(0.3)
        await react(wire, home, "r1", "m1", True)
        await wire.replies(2)
    assert verdicts(home) == [(True, 1), (None, None)]


def test_judged_turns_are_tasks_that_can_be_run_again(start: Start, home: Path, wire: Wire, tmp_path: Path) -> None:
    async def chat() -> None:
        async with start(wire):
            for number, text in enumerate(("What is 1 + 1? 2", "And 2 + 2? 5", "Not judged"), 1):
                await wire.say(text)
                await wire.replies(number)
            await react(wire, home, "r1", "m1", True)
            await wire.say("/undo", update="20")
            await wire.replies(4)
            await wire.say("/bad it is 4", update="21")
            await wire.replies(5)

    anyio.run(chat)
    out = tmp_path / "asked.jsonl"
    done = lab("export", home / "chats", "--format", "tasks", "--consent", "-o", out)
    assert "2 rows" in done.stderr
    assert "1 taken back with /undo" in done.stderr
    good, bad = [json.loads(line) for line in out.read_text().splitlines()]
    assert good["prompt"] == "What is 1 + 1? 2"
    assert good["judge"].endswith("The earlier answer:\n\nWhat is 1 + 1? 2")
    assert bad["prompt"].startswith("The conversation so far:\n\nUser: What is 1 + 1? 2\n\nAssistant: What is 1 + 1? 2")
    assert bad["prompt"].endswith("The message to answer:\n\nAnd 2 + 2? 5")
    assert "rejected the earlier answer below (it is 4)" in bad["judge"]
    with running(FakeOpenAIServer(lambda body: Reply("GRADE: C"))) as judge:
        chosen = f"{{model: {{provider: openai, base_url: '{judge.base_url}', name: fake}}}}"
        again = ["-c", f"suite.path={out}", "-c", f"judge={chosen}", "-c", "model.provider=scripted"]
        again += ["-c", "model.name=fakes.tool_caller:tool_caller", "--out", str(tmp_path / "run"), "--quiet"]
        ran = lab("run", *again)
    assert ran.returncode == 0, ran.stderr
    assert [episode.success for episode in read_episodes(tmp_path / "run")] == [True, True]
