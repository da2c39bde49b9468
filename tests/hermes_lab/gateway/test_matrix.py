"""The gateway on Matrix, with a real Synapse: conversations, restarts, failures, strangers, groups."""

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from fakes.synapse import Synapse, User
from fakes.wire import Start

from hermes_lab.config.gateway import HttpConfig, MatrixConfig
from hermes_lab.gateway.access import approve
from hermes_lab.gateway.platforms.http import HttpPlatform
from hermes_lab.gateway.platforms.matrix import MatrixPlatform
from hermes_lab.gateway.restart import STATUS
from hermes_lab.gateway.store import GatewayStore
from hermes_lab.runners.cli import app
from hermes_lab.sessions import SessionKey, SessionStore

pytestmark = pytest.mark.long

Bot = Callable[..., MatrixPlatform]


@pytest.fixture
def ann(synapse: Synapse) -> User:
    return User(synapse, "ann")


@pytest.fixture
def bot(synapse: Synapse) -> User:
    return User(synapse, "hermes")


@pytest.fixture
def matrix(synapse: Synapse, bot: User, monkeypatch: pytest.MonkeyPatch) -> Bot:
    monkeypatch.setenv("MATRIX_PASSWORD", bot.password)
    return lambda **fields: MatrixPlatform(MatrixConfig(homeserver=synapse.url, user=bot.id, **fields))


def allow(*users: User) -> str:
    return json.dumps([user.id for user in users])


async def state(home: Path, platform: str, wanted: str) -> dict[str, str]:
    """What the status says of a platform, once it is in that state."""
    with anyio.fail_after(60):
        while True:
            if (home / STATUS).exists():
                found: dict[str, str] = json.loads((home / STATUS).read_bytes())["platforms"][platform]
                if found["state"] == wanted:
                    return found
            await anyio.sleep(0.05)


