"""Telegram alone: what its updates mean, and what becomes of a message."""

import struct
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fakes.telegram_api import TOKEN, TelegramApi
from telegram_lab import Facts, connected, heard

from hermes_lab.gateway.platform import (
    Inbound,
    Judged,
    Outbound,
    PlatformError,
    Refused,
    Sender,
    TryLater,
    Undeliverable,
    Unsure,
)

ANN = Sender("7", "Ann")


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TelegramApi]:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    async with TelegramApi() as api:
        api.say(7, "hello")
        api._updates.clear()
        yield api


def png(width: int = 8, height: int = 8) -> bytes:
    """A picture in one shade."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + b"\x80" * width) * height)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


async def said(api: TelegramApi, facts: Facts | None = None) -> list[Inbound]:
    return [event for event in await heard(api, facts) if isinstance(event, Inbound)]


async def test_an_event_has_the_ids_of_telegram(api: TelegramApi) -> None:
    update = api.say(7, "hello")
    assert await heard(api) == [Inbound(update=str(update), chat="7", sender=ANN, text="hello", message="2")]


async def test_in_a_group_those_address_the_bot_who_name_it_answer_it_or_give_it_a_command(api: TelegramApi) -> None:
    group = api.group()
    async with connected(api) as bot:
        sent = int(await bot.send(Outbound("k", str(group), "", "hi")))
    first = len(api.messages[group]) + 1
    for text in ("good morning", "😀 @Hermes_Lab_Bot look", "/new", "/new@hermes_lab_bot", "@hermes_lab_botany no"):
        api.say(7, text, group)
    api.say(7, "and then?", group, reply=sent)
    api.say(7, "no, she meant you", group, reply=first)
    api.say(7, "/new@other_bot", group)
    found = await said(api)
    assert [(each.text, each.addressed) for each in found] == [
        ("good morning", False),
        ("😀 look", True),
        ("/new", True),
        ("/new", True),
        ("@hermes_lab_botany no", False),
        ("and then?", True),
        ("> good morning\n\nno, she meant you", False),
    ]
    assert {(each.chat, each.chat_type, each.thread) for each in found} == {(str(group), "group", "")}


async def test_topics_are_threads_and_chains_of_replies_are_none(api: TelegramApi) -> None:
    group = api.group(is_forum=True)
    topic = api.topic(group)
    api.say(7, "in a topic", group, thread=topic)
    api.say(7, "in a chain", group, message_thread_id=99)
    assert [(each.thread, each.text) for each in await said(api)] == [(str(topic), "in a topic"), ("", "in a chain")]


async def test_files_that_people_send_are_named_and_an_album_counts_once(api: TelegramApi) -> None:
    photo = [{"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1}]
    api.say(7, caption="look", photo=photo)
    api.say(7, photo=photo, media_group_id="1")
    api.say(7, photo=photo, media_group_id="1")
    api.say(7, new_chat_title="title")
    assert [each.text for each in await said(api)] == [
        "look\n[a photo: only text reaches you]",
        "[a photo: only text reaches you]",
    ]


async def test_who_writes_in_the_name_of_a_chat_has_its_id(api: TelegramApi) -> None:
    group = api.group()
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
    api.say(7, "as the group", group, sender_chat={"id": group, "type": "supergroup"}, **{"from": anonymous})
    assert [each.sender.id for each in await said(api)] == [str(group)]


async def test_an_update_that_cannot_be_read_holds_up_none(api: TelegramApi, caplog: pytest.LogCaptureFixture) -> None:
    del api._updates[api.say(7, "private words")]["message"]["message_id"]
    api._updates[api.say(7, "private words")]["message"]["chat"] = {"id": 7, "type": "unheard of"}
    api.say(7, "two")
    assert [each.text for each in await said(api)] == ["two"]
    assert "private" not in caplog.text
    assert caplog.text.count("an update cannot be read") == 1


async def test_thumbs_are_verdicts_and_other_reactions_are_none(api: TelegramApi) -> None:
    await heard(api)  # from now on reactions come
    for before, now in (((), ("👍",)), (("👍",), ("👎",)), (("👎",), ("🎉",)), (("🎉",), ())):
        api.react(7, 1, *now, before=before)
    found = [event for event in await heard(api) if isinstance(event, Judged)]
    assert [each.good for each in found] == [True, False, None]
    assert found[0]._replace(update="") == Judged("", "7", "", ANN, "1", True)


async def test_a_supergroup_has_the_id_of_the_group_that_it_was_for_all_time(api: TelegramApi) -> None:
    facts = Facts()
    api.group(-5, kind="group")
    api.migrate(-5, -1005, told=False)
    async with connected(api, facts) as bot:
        await bot.send(Outbound("k", "-5", "", "hi", reply_to="1"))
    assert api.sent[0]["chat"]["id"] == -1005
    assert "reply_to_message" not in api.sent[0]
    api.say(7, "one", -1005)
    assert [each.chat for each in await said(api, facts)] == ["-5"]
    refused = len(api.calls)
    async with connected(api, facts) as bot:
        await bot.send(Outbound("k", "-5", "", "hi"))
    assert [method for method, _ in api.calls[refused:]].count("sendmessage") == 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("502", PlatformError), ("429", TryLater), ("cut", Unsure), ("cut after", Unsure)],
)
async def test_a_failure_says_whether_the_message_may_have_arrived(
    api: TelegramApi, fault: str, kind: type[Exception]
) -> None:
    api.faults["sendmessage"] += [fault]
    async with connected(api) as bot:
        with pytest.raises(PlatformError) as raised:
            await bot.send(Outbound("k", "7", "", "hi"))
        assert type(raised.value) is kind
        assert TOKEN not in str(raised.value)


async def test_no_answer_in_time_may_have_arrived(api: TelegramApi) -> None:
    api.faults["sendmessage"] += ["hang"]
    async with connected(api) as bot:
        bot._bot.request._client.timeout = 0.2  # type: ignore[attr-defined] - as if 15 s had passed
        with pytest.raises(Unsure):
            await bot.send(Outbound("k", "7", "", "hi"))


async def test_a_connection_that_is_refused_has_brought_nothing(api: TelegramApi) -> None:
    async with connected(api) as bot:
        await api.__aexit__()
        with pytest.raises(PlatformError) as raised:
            await bot.send(Outbound("k", "7", "", "hi"))
        assert type(raised.value) is PlatformError
    await api.__aenter__()


@pytest.mark.parametrize(
    "message",
    [
        Outbound("k", "99", "", "a chat that the bot does not know"),
        Outbound("k", "nobody", "", "no id"),
        Outbound("k", "-1001", "99", "a thread that does not exist"),
        Outbound("k", "7", "", " \n"),
        Outbound("k", "7", "", "😀" * 2049),
        Outbound("k", "8", "", "blocked"),
    ],
)
async def test_what_can_never_be_sent_is_undeliverable(api: TelegramApi, message: Outbound) -> None:
    api.group(is_forum=True)
    api.say(8)
    api.shut(8)
    async with connected(api) as bot:
        with pytest.raises(Undeliverable):
            await bot.send(message)


async def test_pictures_are_sent_as_photos_and_other_files_as_documents(api: TelegramApi, tmp_path: Path) -> None:
    contents = {"a.png": png(), "wide.png": png(900, 2), "fake.jpg": b"text", "b.csv": b"1,2", "empty.txt": b""}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    files = [tmp_path / name for name in (*contents, "gone.txt")]
    async with connected(api) as bot:
        first = await bot.send(Outbound("k", "7", "", "See these.", files=files))
    assert first == str(api.sent[0]["message_id"])
    shown = [each.get("text") or ("photo" if "photo" in each else each["document"]["file_name"]) for each in api.sent]
    assert shown == [
        "See these.",
        "photo",
        "wide.png",
        "fake.jpg",
        "b.csv",
        "(empty.txt is empty)",
        "(gone.txt was to be attached: No such file or directory)",
    ]


async def test_files_that_were_sent_are_not_sent_again(api: TelegramApi, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"1")
    message = Outbound("k", "7", "", "text", files=[tmp_path / "a.csv"])
    api.faults["senddocument"] += ["502"]
    async with connected(api) as bot:
        with pytest.raises(PlatformError):
            await bot.send(message)
        await bot.send(message._replace(text="text, marked"))
    assert [each.get("text", "file") for each in api.sent] == ["text", "file"]


async def test_markdown_is_sent_as_it_is(api: TelegramApi) -> None:
    async with connected(api) as bot:
        await bot.send(Outbound("k", "7", "", "*a_ <b>[x](y) `"))
    assert api.sent[0]["text"] == "*a_ <b>[x](y) `"
    assert "parse_mode" not in api.calls[-1][1]


async def test_an_answer_to_a_message_that_is_gone_is_sent(api: TelegramApi) -> None:
    group = api.group()
    async with connected(api) as bot:
        await bot.send(Outbound("k", str(group), "", "hi", reply_to="99"))
    assert api.sent[0]["text"] == "hi"


async def test_a_token_that_is_taken_back_is_refused(api: TelegramApi) -> None:
    async with connected(api) as bot:
        api.token = "1:other"
        with pytest.raises(Refused) as raised:
            await bot.send(Outbound("k", "7", "", "hi"))
    assert TOKEN not in str(raised.value)


async def test_a_missing_package_is_named(api: TelegramApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "telegram", None)
    with pytest.raises(Refused, match=r"pip install 'hermes-lab\[telegram\]'"):
        async with connected(api):
            pass
