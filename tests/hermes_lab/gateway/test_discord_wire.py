"""What a connection to Discord passes on, what it sends, and how it fails."""

from pathlib import Path
from typing import Any

import pytest
from discord_fixture import Facts, connected
from fakes.discord_api import DiscordApi
from fakes.discord_world import ANN, BOT, CHANNEL, EVE, HIDDEN, NO_HISTORY, OTHER_BOT, READ_ONLY, SHY

from hermes_lab.config.gateway import DiscordConfig
from hermes_lab.gateway.platform import (
    Inbound,
    Judged,
    Outbound,
    PlatformError,
    Refused,
    TryLater,
    Undeliverable,
    Unsure,
)
from hermes_lab.gateway.platforms.discord import DiscordPlatform
from hermes_lab.gateway.split import split

UP, DOWN = "\N{THUMBS UP SIGN}", "\N{THUMBS DOWN SIGN}"
DARK = "\N{EMOJI MODIFIER FITZPATRICK TYPE-6}"


def raised(group: BaseExceptionGroup[Any]) -> BaseException:
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


async def test_reactions_to_the_bots_messages_are_verdicts(
    discord: DiscordApi, discord_platform: DiscordPlatform
) -> None:
    thread = discord.thread()
    async with connected(discord_platform) as seen:
        mine = {channel: await discord.say(BOT, "Mine", channel) for channel in (discord.dm(ANN), CHANNEL, thread)}
        theirs = await discord.say(EVE, "Theirs", CHANNEL)
        direct = mine[discord.dm(ANN)]
        await discord.react(ANN, theirs, UP)
        await discord.react(BOT, direct, UP)
        await discord.react(OTHER_BOT, mine[CHANNEL], UP)
        await discord.react(ANN, direct, "\N{PARTY POPPER}")
        await discord.react(ANN, direct, UP, emoji_id="5")
        await discord.react(ANN, direct, UP)
        await discord.react(ANN, direct, UP, added=False)
        await discord.react(ANN, mine[CHANNEL], DOWN + DARK)
        await discord.react(EVE, mine[thread], UP + "\ufe0f")
        await discord.say(ANN, "Then")
        events = [each for each in await seen.wait(6) if isinstance(each, Judged)]
    shown = [(each.chat, each.thread, each.sender.id, each.message, each.good) for each in events]
    assert shown == [
        (ANN, "", ANN, direct["id"], True),
        (ANN, "", ANN, direct["id"], None),
        (CHANNEL, "", ANN, mine[CHANNEL]["id"], False),
        (CHANNEL, thread, EVE, mine[thread]["id"], True),
    ]
    assert len({each.update for each in events}) == 4


async def test_a_message_is_passed_on_as_its_writer_saw_it(
    discord: DiscordApi, discord_platform: DiscordPlatform
) -> None:
    async with connected(discord_platform) as seen:
        first = await discord.say(EVE, f"Ask <@{ANN}>", CHANNEL)
        files = [{"filename": "a\nb.png"}]
        await discord.say(ANN, f"<@{BOT}> <@!{BOT}>, is <@{BOT}> <@{EVE}>?", CHANNEL, to=first, attachments=files)
        await discord.say(ANN, f"<@{BOT}>", CHANNEL)
        await discord.say(
            ANN, "", message_snapshots=[{"message": {"content": "Forwarded"}}], sticker_items=[{"name": "s"}]
        )
        await discord.say(ANN, "!important <@999>", poll={"question": {"text": "Q?"}})
        events = [each for each in await seen.wait(5) if isinstance(each, Inbound)]
    assert [each.text for each in events[1:]] == [
        "> Ask @Ann\nis @Hermes @Eve?\n[file a b.png: only text reaches you]",
        "@Hermes",
        "[forwarded]\nForwarded\n[sticker s]",
        "!important @someone\n[poll Q?]",
    ]
    assert [each.addressed for each in events] == [False, True, True, True, True]
    assert events[0].sender == (EVE, "Eve")
    assert (events[3].chat, events[3].chat_type, events[1].chat_type) == (ANN, "dm", "channel")


async def test_an_event_that_was_not_stored_comes_again(discord: DiscordApi, discord_platform: DiscordPlatform) -> None:
    async def fail() -> None:
        async with connected(discord_platform) as seen:
            await discord.say(ANN, "One")
            await seen.wait(1)
            seen.failures = [OSError("the disk is full")]
            await discord.say(ANN, "Two")
            await seen.wait(2)

    with pytest.raises(BaseExceptionGroup) as failure:
        await fail()
    assert isinstance(raised(failure.value), OSError)
    async with connected(discord_platform) as seen:
        assert [each.text for each in await seen.wait(1) if isinstance(each, Inbound)] == ["Two"]
    assert discord.gateway.resumes == 1