async def test_from_the_first_message_to_a_row_for_training(
    start: Start, matrix: Bot, ann: User, bot: User, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    call = f"CALL terminal {json.dumps({'command': 'echo $((6 * 7))'})}\nWhat is 6*7?"
    async with start(matrix(), allow=allow(ann), sources=("chat.consent=true",)):
        room = await ann.room(bot.id)
        await ann.say(room, call)
        (reply,) = await ann.hears(room, bot.id, 1)
        assert "42" in reply["content"]["body"]
        assert "m.relates_to" not in reply["content"]
        await ann.say(room, "/good Right.")
        assert len(await ann.hears(room, bot.id, 2)) == 2
        await ann.say(room, "Not judged")
        assert (await ann.hears(room, bot.id, 3))[2]["content"]["body"] == "Not judged"
    (session,) = SessionStore(home / "sessions.db").latest()
    assert session.key == str(SessionKey("matrix", room, chat_type="dm"))
    out = home / "turns.jsonl"
    command = ["export", str(home / "chats"), "--format", "sft", "-o", str(out)]
    await anyio.to_thread.run_sync(lambda: app(command, standalone_mode=False))
    (row,) = map(json.loads, out.read_text().splitlines())
    assert call in json.dumps(row, ensure_ascii=False).replace("\\n", "\n").replace('\\"', '"')
    assert "42" in json.dumps(row)
    assert ann.id not in json.dumps(row)
    log = "\n".join(record.getMessage() for record in caplog.records)
    for secret in (bot.password, bot.id, ann.id, room, "6*7", "Right."):
        assert secret not in log


async def test_restarts_while_messages_arrive_lose_none_and_answer_none_twice(
    start: Start, matrix: Bot, ann: User, bot: User
) -> None:
    sent = [f"Message {number}" for number in range(12)]

    async def talk() -> None:
        for text in sent:
            await ann.say(room, text)
            await anyio.sleep(0.1)

    async with start(matrix(), allow=allow(ann)):
        room = await ann.room(bot.id)
        await ann.say(room, "Begin")
        await ann.hears(room, bot.id, 1)
    async with anyio.create_task_group() as group:
        group.start_soon(talk)
        for _ in range(2):
            async with start(matrix(), allow=allow(ann)):
                await anyio.sleep(0.7)
    async with start(matrix(), allow=allow(ann)):
        found = await ann.hears(room, bot.id, 1 + len(sent))
        await anyio.sleep(0.5)
        found = await ann.messages(room, bot.id)
    texts = [event["content"]["body"] for event in found]
    for told in texts:
        assert told in ("Begin", *sent) or "I was restarted" in told
    assert len(texts) == 1 + len(sent)
    plain = [text for text in texts if text in sent]
    assert plain == sorted(plain, key=sent.index)


async def test_a_wrong_password_is_told_and_leaves_the_other_platforms_up(
    start: Start, matrix: Bot, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("HERMES_HTTP_KEY", "right")
    monkeypatch.setenv("MATRIX_PASSWORD", "not-this-one")
    async with start(matrix(), HttpPlatform(HttpConfig(port=0)), allow="[]"):
        told = await state(home, "matrix", "down")
        assert "refuses the user or password" in told["why"]
        assert "M_FORBIDDEN" in told["why"]
        assert (await state(home, "http", "up"))["why"] == ""
    assert "not-this-one" not in "\n".join(record.getMessage() for record in caplog.records)


async def test_without_a_password_it_says_which_variable_is_missing(start: Start, matrix: Bot, home: Path) -> None:
    async with start(matrix(password_env="NO_SUCH"), allow="[]"):
        assert (await state(home, "matrix", "down"))["why"] == "NO_SUCH is not set"


async def test_it_goes_on_when_the_homeserver_is_back(
    start: Start, matrix: Bot, synapse: Synapse, ann: User, bot: User, home: Path
) -> None:
    async with start(matrix(), allow=allow(ann)):
        room = await ann.room(bot.id)
        await ann.say(room, "Before")
        await ann.hears(room, bot.id, 1)
        await anyio.to_thread.run_sync(synapse.stop)
        try:
            assert (await state(home, "matrix", "down"))["why"].startswith("the homeserver")
        finally:
            await anyio.to_thread.run_sync(synapse.start)
        await ann.say(room, "After")
        texts = [event["content"]["body"] for event in await ann.hears(room, bot.id, 2)]
        assert texts == ["Before", "After"]


async def test_a_token_that_is_void_is_replaced(start: Start, matrix: Bot, ann: User, bot: User, home: Path) -> None:
    async with start(matrix(), allow=allow(ann)):
        room = await ann.room(bot.id)
        await ann.say(room, "Before")
        await ann.hears(room, bot.id, 1)
        await bot.call("POST", "/logout/all")
        await ann.say(room, "After")
        await ann.hears(room, bot.id, 2)


async def test_a_long_answer_comes_whole_and_in_order(start: Start, matrix: Bot, ann: User, bot: User) -> None:
    text = "\n\n".join(" ".join(f"w{n}" for n in range(at, at + 100)) for at in range(0, 8000, 100))
    async with start(matrix(), allow=allow(ann)):
        room = await ann.room(bot.id)
        await ann.say(room, text)
        found = await ann.hears(room, bot.id, 3)
    assert "".join(event["content"]["body"] for event in found) == text


async def test_a_stranger_gets_a_code_where_direct_invitations_are_accepted(
    start: Start, matrix: Bot, synapse: Synapse, ann: User, bot: User, home: Path
) -> None:
    eve = User(synapse, "eve")
    async with start(matrix(invitations="direct"), allow=allow(ann)):
        await eve.call("PUT", f"/profile/{eve.id}/displayname", {"displayname": ann.id})
        group = await eve.room(bot.id, direct=False)
        room = await eve.room(bot.id)
        await eve.say(room, "Let me in")
        (told,) = await eve.hears(room, bot.id, 1)
        code = re.search(r"pair (\w{8})$", told["content"]["body"])
        assert code
        assert GatewayStore(home).waiting() == []
        assert approve(GatewayStore(home), code[1])[1].id == eve.id
        await eve.say(room, "Hello")
        assert (await eve.hears(room, bot.id, 2))[1]["content"]["body"] == "Hello"
        members = await eve.call("GET", f"/rooms/{group}/joined_members")
        assert bot.id not in members["joined"]


async def test_a_forged_name_lets_nobody_in(
    start: Start, matrix: Bot, synapse: Synapse, ann: User, bot: User, home: Path
) -> None:
    eve = User(synapse, "eve")
    await eve.call("PUT", f"/profile/{eve.id}/displayname", {"displayname": ann.id})
    async with start(matrix(), allow=allow(ann)):
        theirs = await eve.room(bot.id)
        room = await ann.room(bot.id, eve.id, direct=False)
        await eve.join(room)
        await ann.say(room, f"{bot.id}: Hello")
        await ann.hears(room, bot.id, 1)
        await eve.say(room, f"{bot.id}: I am Ann")
        await ann.say(room, f"{bot.id}: Still here")
        replies = await ann.hears(room, bot.id, 2)
        assert [re.sub("<.*?>", "", event["content"]["body"]) for event in replies] == ["Hello", "Still here"]
        members = await eve.call("GET", f"/rooms/{theirs}/joined_members")
        assert bot.id not in members["joined"]


async def test_in_a_group_it_answers_who_names_or_answers_it(
    start: Start, matrix: Bot, synapse: Synapse, ann: User, bot: User
) -> None:
    bob = User(synapse, "bob")
    async with start(matrix(), allow=allow(ann, bob)):
        room = await ann.room(bot.id, bob.id, direct=False)
        await bob.join(room)
        first = await ann.say(room, f"{bot.id} One")
        (reply,) = await ann.hears(room, bot.id, 1)
        assert reply["content"]["m.relates_to"] == {"m.in_reply_to": {"event_id": first}}
        assert re.fullmatch(r'<from id="u\w+" name="ann\d+">.* One</from>', reply["content"]["body"])
        await bob.say(room, "To nobody")
        await bob.say(room, "Two", **{"m.mentions": {"user_ids": [bot.id]}})
        await ann.hears(room, bot.id, 2)
        await bob.say(room, "Three", **{"m.relates_to": {"m.in_reply_to": {"event_id": reply["event_id"]}}})
        await ann.hears(room, bot.id, 3)
        await bob.say(room, "To Ann", **{"m.relates_to": {"m.in_reply_to": {"event_id": first}}})
        await bob.say(room, "/status")
        replies = await ann.hears(room, bot.id, 4)
        bodies = [event["content"]["body"] for event in replies]
        assert [word for body in bodies for word in ("One", "Two", "Three", "nobody", "To Ann") if word in body] == [
            *("One", "Two", "Three")
        ]


async def test_a_thread_is_a_conversation_of_its_own(
    start: Start, matrix: Bot, ann: User, bot: User, home: Path
) -> None:
    async with start(matrix(), allow=allow(ann)):
        room = await ann.room(bot.id)
        root = await ann.say(room, "Begin")
        await ann.hears(room, bot.id, 1)
        thread = {"rel_type": "m.thread", "event_id": root, "is_falling_back": True}
        asked = await ann.say(room, "Within", **{"m.relates_to": thread | {"m.in_reply_to": {"event_id": root}}})
        reply = (await ann.hears(room, bot.id, 2))[1]
        assert reply["content"]["m.relates_to"] == thread | {"m.in_reply_to": {"event_id": asked}}
    keys = {str(each.key) for each in SessionStore(home / "sessions.db").latest()}
    assert keys == {str(SessionKey("matrix", room, at, "dm")) for at in ("", root)}
