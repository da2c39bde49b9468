"""What the Matrix platform reads and sends, with a real Synapse."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest
from fakes.desk import Desk
from fakes.synapse import Synapse, User

from hermes_lab.config.gateway import MatrixConfig
from hermes_lab.gateway.platform import Inbound, Judged, Outbound, PlatformError, Undeliverable
from hermes_lab.gateway.platforms.matrix import MatrixConnection, MatrixPlatform
from hermes_lab.sessions import SessionKey

pytestmark = pytest.mark.long

THUMB = "\N{THUMBS UP SIGN}"
DOWN = "\N{THUMBS DOWN SIGN}"


Connected = Callable[[], AbstractAsyncContextManager[MatrixConnection]]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def ann(synapse: Synapse) -> User:
    return User(synapse, "ann")


@pytest.fixture
def bot(synapse: Synapse) -> User:
    return User(synapse, "hermes")


@pytest.fixture(autouse=True)
def discreet(ann: User, bot: User, desk: Desk, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing that was said, and nobody, is in a log."""
    caplog.set_level(logging.DEBUG)
    yield
    log = "\n".join(record.getMessage() for record in caplog.get_records("call"))
    said = [event for event in desk.events if isinstance(event, Inbound)]
    for secret in (
        bot.password,
        bot.id,
        ann.id,
        *{event.text for event in said},
        *{event.chat for event in desk.events},
    ):
        assert secret not in log