async def test_a_history_that_was_not_read_to_its_end_is_read_again(discord: DiscordApi) -> None:
    facts, config = Facts(), DiscordConfig(base_url=discord.base_url)
    async with connected(DiscordPlatform(config), facts) as seen:
        await discord.say(ANN, "One")
        await seen.wait(1)
    await discord.say(ANN, "Two")
    discord_platform = DiscordPlatform(config)

    async def fail() -> None:
        async with connected(discord_platform, facts) as seen:
            seen.failures = [OSError("the disk is full")]
            await seen.wait(1)

    with pytest.raises(BaseExceptionGroup):
        await fail()
    async with connected(discord_platform, facts) as seen:
        assert [each.text for each in await seen.wait(1) if isinstance(each, Inbound)] == ["Two"]


async def test_a_channel_that_is_gone_is_forgotten(discord: DiscordApi) -> None:
    facts, config = Facts(), DiscordConfig(base_url=discord.base_url)
    async with connected(DiscordPlatform(config), facts) as seen:
        await discord.say(ANN, "One", CHANNEL)
        await seen.wait(1)
    assert facts.values["channels"] == f'["{CHANNEL}"]'
    del discord.channels[CHANNEL]
    async with connected(DiscordPlatform(config), facts) as seen:
        await discord.say(ANN, "Two")
        await seen.wait(1)
    assert facts.values["channels"] == f'["{discord.dm(ANN)}"]'


async def test_what_is_sent_pings_nobody_and_shows_no_previews(
    discord: DiscordApi, discord_platform: DiscordPlatform
) -> None:
    async with connected(discord_platform) as seen:
        id = await seen.bot.send(Outbound("k", CHANNEL, "", f"@everyone <@{ANN}> <@&1> https://example.org"))
        (sent,) = discord.sent()
        assert (sent["id"], sent["flags"]) == (id, 4)
        assert (sent["mention_everyone"], sent["mentions"], sent["mention_roles"]) == (False, [], [])


async def test_a_message_that_is_sent_again_arrives_once_within_minutes(
    discord: DiscordApi, discord_platform: DiscordPlatform
) -> None:
    facts = Facts()
    async with connected(discord_platform, facts) as seen:
        message = Outbound("k", CHANNEL, "", "Hello")
        assert await seen.bot.send(message) == await seen.bot.send(message)
        assert await seen.bot.send(message._replace(key="l")) == discord.sent()[1]["id"]
    async with connected(discord_platform, Facts()) as seen:  # of another home, which has the same keys
        await seen.bot.send(message)
    assert len(discord.sent()) == 3


async def test_the_longest_message_and_one_that_was_marked_are_sent_whole(
    discord: DiscordApi, discord_platform: DiscordPlatform
) -> None:
    (piece,) = split("\U0001f600" * discord_platform.limit.most, discord_platform.limit)
    async with connected(discord_platform) as seen:
        await seen.bot.send(Outbound("k", CHANNEL, "", piece.sent))
        await seen.bot.send(Outbound("l", CHANNEL, "", piece.sent + "\n(sent again)"))
    texts = [each["content"] for each in discord.sent()]
    assert texts[0] == piece.sent
    assert "".join(texts[1:]).replace("\n", "") == f"{piece.sent}(sent again)"


async def test_files_are_attached(discord: DiscordApi, discord_platform: DiscordPlatform, tmp_path: Path) -> None:
    names = [f"f{number}.txt" for number in range(11)]
    for name in names:
        (tmp_path / name).write_text(name)
    (tmp_path / "large.bin").write_bytes(b"x" * ((10 << 20) + 1))
    (tmp_path / "a.png").write_bytes(b"\x89PNG" + b"y" * (6 << 20))
    (tmp_path / "b.png").write_bytes(b"\x89PNG" + b"z" * (6 << 20))
    async with connected(discord_platform) as seen:
        await seen.bot.send(Outbound("k", CHANNEL, "", "Here", files=[tmp_path / name for name in names]))
        pictures = [tmp_path / "a.png", tmp_path / "b.png"]
        id = await seen.bot.send(Outbound("l", CHANNEL, "", "", files=pictures))
        left = [tmp_path / "large.bin", tmp_path / "none.txt"]
        await seen.bot.send(Outbound("m", CHANNEL, "", "Sorry", files=left))
    sent = discord.sent()
    assert [(each["content"], len(each["attachments"])) for each in sent[:2]] == [("Here", 10), ("", 1)]
    assert [each["attachments"][0]["filename"] for each in sent[2:4]] == ["a.png", "b.png"]
    assert id == sent[2]["id"]
    assert discord.files["f10.txt"] == b"f10.txt"
    assert discord.files["a.png"] == (tmp_path / "a.png").read_bytes()
    assert sent[4]["content"].splitlines()[0] == "Sorry"
    assert "large.bin is not attached" in sent[4]["content"]
    assert "none.txt was to be attached" in sent[4]["content"]


