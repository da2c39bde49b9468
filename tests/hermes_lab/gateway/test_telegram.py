"""The agent on Telegram, from a person's message to the reply."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fakes.telegram_api import TOKEN, TelegramApi
from telegram_lab import OWNER, gateway, state, status, texts, until

from hermes_lab.commands.registry import Registry
from hermes_lab.gateway.access import approve
from hermes_lab.gateway.store import GatewayStore
from hermes_lab.records import read_episodes
from hermes_lab.sessions import SessionKey, SessionStore


@pytest.fixture
async def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TelegramApi]:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    for waits in ("daemon.HEARTBEAT", "daemon._FIRST", "outbox._FIRST", "platforms.telegram._PAUSE"):
        monkeypatch.setattr(f"hermes_lab.gateway.{waits}_SECONDS", 0.05)
    async with TelegramApi() as api:
        yield api


async def test_a_message_is_answered(tmp_path: Path, api: TelegramApi) -> None:
    async with gateway(tmp_path, api):
        api.say(OWNER, "hello")
        await until(lambda: api.sent)
    assert texts(api) == ["hello"]
    assert "reply_to_message" not in api.sent[0]


async def test_a_stranger_is_let_in_by_a_code(tmp_path: Path, api: TelegramApi) -> None:
    async with gateway(tmp_path, api):
        api.say(8, "one", name="Bob")
        await until(lambda: api.sent)
        _, code = texts(api)[0].split(" pair ")
        platform, sender = approve(GatewayStore(tmp_path), code)
        assert (platform, sender.id, sender.name) == ("telegram", "8", "Bob")
        api.say(8, "two", name="Bob")
        await until(lambda: len(api.sent) > 1)
    assert texts(api)[1:] == ["two"]


async def test_a_group_gets_answers_in_its_topics_to_those_who_may_write(tmp_path: Path, api: TelegramApi) -> None:
    group = api.group(is_forum=True)
    topic = api.topic(group)
    async with gateway(tmp_path, api):
        api.say(8, "@hermes_lab_bot let me in", group)
        api.say(OWNER, "not for the bot", group)
        api.say(OWNER, "@hermes_lab_bot two", group, thread=topic)
        asked = len(api.messages[group])
        await until(lambda: api.sent)
    (sent,) = api.sent
    assert sent["text"].endswith('name="Ann">two</from>')
    assert (sent["message_thread_id"], sent["reply_to_message"]["message_id"]) == (topic, asked)


async def test_messages_of_the_time_before_the_start_are_answered(tmp_path: Path, api: TelegramApi) -> None:
    api.say(OWNER, "early")
    async with gateway(tmp_path, api):
        await until(lambda: api.sent)
    assert texts(api) == ["early"]


async def test_updates_that_come_twice_or_in_another_order_are_answered_once_and_in_order(
    tmp_path: Path, api: TelegramApi
) -> None:
    api.rates = {"duplicate": 1, "reorder": 1}
    for number in range(10):
        api.say(OWNER, f"{number}")
    async with gateway(tmp_path, api):
        await until(lambda: len(api.sent) >= 10)
        api.repeat(api.history[0]["update_id"])
        api.say(OWNER, "last")
        await until(lambda: "last" in texts(api))
    assert texts(api) == [*map(str, range(10)), "last"]


async def test_what_was_answered_is_not_answered_again_after_a_restart(tmp_path: Path, api: TelegramApi) -> None:
    async with gateway(tmp_path, api):
        first = api.say(OWNER, "one")
        await until(lambda: api.sent and not api.waiting)
    api.repeat(first)
    async with gateway(tmp_path, api):
        api.say(OWNER, "two")
        await until(lambda: len(api.sent) > 1 and not api.waiting)
    assert texts(api) == ["one", "two"]


async def test_ids_of_updates_may_begin_anew(tmp_path: Path, api: TelegramApi) -> None:
    async with gateway(tmp_path, api):
        api.say(OWNER, "one")
        await until(lambda: api.sent and not api.waiting)
        api.next_update = 1000
        api.say(OWNER, "two")
        await until(lambda: len(api.sent) > 1 and not api.waiting)
    assert texts(api) == ["one", "two"]


async def test_a_long_message_comes_in_pieces_in_order(tmp_path: Path, api: TelegramApi) -> None:
    group = api.group()
    text = "\n".join(f"{number} {'😀' * 100}" for number in range(50))
    async with gateway(tmp_path, api) as daemon:
        await daemon.post("long", SessionKey("telegram", str(group), "", "group"), text)
        await until(lambda: "".join(texts(api)) == text)
    assert len(api.sent) == 3


async def test_a_rate_limit_is_waited_for(tmp_path: Path, api: TelegramApi) -> None:
    api.flood = True
    async with gateway(tmp_path, api):
        api.say(OWNER, "one")
        api.say(OWNER, "two")
        await until(lambda: len(api.sent) == 2)
        assert texts(api) == ["one", "two"]
        assert len([method for method, _ in api.calls if method == "sendmessage"]) == 3


async def test_who_has_blocked_the_bot_holds_up_nobody(tmp_path: Path, api: TelegramApi) -> None:
    api.say(8, "hello")
    async with gateway(tmp_path, api) as daemon:
        await until(lambda: api.sent)
        api.shut(8)
        await daemon.post("to 8", SessionKey("telegram", "8", "", "dm"), "lost")
        api.say(OWNER, "one")
        await until(lambda: "one" in texts(api))
        await until(lambda: status(tmp_path)["outbox"].get("dead"))
    assert "lost" not in texts(api)


async def test_a_reply_that_was_cut_off_says_that_it_comes_again(tmp_path: Path, api: TelegramApi) -> None:
    api.faults["sendmessage"] += ["cut after"]
    async with gateway(tmp_path, api):
        api.say(OWNER, "one")
        await until(lambda: len(api.sent) == 2)
    assert texts(api) == ["one", "one\n(sent again: an earlier attempt may have arrived)"]


async def test_a_reply_that_telegram_did_not_take_is_sent_as_it_is(tmp_path: Path, api: TelegramApi) -> None:
    api.faults["sendmessage"] += ["502"]
    async with gateway(tmp_path, api):
        api.say(OWNER, "one")
        await until(lambda: api.sent)
    assert texts(api) == ["one"]


async def test_it_connects_again_after_a_failure(tmp_path: Path, api: TelegramApi) -> None:
    api.faults["getupdates"] += ["cut", "502", "cut"]
    async with gateway(tmp_path, api):
        await until(lambda: [method for method, _ in api.calls].count("getme") == 2)
        api.say(OWNER, "one")
        await until(lambda: api.sent)
    assert texts(api) == ["one"]


async def test_one_failure_of_a_poll_is_no_disconnection(tmp_path: Path, api: TelegramApi) -> None:
    api.say(OWNER, "one")
    api.faults["getupdates"] += ["502"]
    async with gateway(tmp_path, api):
        await until(lambda: api.sent)
    assert [method for method, _ in api.calls].count("getme") == 1


async def test_it_goes_on_when_telegram_is_there_again(tmp_path: Path, api: TelegramApi) -> None:
    async with gateway(tmp_path, api) as daemon:
        await until(lambda: state(tmp_path) == "up: ")
        await api.__aexit__()
        await daemon.post("early", SessionKey("telegram", str(OWNER), "", "dm"), "to be sent later")
        await until(lambda: state(tmp_path).startswith("down: "))
        api.say(OWNER, "one")
        await api.__aenter__()
        await until(lambda: len(api.sent) == 2)
    assert sorted(texts(api)) == ["one", "to be sent later"]


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("", "TELEGRAM_BOT_TOKEN is not set: give the token that @BotFather gave you for the bot"),
        (TOKEN[:-1] + "x", "Telegram does not know the token in TELEGRAM_BOT_TOKEN; @BotFather gives a new one"),
        ("nonsense", "Telegram does not know the token in TELEGRAM_BOT_TOKEN; @BotFather gives a new one"),
    ],
)
async def test_without_a_right_token_telegram_is_down_and_http_is_up(
    tmp_path: Path, api: TelegramApi, monkeypatch: pytest.MonkeyPatch, token: str, why: str
) -> None:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", token)
    monkeypatch.setenv("HERMES_HTTP_KEY", "key")
    async with gateway(tmp_path, api, "telegram", "http"):
        await until(lambda: state(tmp_path) == f"down: {why}")
        await until(lambda: state(tmp_path, "http") == "up: ")


async def test_another_process_that_polls_the_bot_is_named(tmp_path: Path, api: TelegramApi) -> None:
    async with gateway(tmp_path / "one", api):
        await until(lambda: state(tmp_path / "one") == "up: ")
        async with gateway(tmp_path / "two", api):
            await until(lambda: state(tmp_path / "one").startswith("down: another process polls this bot"))


async def test_the_menu_has_every_command(tmp_path: Path, api: TelegramApi) -> None:
    async with gateway(tmp_path, api):
        await until(lambda: api.commands)
        named = {each.name.replace("-", "_"): each.summary for each in Registry("gateway").commands}
        assert {each["command"]: each["description"] for each in api.commands} == named
        api.say(OWNER, "/reload_mcp")
        await until(lambda: api.sent)
    assert "no command" not in texts(api)[0]


async def test_start_is_answered_with_help(tmp_path: Path, api: TelegramApi) -> None:
    async with gateway(tmp_path, api):
        api.say(OWNER, "/help")
        api.say(OWNER, "/start")
        api.say(OWNER, "/start from_a_link")
        await until(lambda: len(api.sent) == 3)
    assert "/new" in texts(api)[0]
    assert len(set(texts(api))) == 1


async def test_edits_and_what_bots_write_are_no_turns(tmp_path: Path, api: TelegramApi) -> None:
    bot = {"id": OWNER, "is_bot": True, "first_name": "Other"}
    async with gateway(tmp_path, api):
        api.say(OWNER, "one")
        await until(lambda: api.sent)
        api.edit(OWNER, 1, "one, edited")
        api.say(OWNER, "from a bot", **{"from": bot})
        api.say(OWNER, "two")
        await until(lambda: len(api.sent) > 1)
    assert texts(api) == ["one", "two"]


async def test_a_group_that_becomes_a_supergroup_keeps_its_session(tmp_path: Path, api: TelegramApi) -> None:
    group = api.group(-5, kind="group")
    async with gateway(tmp_path, api):
        api.say(OWNER, "@hermes_lab_bot one", group)
        await until(lambda: api.sent)
        api.migrate(group, -1005)
        api.say(OWNER, "@hermes_lab_bot two", -1005)
        await until(lambda: len(api.sent) > 1)
    (session,) = SessionStore(tmp_path / "sessions.db").latest(10)
    assert session.key == "telegram:group:-5"
    assert [message["chat"]["id"] for message in api.sent] == [-5, -1005]


async def test_the_token_and_what_was_said_are_in_no_log(
    tmp_path: Path, api: TelegramApi, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore", "telegram", "telegram.Bot", "telegram.request"):
        caplog.set_level(logging.DEBUG, name)
    api.faults["getupdates"] += ["502"]
    api.faults["sendmessage"] += ["cut after"]
    async with gateway(tmp_path, api):
        api.say(OWNER, "a private matter")
        await until(lambda: len(api.sent) == 2)
        api.token = "1:other"
        api.say(OWNER, "another one")
        await until(lambda: "does not know the token" in state(tmp_path))
    assert "does not know the token" in caplog.text
    assert TOKEN.partition(":")[2] not in caplog.text
    assert "private" not in caplog.text


async def test_a_thumb_is_the_verdict_on_the_turn_of_its_message(tmp_path: Path, api: TelegramApi) -> None:
    async with gateway(tmp_path, api):
        api.say(OWNER, "one")
        await until(lambda: status(tmp_path).get("outbox") == {"sent": 1})
        api.react(OWNER, api.sent[0]["message_id"], "👍")
        await until(lambda: [each.success for each in read_episodes(tmp_path / "chats")] == [True])
