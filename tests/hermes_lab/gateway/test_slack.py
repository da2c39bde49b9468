"""The agent on Slack, from a person's message to the reply."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from fakes.slack_api import APP_TOKEN, BOT, BOT_TOKEN, SlackApi
from slack_lab import OWNER, gateway, state, texts, until

from hermes_lab.gateway import daemon as daemon_module
from hermes_lab.gateway import outbox
from hermes_lab.gateway.access import approve
from hermes_lab.gateway.daemon import Gateway
from hermes_lab.gateway.platform import Inbound, Judged
from hermes_lab.gateway.platforms import slack, slack_socket
from hermes_lab.gateway.store import GatewayStore, Piece
from hermes_lab.sessions import SessionKey

DM = SessionKey("slack", "D1", chat_type="dm")


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SlackApi]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", BOT_TOKEN)
    monkeypatch.setenv("SLACK_APP_TOKEN", APP_TOKEN)
    for module in (daemon_module, outbox):
        monkeypatch.setattr(module, "_FIRST_SECONDS", 0.1)
    monkeypatch.setattr(slack, "_NAME_SECONDS", 60)
    async with SlackApi() as api:
        yield api


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Inbound | Judged]:
    """What the platform passes on."""
    passed: list[Inbound | Judged] = []
    accept = Gateway.accept

    async def spied(gateway: Gateway, platform: str, event: Inbound | Judged) -> None:
        passed.append(event)
        await accept(gateway, platform, event)

    monkeypatch.setattr(Gateway, "accept", spied)
    return passed


async def test_a_message_is_answered_and_its_event_acknowledged(tmp_path: Path, api: SlackApi) -> None:
    async with gateway(tmp_path, api):
        api.say(OWNER, "hello")
        await until(lambda: api.sent and api.idle)
    assert texts(api) == ["hello"]
    assert "thread_ts" not in api.sent[0]
    assert not api.sent[0]["unfurl_links"]
    assert not api.wrong


async def test_an_event_is_on_the_disk_before_it_is_acknowledged(
    tmp_path: Path, api: SlackApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, blocked = Gateway.accept, anyio.Event()

    async def slow(gateway: Gateway, platform: str, event: Any) -> None:
        await blocked.wait()
        await accept(gateway, platform, event)

    monkeypatch.setattr(Gateway, "accept", slow)
    api.ack_seconds = 0.1
    async with gateway(tmp_path, api):
        api.say(OWNER, "hello")
        await until(lambda: len(api.delivered) > 1)
        assert not api.acked
        blocked.set()
        await until(lambda: api.sent and api.acked)
    assert texts(api) == ["hello"]


async def test_an_event_that_comes_again_is_answered_once(tmp_path: Path, api: SlackApi) -> None:
    async with gateway(tmp_path, api):
        api.say(OWNER, "one")
        await until(lambda: api.sent)
        event = api.acked[0]
    api.emit(event)
    async with gateway(tmp_path, api):
        api.emit(event)
        api.say(OWNER, "two")
        await until(lambda: len(api.sent) > 1 and api.idle)
    assert texts(api) == ["one", "two"]


@pytest.mark.parametrize("mention_first", [True, False])
async def test_a_mention_that_is_two_events_is_answered_once_in_its_thread(
    tmp_path: Path, api: SlackApi, mention_first: bool
) -> None:
    api.mention_first = mention_first
    async with gateway(tmp_path, api):
        asked = api.say(OWNER, f"<@{BOT}>, hello", "C1")
        await until(lambda: api.sent)
        api.say(OWNER, "bye")
        await until(lambda: "bye" in texts(api) and api.idle)
    assert len(api.sent) == 2
    assert api.sent[0]["text"].endswith('name="Ann"&gt;hello&lt;/from&gt;')
    assert api.sent[0]["thread_ts"] == asked


async def test_a_thread_that_the_bot_is_in_needs_no_mention(
    tmp_path: Path, api: SlackApi, events: list[Inbound | Judged]
) -> None:
    async with gateway(tmp_path, api) as daemon:
        api.say(OWNER, "nothing to you", "C1")
        other = api.say("U2", "a thread", "C1")
        api.say(OWNER, "nothing to you", "C1", thread=other)
        asked = api.say(OWNER, f"<@{BOT}> one", "C1")
        api.say("U2", "not yet", "C1", thread=asked)
        api.say(OWNER, "two", "C1", thread=asked)
        await until(lambda: len(api.sent) == 2 and api.idle)
        api.say("U2", "three", "C1", thread=asked)
        await until(lambda: len(api.sent) == 3)
        await daemon.post("own", SessionKey("slack", "C2", chat_type="channel"), "news")
        await until(lambda: len(api.sent) == 4)
        api.say(OWNER, "thanks", "C2", thread=api.sent[3]["ts"])
        await until(lambda: len(api.sent) == 5)
    addressed = dict.fromkeys(event.text for event in events if isinstance(event, Inbound) and event.addressed)
    assert [*addressed] == ["one", "two", "three", "thanks"]
    assert [each.get("thread_ts") for each in api.sent] == [*[asked] * 3, None, api.sent[3]["ts"]]


async def test_a_thread_stays_the_bots_after_a_restart(tmp_path: Path, api: SlackApi) -> None:
    async with gateway(tmp_path, api):
        asked = api.say(OWNER, f"<@{BOT}> one", "C1")
        await until(lambda: api.sent and api.idle)
    async with gateway(tmp_path, api):
        api.say(OWNER, "two", "C1", thread=asked)
        await until(lambda: len(api.sent) == 2)


async def test_a_stranger_is_let_in_by_a_code_and_gets_no_answer_in_channels(tmp_path: Path, api: SlackApi) -> None:
    async with gateway(tmp_path, api):
        api.say("U9", f"<@{BOT}> hello", "C1", username="U1")
        api.say("U9", "hello", "D2")
        await until(lambda: api.sent and api.idle)
        platform, sender = approve(GatewayStore(tmp_path), texts(api)[0].split(" pair ")[1])
        assert (platform, sender.id, sender.name) == ("slack", "U9", "Eve")
        api.say("U9", "again", "D2")
        await until(lambda: len(api.sent) > 1)
    assert texts(api)[1:] == ["again"]
    assert {each["channel"] for each in api.sent} == {"D2"}


async def test_only_new_messages_of_people_are_turns(tmp_path: Path, api: SlackApi) -> None:
    async with gateway(tmp_path, api):
        asked = api.say(OWNER, f"<@{BOT}> one", "C1")
        await until(lambda: api.sent)
        api.edit("C1", asked, f"<@{BOT}> changed")
        api.say(BOT, f"<@{BOT}> by a token of the bot", "C1")
        api.say(OWNER, f"<@{BOT}> by an app", "C1", bot_id="B9")
        api.say(OWNER, f"<@{BOT}> has joined", "C1", subtype="channel_join")
        api.say("", f"<@{BOT}> by nobody", "C1")
        api.say("USLACKBOT", "reminder")
        api.emit({"type": "channel_created", "channel": {"id": "C3"}})
        api.emit({"type": "message", "user": OWNER, "text": "without a channel"})
        api.emit({"command": "/status"}, kind="slash_commands")
        api.say(OWNER, "last")
        await until(lambda: "last" in texts(api) and api.idle)
    assert len(api.sent) == 2


async def test_messages_are_answered_in_order(tmp_path: Path, api: SlackApi) -> None:
    async with gateway(tmp_path, api):
        for number in range(12):
            api.say(OWNER, f"{number}")
        await until(lambda: len(api.sent) == 12)
    assert texts(api) == [*map(str, range(12))]


async def test_a_command_begins_with_an_exclamation_mark_or_comes_after_a_mention(
    tmp_path: Path, api: SlackApi
) -> None:
    async with gateway(tmp_path, api):
        for text, channel in (("!status", "D1"), (" /status", "D1"), (f"<@{BOT}> /status", "C1")):
            api.say(OWNER, text, channel)
        await until(lambda: len(api.sent) == 3)
        api.say(OWNER, "!important: hello")
        await until(lambda: len(api.sent) == 4)
    assert all("session" in each for each in texts(api)[:3])
    assert texts(api)[3] == "!important: hello"


async def test_what_people_and_the_agent_write_is_what_is_seen(
    tmp_path: Path, api: SlackApi, events: list[Inbound | Judged]
) -> None:
    async with gateway(tmp_path, api):
        api.say(OWNER, "&lt;!channel&gt; &amp;lt; a &amp;&amp; b")
        await until(lambda: api.sent)
        api.say(
            OWNER, "ask <@U2> in <#C1|general>, <!here>: <https://a.b/?x=1&amp;y|this> <mailto:a@b.c|a@b.c> <@U404>"
        )
        api.say(OWNER, "", files=[{"mimetype": "image/png"}, {"mimetype": None}], subtype="file_share")
        await until(lambda: len(api.sent) == 3)
    assert texts(api)[0] == "&lt;!channel&gt; &amp;lt; a &amp;&amp; b"
    assert [event.text for event in events if isinstance(event, Inbound)] == [
        "<!channel> &lt; a && b",
        "ask @Bob in #general, @here: this (https://a.b/?x=1&y) a@b.c @U404",
        "[a picture: only text reaches you]\n[a file: only text reaches you]",
    ]


async def test_without_the_scope_for_names_there_are_none(tmp_path: Path, api: SlackApi) -> None:
    api.scopes.remove("users:read")
    async with gateway(tmp_path, api):
        api.say(OWNER, f"<@{BOT}> ask <@U2>", "C1")
        api.say(OWNER, "again")
        await until(lambda: len(api.sent) == 2)
    assert any("ask @U2" in text and "name=" not in text for text in texts(api))
    assert [given["user"] for method, given in api.calls if method == "users.info"] == [OWNER, "U2"]


async def test_thumbs_are_verdicts_on_the_bots_messages(
    tmp_path: Path, api: SlackApi, events: list[Inbound | Judged]
) -> None:
    async with gateway(tmp_path, api):
        asked = api.say(OWNER, "hello")
        await until(lambda: api.sent)
        sent = api.sent[0]["ts"]
        for reaction in ("+1", "thumbsdown::skin-tone-3", "eyes"):
            api.react(OWNER, "D1", sent, reaction)
        api.react(OWNER, "D1", sent, "thumbsdown::skin-tone-3", removed=True)
        api.react(OWNER, "D1", asked, "+1")
        api.react(BOT, "D1", sent, "+1")
        await until(lambda: api.idle)
    judged = [event for event in events if isinstance(event, Judged)]
    assert [(each.chat, each.message, each.sender.id, each.good) for each in judged] == [
        ("D1", sent, OWNER, good) for good in (True, False, None)
    ]
    assert len({each.update for each in judged}) == 3
    assert GatewayStore(tmp_path).turn_of("slack", "D1", sent)


async def test_a_long_message_comes_in_pieces_in_order(tmp_path: Path, api: SlackApi) -> None:
    text = "\n".join(f"{number} {'<&>' * 30}" for number in range(100))
    async with gateway(tmp_path, api) as daemon:
        await daemon.post("long", DM, text)
        await until(lambda: len(api.sent) == 3)
    assert "".join(texts(api)) == text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


async def test_files_are_attached_once(tmp_path: Path, api: SlackApi) -> None:
    for name in ("a.png", "b.txt", "empty.txt"):
        (tmp_path / name).write_bytes(b"" if name == "empty.txt" else name.encode())
    files = tuple(str(tmp_path / name) for name in ("a.png", "b.txt", "empty.txt", "none.txt"))
    api.faults["files.completeUploadExternal"].append("service_unavailable")
    async with gateway(tmp_path, api) as daemon:
        asked = api.say(OWNER, "hello")
        place = SessionKey("slack", "D1", asked, "dm")
        daemon._store.post("files", [Piece(place, "Look:", files=files)])
        daemon._outboxes["slack"].wake()
        await until(lambda: len(api.sent) == 3)
    assert [(each["name"], each["content"], each["thread_ts"]) for each in api.shared] == [
        ("a.png", b"a.png", asked),
        ("b.txt", b"b.txt", asked),
    ]
    assert sorted(texts(api)) == [
        "(empty.txt is not attached: it is empty)\n(none.txt is not attached: No such file or directory)",
        "Look:",
        "hello",
    ]


async def test_no_part_of_a_message_is_sent_twice(tmp_path: Path, api: SlackApi) -> None:
    (tmp_path / "a.txt").write_text("a")
    files = (str(tmp_path / "a.txt"), str(tmp_path / "none.txt"))
    api.faults["chat.postMessage"] += ["", "service_unavailable"]
    async with gateway(tmp_path, api) as daemon:
        daemon._store.post("files", [Piece(DM, "Look:", files=files)])
        daemon._outboxes["slack"].wake()
        await until(lambda: len(api.sent) == 2)
    assert texts(api) == ["Look:", "(none.txt is not attached: No such file or directory)"]
    assert len(api.shared) == 1


async def test_files_that_slack_refuses_are_named(tmp_path: Path, api: SlackApi) -> None:
    (tmp_path / "a.txt").write_text("a")
    api.scopes.remove("files:write")
    async with gateway(tmp_path, api) as daemon:
        daemon._store.post("files", [Piece(DM, "Look:", files=(str(tmp_path / "a.txt"),))])
        daemon._outboxes["slack"].wake()
        await until(lambda: len(api.sent) == 2)
    assert "lacks a scope files:write" in texts(api)[1]


async def test_a_rate_limit_is_waited_for(tmp_path: Path, api: SlackApi) -> None:
    api.flood = True
    async with gateway(tmp_path, api):
        api.say(OWNER, "one")
        api.say(OWNER, "two")
        await until(lambda: len(api.sent) == 2)
    assert texts(api) == ["one", "two"]
    assert len([method for method, _ in api.calls if method == "chat.postMessage"]) == 3


async def test_what_can_never_be_sent_holds_up_nothing(tmp_path: Path, api: SlackApi) -> None:
    api.faults["chat.postMessage"].append("channel_not_found")
    async with gateway(tmp_path, api) as daemon:
        await daemon.post("lost", DM, "lost")
        await daemon.post("next", DM, "next")
        await until(lambda: GatewayStore(tmp_path).counts()["outbox"].get("dead"))
        await until(lambda: api.sent)
    assert texts(api) == ["next"]


@pytest.mark.parametrize("fault", ["cut after", "hang"])
async def test_a_reply_that_may_have_arrived_says_that_it_comes_again(
    tmp_path: Path, api: SlackApi, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(slack, "_CALL_SECONDS", 2)
    api.faults["chat.postMessage"].append(fault)
    async with gateway(tmp_path, api):
        api.say(OWNER, "one")
        await until(lambda: texts(api)[-1:] == ["one\n(sent again: an earlier attempt may have arrived)"])
    assert len(api.sent) == (2 if fault == "cut after" else 1)


@pytest.mark.parametrize("fault", ["service_unavailable", "token_revoked"])
async def test_a_reply_that_slack_did_not_take_is_sent_as_it_is(tmp_path: Path, api: SlackApi, fault: str) -> None:
    api.faults["chat.postMessage"].append(fault)
    async with gateway(tmp_path, api):
        api.say(OWNER, "one")
        await until(lambda: api.sent)
    assert texts(api) == ["one"]


@pytest.mark.parametrize(("variable", "token"), [("SLACK_BOT_TOKEN", BOT_TOKEN), ("SLACK_APP_TOKEN", APP_TOKEN)])
async def test_a_token_that_slack_refuses_is_named(tmp_path: Path, api: SlackApi, variable: str, token: str) -> None:
    api.tokens[token] = "invalid_auth"
    async with gateway(tmp_path, api) as daemon:
        await until(lambda: state(daemon) == f"down: Slack refuses the token in {variable}: invalid_auth")


async def test_the_token_of_a_person_is_refused(tmp_path: Path, api: SlackApi) -> None:
    api.bot_id = ""
    async with gateway(tmp_path, api) as daemon:
        await until(lambda: state(daemon) == "down: SLACK_BOT_TOKEN is not a bot's token (xoxb-...)")


async def test_a_missing_token_and_a_missing_package_are_named(
    tmp_path: Path, api: SlackApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_APP_TOKEN", "")
    async with gateway(tmp_path, api) as daemon:
        await until(lambda: state(daemon).startswith("down: SLACK_APP_TOKEN is not set"))
    monkeypatch.setenv("SLACK_APP_TOKEN", APP_TOKEN)
    monkeypatch.setitem(__import__("sys").modules, "slack_sdk.web.async_client", None)
    async with gateway(tmp_path, api) as daemon:
        await until(lambda: state(daemon).endswith("pip install 'hermes-lab[slack]'"))


async def test_without_a_server_it_is_down(tmp_path: Path, api: SlackApi) -> None:
    api.url = "http://127.0.0.1:9/api/"
    async with gateway(tmp_path, api) as daemon:
        await until(lambda: state(daemon).startswith("down: Slack cannot be reached"))


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
async def test_a_connection_is_replaced_before_it_ends(tmp_path: Path, api: SlackApi, reason: str) -> None:
    async with gateway(tmp_path, api) as daemon:
        await until(lambda: api.sockets)
        (old,) = api.sockets
        api.disconnect(reason, after=None)
        await until(lambda: len(api.sockets) == 2)
        for number in range(4):  # on both
            api.say(OWNER, f"{number}")
        await until(lambda: len(api.sent) == 4 and api.idle)
        await old.close()
        await until(lambda: len(api.sockets) == 1)
        api.say(OWNER, "last")
        await until(lambda: len(api.sent) == 5)
        assert state(daemon) == "up: "
    assert sorted(texts(api)) == ["0", "1", "2", "3", "last"]


async def test_it_connects_again_after_its_connection_ended(tmp_path: Path, api: SlackApi) -> None:
    async with gateway(tmp_path, api) as daemon:
        await until(lambda: api.sockets)
        await api.sockets[0].close()
        await until(lambda: state(daemon) == "down: Slack closed the connection")
        api.say(OWNER, "one")
        await until(lambda: api.sent)
    assert texts(api) == ["one"]


async def test_socket_mode_that_is_switched_off_is_named(tmp_path: Path, api: SlackApi) -> None:
    async with gateway(tmp_path, api) as daemon:
        await until(lambda: api.sockets)
        api.disconnect("link_disabled")
        await until(lambda: state(daemon) == "down: Socket Mode is switched off in the app's settings")


async def test_a_slack_that_says_nothing_is_noticed(
    tmp_path: Path, api: SlackApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_socket, "_HELLO_SECONDS", 0.1)
    api.deaf = True
    async with gateway(tmp_path, api) as daemon:
        await until(lambda: state(daemon) == "down: Slack did not say hello")
        api.deaf = False
        api.say(OWNER, "one")
        await until(lambda: api.sent)


async def test_a_connection_that_answers_no_ping_is_noticed(
    tmp_path: Path, api: SlackApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_socket, "_PING_SECONDS", 0.2)
    api.mute = True
    async with gateway(tmp_path, api) as daemon:
        await until(lambda: state(daemon) == "down: Slack closed the connection")


async def test_no_token_id_name_or_text_is_in_the_logs(
    tmp_path: Path, api: SlackApi, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.NOTSET, "slack_sdk")
    api.channels["D4711"] = {"is_im": True}
    api.users["U4711"] = "Annabel"
    api.faults["chat.postMessage"] += ["channel_not_found", "cut after", "html"]
    async with gateway(tmp_path, api) as daemon:
        for user in ("U4711", OWNER):
            api.say(user, "Confidential", "D4711")
        api.say(OWNER, "Confidential", "D1")
        await until(lambda: len(api.sent) > 1 and api.idle)
        await api.sockets[0].close()
        await until(lambda: state(daemon).startswith("down"))
    log = "\n".join(f"{record.getMessage()} {record.exc_text}" for record in caplog.records)
    assert "slack is down" in log
    secrets = ("xoxb", "xapp", "doubleofslack", "ticket", "Confidential", "D4711", "U4711", "Annabel", OWNER)
    assert [secret for secret in secrets if secret in log] == []