@pytest.fixture
def connected(synapse: Synapse, bot: User, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Connected:
    monkeypatch.setenv("MATRIX_PASSWORD", bot.password)

    @asynccontextmanager
    async def connect() -> AsyncIterator[MatrixConnection]:
        found = MatrixPlatform(MatrixConfig(homeserver=synapse.url, user=bot.id))
        async with found.connect(desk) as connection, anyio.create_task_group() as group:
            group.start_soon(connection.receive, desk.accept)
            try:
                yield connection
            finally:
                group.cancel_scope.cancel()

    return connect


async def test_thumbs_are_verdicts_and_can_be_taken_back_after_a_restart(
    connected: Connected, desk: Desk, synapse: Synapse, ann: User, bot: User
) -> None:
    eve = User(synapse, "eve")
    async with connected() as connection:
        room = await ann.room(bot.id, eve.id)
        await eve.join(room)
        await ann.say(room, "Hello")
        await desk.texts("Hello")
        reply = await connection.send(Outbound("k", room, "", "Hi"))
        await eve.react(room, reply, DOWN)
        await ann.react(room, reply, "\N{WHITE HEAVY CHECK MARK}")
        up = await ann.react(room, reply, f"{THUMB}\ufe0f")
        down = await ann.react(room, reply, f"{DOWN}\U0001f3fd")
        assert [(each.update, each.good) for each in await desk.verdicts(2)] == [(up, True), (down, False)]
        await ann.redact(room, up)
        await desk.verdicts(3)
    async with connected():
        back = await ann.redact(room, down)
        verdicts = await desk.verdicts(4)
    assert [each.good for each in verdicts] == [True, False, False, None]
    assert verdicts[3].update == back
    assert {(each.chat, each.message, each.sender.id) for each in verdicts} == {(room, reply, ann.id)}


async def test_edits_notices_and_odd_events_start_no_turn(
    connected: Connected, desk: Desk, ann: User, bot: User
) -> None:
    async with connected() as connection:
        room = await ann.room(bot.id)
        first = await ann.say(room, "First")
        await desk.texts("First")
        await connection.send(Outbound("k", room, "", "Its own"))
        new = {"msgtype": "m.text", "body": "Edited"}
        await ann.say(
            room, "* Edited", **{"m.new_content": new, "m.relates_to": {"rel_type": "m.replace", "event_id": first}}
        )
        await ann.send(room, {"msgtype": "m.notice", "body": "From a bot"})
        for content in (
            {},
            {"msgtype": "m.text"},
            {"msgtype": ["m.text"], "body": "x"},
            {"msgtype": "m.text", "body": {"a": 1}},
            {"msgtype": "m.location", "body": "here", "geo_uri": "geo:1,2"},
        ):
            with suppress(AssertionError):  # other homeservers take what Synapse refuses
                await ann.send(room, content)
        for content in ({}, {"m.relates_to": 1}, {"m.relates_to": {"rel_type": "m.annotation", "key": 4}}):
            with suppress(AssertionError):
                await ann.send(room, content, "m.reaction")
        await ann.send(room, {"ciphertext": 5}, "m.room.encrypted")
        await ann.say(room, "Odd", **{"m.relates_to": {"m.in_reply_to": [first]}})
        gone = await ann.say(room, "Gone")
        await ann.redact(room, gone)
        await ann.send(room, {"msgtype": "m.file", "body": "a.pdf", "url": "mxc://localhost/x"})
        quoted = {"m.relates_to": {"m.in_reply_to": {"event_id": first}}}
        await ann.say(room, f"> <{ann.id}> First\n\nLast", **quoted)
        texts = await desk.texts("Last")
    told = "(A file came with this, which cannot be read here: a.pdf)"
    assert [text for text in texts if text != "Gone"] == ["First", "Odd", told, "Last"]
    assert not any(isinstance(each, Judged) for each in desk.events)


async def test_what_was_not_accepted_comes_again_in_order_and_nothing_twice(
    connected: Connected, desk: Desk, ann: User, bot: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{MatrixPlatform.__module__}._PAGE", 10)
    async with connected():
        room = await ann.room(bot.id)
        await ann.say(room, "Begin")
        await desk.texts("Begin")
    sent = [f"Message {number}" for number in range(35)]
    for text in sent:
        await ann.say(room, text)
    desk.failures = [PlatformError("the disk is full")]
    with pytest.raises(ExceptionGroup):
        async with connected():
            await anyio.sleep(60)
    async with connected():
        assert await desk.texts(sent[-1]) == ["Begin", *sent]


async def test_of_a_room_it_reads_what_was_written_since_the_invitation(
    connected: Connected, desk: Desk, ann: User, bot: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{MatrixPlatform.__module__}._PAGE", 10)
    room = await ann.room()
    for number in range(15):
        await ann.say(room, f"Old {number}")
    await ann.call("POST", f"/rooms/{room}/invite", {"user_id": bot.id})
    new = [f"New {number}" for number in range(15)]
    for text in new:
        await ann.say(room, text)
    async with connected():
        assert await desk.texts(new[-1]) == new


async def test_a_room_of_two_is_direct_until_a_third_comes(
    connected: Connected, desk: Desk, synapse: Synapse, ann: User, bot: User
) -> None:
    bob = User(synapse, "bob")
    async with connected():
        room = await ann.room(bot.id, bob.id)
        await ann.say(room, "Two")
        await desk.texts("Two")
        await bob.join(room)
        await ann.say(room, "Three")
        await desk.texts("Three")
        await bob.call("POST", f"/rooms/{room}/leave")
        await ann.say(room, "Two again")
        await desk.texts("Two again")
    found = [(each.chat_type, each.addressed) for each in desk.events if isinstance(each, Inbound)]
    assert found == [("dm", True), ("group", False), ("dm", True)]


async def test_a_message_is_sent_once_however_often_with_its_files(
    connected: Connected, desk: Desk, ann: User, bot: User, tmp_path: Path
) -> None:
    picture, paper = tmp_path / "a b.png", tmp_path / "paper"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    paper.write_text("words")
    sent = []
    for _ in range(2):  # a new login each: the device stays the same
        async with connected() as connection:
            if not sent:
                room = await ann.room(bot.id)
                await ann.say(room, "Hello")
                await desk.texts("Hello")
            sent.append(await connection.send(Outbound("k", room, "", "**Look**", files=(picture, paper))))
            with pytest.raises(Undeliverable, match="a file cannot be read"):
                await connection.send(Outbound("l", room, "", "", files=(tmp_path / "none",)))
    found = await ann.hears(room, bot.id, 3)
    assert len(found) == 3
    assert sent == [found[0]["event_id"]] * 2
    contents = [event["content"] for event in found]
    assert [each["msgtype"] for each in contents] == ["m.text", "m.image", "m.file"]
    assert (contents[0]["body"], contents[0]["formatted_body"]) == ("**Look**", "<p><strong>Look</strong></p>")
    assert (contents[1]["body"], contents[1]["info"]) == ("a b.png", {"mimetype": "image/png", "size": 8})
    assert contents[2]["url"].startswith("mxc://localhost/")


async def test_texts_of_any_characters_fit_and_rooms_that_are_closed_are_undeliverable(
    connected: Connected, desk: Desk, ann: User, bot: User
) -> None:
    most = MatrixPlatform.limit.most
    async with connected() as connection:
        room = await ann.room(bot.id)
        await ann.say(room, "Hello")
        await desk.texts("Hello")
        for number, part in enumerate(("\n", '"', "\x01", "\x7f", "é", "\N{HUGGING FACE}", "&", "* a\n", "`a` ", "\r")):
            text = ("x" + part * most)[:most].encode()[:most].decode(errors="ignore")
            assert await connection.send(Outbound(f"k{number}", room, "", text))
        await ann.call("POST", f"/rooms/{room}/kick", {"user_id": bot.id})
        for chat in (room, "!none:localhost", "no room", "", "/\x00?"):
            with pytest.raises(Undeliverable, match="M_"):
                await connection.send(Outbound("k", chat, "", "Hi"))


async def test_an_encrypted_room_is_told_once_that_it_cannot_be_read(
    connected: Connected, desk: Desk, synapse: Synapse, ann: User, bot: User, caplog: pytest.LogCaptureFixture
) -> None:
    eve = User(synapse, "eve")
    secret = {
        "algorithm": "m.megolm.v1.aes-sha2",
        "ciphertext": "c",
        "session_id": "s",
        "sender_key": "k",
        "device_id": "d",
    }
    async with connected():
        room = await ann.room(bot.id, eve.id)
        await eve.join(room)
        await eve.send(room, secret, "m.room.encrypted")
        await ann.send(room, secret, "m.room.encrypted")
        await ann.send(room, secret, "m.room.encrypted")
        await ann.say(room, "In the clear")
        await desk.texts("In the clear")
    ((_, place, text),) = desk.posts
    assert place == SessionKey("matrix", room, chat_type="group")
    assert "encrypted" in text
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told == ["matrix: a room is encrypted, and its messages cannot be read"]
