"""The gateway on Discord: who is answered, where, and how it goes on after a disconnection or a restart."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from fakes.discord_api import DiscordApi
from fakes.discord_world import ANN, BOT, BOT_ROLE, CHANNEL, EVE, OTHER_BOT, TOKEN
from fakes.wire import Start

from hermes_lab.config.gateway import DiscordConfig
from hermes_lab.gateway.platforms.discord import DiscordPlatform
from hermes_lab.gateway.store import GatewayStore
from hermes_lab.sessions import SessionKey, SessionStore

ALLOW = f"['{ANN}', '{OTHER_BOT}', '{BOT}']"
AT = f"<@{BOT}>"
SETTLED = 0.3


async def test_each_direct_message_is_answered_once_and_in_order(
    start: Start, discord: DiscordApi, discord_platform: DiscordPlatform, home: Path
) -> None:
    async with start(discord_platform, allow=ALLOW):
        await discord.connected()
        for number in range(5):
            message = await discord.say(ANN, f"Message {number}")
            await discord.again(message)
        assert await discord.replies(5) == [f"Message {number}" for number in range(5)]
        await discord.edit(message, "Message 4, changed")
        await discord.again(message)
        await anyio.sleep(SETTLED)
        assert len(discord.sent()) == 5
        await discord.say(ANN, "!status")
        assert "turns" in (await discord.replies(6))[5]
        assert "message_reference" not in discord.sent()[0]
    (session,) = SessionStore(home / "sessions.db").latest(key=SessionKey("discord", ANN, chat_type="dm"))
    assert session.length == 11


async def test_bots_webhooks_and_events_of_the_channel_start_no_turn(
    start: Start, discord: DiscordApi, discord_platform: DiscordPlatform, home: Path
) -> None:
    async with start(discord_platform, allow=ALLOW):
        await discord.connected()
        await discord.say(OTHER_BOT, "I am a bot")
        await discord.say(OTHER_BOT, f"{AT} I am a bot", CHANNEL)
        await discord.say(BOT, "I am myself", discord.dm(ANN))
        await discord.say(ANN, f"{AT} by a webhook", CHANNEL, webhook_id="77")
        await discord.say(ANN, f"{AT} joined", CHANNEL, type=7)
        await discord.say(ANN, "Hello")
        await discord.replies(2)
        await anyio.sleep(SETTLED)
        assert [each["content"] for each in discord.sent()] == ["I am myself", "Hello"]
    assert GatewayStore(home).counts()["inbox"] == {"done": 1}


async def test_in_a_guild_only_what_is_meant_for_the_bot_counts(
    start: Start, discord: DiscordApi, discord_platform: DiscordPlatform
) -> None:
    async with start(discord_platform, allow=ALLOW):
        await discord.connected()
        await discord.say(ANN, "Not meant", CHANNEL)
        await discord.say(ANN, "@everyone not meant", CHANNEL)
        await discord.say(ANN, "!status", CHANNEL)
        await discord.say(EVE, f"{AT} a stranger", CHANNEL)
        await discord.say(ANN, f"{AT} One", CHANNEL)
        (one,) = await discord.replies(1, CHANNEL)
        assert one.endswith('name="Ann">One</from>')
        assert ANN not in one
        await discord.say(ANN, "Two", CHANNEL, to=discord.sent(CHANNEL)[0])
        await discord.say(ANN, f"<@&{BOT_ROLE}>, Three", CHANNEL)
        texts = await discord.replies(3, CHANNEL)
        assert [text.partition('">')[2] for text in texts[1:]] == ["Two</from>", "Three</from>"]
        await discord.say(ANN, f"{AT} /status", CHANNEL)
        texts = await discord.replies(4, CHANNEL)
        assert "turns" in texts[3]
        first = discord.sent(CHANNEL)[0]
        assert first["message_reference"]["message_id"] == discord.messages[4]["id"]
        assert first["mentions"] == []


async def test_a_thread_has_a_key_of_its_own_and_the_bot_answers_where_it_takes_part(
    start: Start, discord: DiscordApi, discord_platform: DiscordPlatform, home: Path
) -> None:
    mine, other = discord.thread(joined=True), discord.thread()
    async with start(discord_platform, allow=ALLOW):
        await discord.connected()
        await discord.say(ANN, "In mine", mine)
        await discord.say(ANN, "In another", other)
        await discord.replies(1, mine)
        await discord.say(ANN, f"{AT} come in", other)
        await discord.replies(1, other)
        await discord.say(ANN, "Now you are in", other)
        texts = await discord.replies(2, other)
        assert "Now you are in" in texts[1]
        assert len(discord.sent(mine)) == 1
        assert not discord.sent(CHANNEL)
    sessions = SessionStore(home / "sessions.db")
    for thread, length in ((mine, 3), (other, 5)):
        (session,) = sessions.latest(key=SessionKey("discord", CHANNEL, thread, "thread"))
        assert session.length == length


async def test_a_stranger_gets_a_code_by_direct_message_only(
    start: Start, discord: DiscordApi, discord_platform: DiscordPlatform
) -> None:
    async with start(discord_platform, allow=ALLOW):
        await discord.connected()
        await discord.say(EVE, "Let me in")
        (told,) = await discord.replies(1, discord.dm(EVE))
        assert "hermes-lab gateway pair" in told
        assert not discord.sent(CHANNEL)


async def reconnect(discord: DiscordApi) -> None:
    await discord.gateway.control(7)


async def cut(discord: DiscordApi) -> None:
    discord.gateway.abort()


async def close(discord: DiscordApi) -> None:
    await discord.gateway.close(1001)


async def hang(discord: DiscordApi) -> None:
    discord.gateway.silent = True


@pytest.mark.parametrize("ends", [reconnect, cut, close, hang])
async def test_after_a_disconnection_the_session_goes_on_with_what_was_missed(
    start: Start, discord: DiscordApi, discord_platform: DiscordPlatform, ends: Callable[[DiscordApi], Awaitable[None]]
) -> None:
    discord.gateway.heartbeat_seconds = 0.3 if ends is hang else 5
    async with start(discord_platform, allow=ALLOW):
        await discord.connected()
        await discord.say(ANN, "Before")
        await discord.replies(1)
        await ends(discord)
        with anyio.fail_after(60):
            while discord.gateway.sockets:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        discord.gateway.silent = False
        await discord.say(ANN, "Meanwhile")
        await discord.connected(resumes=1)
        await discord.say(ANN, "After")
        assert await discord.replies(3) == ["Before", "Meanwhile", "After"]
        assert len(discord.gateway.sessions) == 1
        assert not [path for method, path in discord.requests if method == "GET" and "messages" in path]


@pytest.mark.parametrize("code", [0, 4007])
async def test_when_the_session_is_over_what_was_missed_is_read_from_the_history(
    start: Start, discord: DiscordApi, discord_platform: DiscordPlatform, code: int
) -> None:
    async with start(discord_platform, allow=ALLOW):
        await discord.connected()
        await discord.say(ANN, "Before")
        await discord.say(ANN, f"{AT} here", CHANNEL)
        await discord.replies(2)
        await (discord.gateway.close(code) if code else discord.gateway.control(9, False))
        await discord.say(ANN, "Meanwhile")
        await discord.say(ANN, "not meant", CHANNEL)
        await discord.connected(sessions=2)
        await discord.say(ANN, "After")
        assert await discord.replies(3, discord.dm(ANN)) == ["Before", "Meanwhile", "After"]
        assert len(discord.sent(CHANNEL)) == 1


async def test_after_a_restart_it_goes_on_where_it_stopped(start: Start, discord: DiscordApi, home: Path) -> None:
    config = DiscordConfig(base_url=discord.base_url)
    thread = discord.thread()
    async with start(DiscordPlatform(config), allow=ALLOW):
        await discord.connected()
        await discord.say(ANN, "One")
        await discord.say(ANN, f"{AT} one", thread)
        await discord.replies(2)
    for number in range(103):
        await discord.say(OTHER_BOT, f"Number {number}", thread)
    await discord.say(ANN, "Two")
    await discord.say(ANN, "two", thread)
    await discord.say(OTHER_BOT, "Beep", thread)
    async with start(DiscordPlatform(config), allow=ALLOW):
        await discord.replies(2, discord.dm(ANN))
        await discord.replies(2, thread)
        await discord.say(ANN, "Three")
        assert await discord.replies(3, discord.dm(ANN)) == ["One", "Two", "Three"]
        assert ">two</from>" in (await discord.replies(2, thread))[1]
        await anyio.sleep(SETTLED)
        assert len(discord.sent()) == 5
    assert [session.over for session in discord.gateway.sessions] == [True, True]


async def test_what_is_sent_to_a_user_opens_the_direct_messages(start: Start, discord: DiscordApi) -> None:
    discord_platform = DiscordPlatform(DiscordConfig(base_url=discord.base_url))
    async with start(discord_platform, allow=ALLOW) as gateway:
        await gateway.post("greeting", SessionKey("discord", ANN, chat_type="dm"), "Good morning")
        assert await discord.replies(1, discord.dm(ANN)) == ["Good morning"]
        await gateway.post("notice", SessionKey("discord", CHANNEL), "Done")
        assert await discord.replies(1, CHANNEL) == ["Done"]
        await gateway.post("more", SessionKey("discord", ANN, chat_type="dm"), "Good night")
        await discord.replies(2, discord.dm(ANN))
        assert discord.requests.count(("POST", "/users/@me/channels")) == 1


async def test_two_bots_run_at_once(start: Start, discord: DiscordApi, discord_platform: DiscordPlatform) -> None:
    async with DiscordApi.open() as other:
        second = DiscordPlatform(DiscordConfig(base_url=other.base_url))
        second.name = "discord2"
        async with start(discord_platform, second, allow=ALLOW):
            await discord.connected()
            await other.connected()
            await discord.say(ANN, "Here")
            await other.say(ANN, "There")
            assert await discord.replies(1) == ["Here"]
            assert await other.replies(1) == ["There"]


async def test_an_event_that_cannot_be_read_holds_up_no_other(
    start: Start, discord: DiscordApi, discord_platform: DiscordPlatform
) -> None:
    async with start(discord_platform, allow=ALLOW):
        await discord.connected()
        await discord.say(ANN, "Broken", attachments=7)
        await discord.say(ANN, "Broken", author={})
        await discord.say(ANN, "Fine")
        assert await discord.replies(1) == ["Fine"]


async def test_nothing_that_is_private_is_in_the_logs(
    start: Start, discord: DiscordApi, discord_platform: DiscordPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    discord.failures = [500, None, 400]
    async with start(discord_platform, allow=ALLOW):
        await discord.connected()
        await discord.say(ANN, "Confidential")
        await discord.replies(1)
        await discord.say(ANN, "Confidential too")
        await discord.say(EVE, "Let me in")
        await discord.gateway.control(7)
        await discord.connected(resumes=1)
        await anyio.sleep(SETTLED)
    ours = [record.getMessage() for record in caplog.records if record.name != "aiohttp.server"]
    assert any("asks to connect again" in line for line in ours)
    for secret in (TOKEN, ANN, EVE, CHANNEL, discord.dm(ANN), "Confidential", "Ann", "Eve", "session0"):
        assert secret not in "\n".join(ours), secret