@pytest.mark.parametrize(
    "chat", [HIDDEN, READ_ONLY, SHY, "999", "x", "\u0661", "../users/@me", ""], ids=lambda chat: ascii(chat)
)
async def test_what_can_never_be_sent(discord: DiscordApi, discord_platform: DiscordPlatform, chat: str) -> None:
    async with connected(discord_platform) as seen:
        with pytest.raises(Undeliverable) as failure:
            await seen.bot.send(Outbound("k", chat, "", "Secret"))
        for word in filter(None, (chat if len(chat) > 2 else "", "Secret")):
            assert word not in str(failure.value)
        with pytest.raises(Undeliverable):
            await seen.bot.send(Outbound("k", CHANNEL, "", " \n"))


async def test_a_rate_limit_is_kept_without_asking_again(
    discord: DiscordApi, discord_platform: DiscordPlatform
) -> None:
    discord.limit, discord.limit_seconds = 1, 30
    async with connected(discord_platform) as seen:
        await seen.bot.send(Outbound("k", CHANNEL, "", "One"))
        asked = len(discord.requests)
        with pytest.raises(TryLater) as failure:
            await seen.bot.send(Outbound("l", CHANNEL, "", "Two"))
        assert 0 < failure.value.seconds <= 30
        assert len(discord.requests) == asked
    fresh = DiscordPlatform(DiscordConfig(base_url=discord.base_url))
    discord._used.pop("GET /api/v10/gateway/bot")
    discord._used.pop(f"GET /api/v10/channels/{CHANNEL}")
    async with connected(fresh) as seen:
        with pytest.raises(TryLater) as failure:
            await seen.bot.send(Outbound("l", CHANNEL, "", "Two"))
        assert 1 < failure.value.seconds <= 30


@pytest.mark.parametrize("failure", [500, 503, "cut"])
async def test_a_failure_of_discord_leaves_it_open_whether_the_message_arrived(
    discord: DiscordApi, discord_platform: DiscordPlatform, failure: Any
) -> None:
    discord.failures = [failure]
    async with connected(discord_platform) as seen:
        message = Outbound("k", CHANNEL, "", "Hello")
        with pytest.raises(Unsure):
            await seen.bot.send(message)
        await seen.bot.send(message)
    assert len(discord.sent()) == 1


async def test_what_stands_before_discord_refuses_for_a_time_only(
    discord: DiscordApi, discord_platform: DiscordPlatform
) -> None:
    discord.failures = ["blocked"]
    async with connected(discord_platform) as seen:
        with pytest.raises(PlatformError, match="for now"):
            await seen.bot.send(Outbound("k", CHANNEL, "", "Hello"))


async def test_where_it_may_not_reply_it_writes(discord: DiscordApi, discord_platform: DiscordPlatform) -> None:
    async with connected(discord_platform) as seen:
        for channel in (CHANNEL, NO_HISTORY):
            asked = await discord.say(ANN, "Hello", channel)
            await seen.bot.send(Outbound(channel, channel, "", "Hello to you", asked["id"]))
        await seen.bot.send(Outbound("k", CHANNEL, "", "Too late", "999"))
    assert [each.get("message_reference", {}).get("message_id") for each in discord.sent()] == [
        discord.messages[0]["id"],
        None,
        "999",
    ]


async def test_when_discord_cannot_be_reached_nothing_was_sent(
    discord: DiscordApi, discord_platform: DiscordPlatform
) -> None:
    async with connected(discord_platform) as seen:
        seen.bot._rest._base = "http://127.0.0.1:1"
        with pytest.raises(PlatformError) as failure:
            await seen.bot.send(Outbound("k", CHANNEL, "", "Hello"))
        assert not isinstance(failure.value, Unsure)
    with pytest.raises(PlatformError, match="cannot be reached"):
        async with connected(DiscordPlatform(DiscordConfig(base_url="http://127.0.0.1:1"))):
            pass


async def test_a_wrong_token_and_a_missing_intent_are_refused(
    discord: DiscordApi, discord_platform: DiscordPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    discord.gateway.privileged = 0
    with pytest.raises(Refused, match="Message Content Intent"):
        async with connected(discord_platform):
            pass
    discord.gateway.token = "another"
    with pytest.raises(Refused, match="DISCORD_BOT_TOKEN"):
        async with connected(discord_platform):
            pass
    monkeypatch.setenv("DISCORD_BOT_TOKEN", "wrong-token")
    with pytest.raises(Refused, match="DISCORD_BOT_TOKEN") as failure:
        async with connected(discord_platform):
            pass
    assert "wrong-token" not in str(failure.value)
    monkeypatch.setenv("DISCORD_BOT_TOKEN", " ")
    with pytest.raises(Refused, match="DISCORD_BOT_TOKEN is not set"):
        async with connected(discord_platform):
            pass


async def test_no_more_sessions_are_begun_than_discord_allows(
    discord: DiscordApi, discord_platform: DiscordPlatform
) -> None:
    discord.gateway.starts_left = 0
    with pytest.raises(TryLater) as failure:
        async with connected(discord_platform):
            pass
    assert failure.value.seconds == 120
    assert not discord.gateway.sessions
