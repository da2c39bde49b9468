"""The double of Discord keeps the rules of Discord's documentation; one test a rule. discord.py works with it."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from fakes.discord_api import NONCE_SECONDS, DiscordApi
from fakes.discord_gateway import CONTENT, DM_MESSAGES, GUILD_MESSAGES
from fakes.discord_world import ANN, BOT, CHANNEL, EVE, HIDDEN, NO_HISTORY, OTHER_BOT, READ_ONLY, SHY, TOKEN

AGENT = "DiscordBot (https://example.org, 1)"
SIGNED = {"Authorization": f"Bot {TOKEN}", "User-Agent": AGENT}
PROPERTIES = {"os": "linux", "browser": "b", "device": "d"}
MESSAGES = DM_MESSAGES | GUILD_MESSAGES
Json = dict[str, Any]


@pytest.fixture
async def api() -> AsyncIterator[DiscordApi]:
    async with DiscordApi.open() as api:
        yield api


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(headers=SIGNED) as http:
        yield http


class Rest:
    def __init__(self, api: DiscordApi, http: aiohttp.ClientSession) -> None:
        self.api = api
        self.http = http
        self.headers: Any = {}

    async def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        async with self.http.request(method, self.api.base_url + path, json=body, **options) as answer:
            self.headers = answer.headers
            return answer.status, await (answer.json() if answer.content_type == "application/json" else answer.text())

    async def post(self, content: str, channel: str = CHANNEL, **fields: Any) -> tuple[int, Any]:
        return await self("POST", f"/channels/{channel}/messages", {"content": content} | fields)


@pytest.fixture
def rest(api: DiscordApi, http: aiohttp.ClientSession) -> Rest:
    return Rest(api, http)


async def test_a_request_needs_the_token_and_a_user_agent(rest: Rest) -> None:
    assert await rest("GET", "/users/@me", headers={"Authorization": "Bot wrong"}) == (
        401,
        {"message": "401: Unauthorized", "code": 0},
    )
    assert (await rest("GET", "/users/@me", headers={"User-Agent": "curl"}))[0] == 403
    status, me = await rest("GET", "/users/@me")
    assert (status, me["id"], me["bot"]) == (200, BOT, True)


async def test_channels_that_are_unknown_hidden_or_no_snowflake(rest: Rest) -> None:
    for channel, status, code in (("999", 404, 10003), (HIDDEN, 403, 50001), ("x", 400, 50035)):
        got, body = await rest("GET", f"/channels/{channel}")
        assert (got, body["code"]) == (status, code)
    thread = rest.api.thread(joined=True)
    assert "member" in (await rest("GET", f"/channels/{thread}"))[1]
    assert "member" not in (await rest("GET", f"/channels/{rest.api.thread()}"))[1]


async def test_direct_messages_have_one_channel_a_user(rest: Rest) -> None:
    first = await rest("POST", "/users/@me/channels", {"recipient_id": ANN})
    assert first == await rest("POST", "/users/@me/channels", {"recipient_id": ANN})
    assert first[1]["recipients"][0]["id"] == ANN
    assert (await rest("POST", "/users/@me/channels", {"recipient_id": "999"}))[1]["code"] == 50033


async def test_a_message_has_a_limit_and_something_in_it(rest: Rest) -> None:
    assert (await rest.post("\U0001f600" * 2000))[0] == 200
    for content, fields, code in (("a" * 2001, {}, 50035), (" ", {}, 50006), ("a", {"nonce": "n" * 26}, 50035)):
        status, body = await rest.post(content, **fields)
        assert (status, body["code"]) == (400, code)
    missing: Json = {"message_id": "999"}
    assert (await rest.post("a", message_reference=missing))[1]["code"] == 50035
    missing["fail_if_not_exists"] = False
    assert (await rest.post("a", message_reference=missing))[0] == 200
    assert (await rest.post("a", NO_HISTORY, message_reference=missing))[1]["code"] == 160002


async def test_where_the_bot_may_not_write(rest: Rest) -> None:
    for channel, code in ((READ_ONLY, 50013), (HIDDEN, 50001), (rest.api.dm(SHY), 50007)):
        status, body = await rest.post("a", channel)
        assert (status, body["code"]) == (403, code)


async def test_a_nonce_is_enforced_for_some_minutes_if_asked(rest: Rest) -> None:
    now = 0.0
    rest.api.clock = lambda: now
    first = (await rest.post("one", nonce="n", enforce_nonce=True))[1]["id"]
    assert (await rest.post("two", rest.api.dm(ANN), nonce="n", enforce_nonce=True))[1]["id"] == first
    assert (await rest.post("three", nonce="n"))[1]["id"] != first
    now = NONCE_SECONDS + 1.0
    assert (await rest.post("four", nonce="n", enforce_nonce=True))[1]["content"] == "four"


async def test_mentions_ping_unless_they_are_not_allowed(rest: Rest) -> None:
    text = f"@everyone <@{ANN}>"
    loud, quiet = (await rest.post(text))[1], (await rest.post(text, allowed_mentions={"parse": []}))[1]
    assert (loud["mention_everyone"], [each["id"] for each in loud["mentions"]]) == (True, [ANN])
    assert (quiet["mention_everyone"], quiet["mentions"]) == (False, [])


async def test_files_come_with_their_names_and_have_a_limit(rest: Rest) -> None:
    for size, status in ((9, 200), ((10 << 20) + 1, 413)):
        form = aiohttp.FormData(quote_fields=False)
        form.add_field("payload_json", json.dumps({"attachments": [{"id": 0, "filename": "a.png"}]}))
        form.add_field("files[0]", io.BytesIO(b"x" * size), filename="a.png")
        assert (await rest("POST", f"/channels/{CHANNEL}/messages", data=form))[0] == status
    assert rest.api.files == {"a.png": b"x" * 9}


async def test_history_is_read_forwards_from_a_message_and_comes_newest_first(rest: Rest) -> None:
    ids = [(await rest.api.say(ANN, str(number), CHANNEL))["id"] for number in range(5)]
    status, page = await rest("GET", f"/channels/{CHANNEL}/messages?after={ids[0]}&limit=3")
    assert (status, [each["id"] for each in page]) == (200, ids[3:0:-1])
    assert (await rest("GET", f"/channels/{CHANNEL}/messages?limit=101"))[1]["code"] == 50035
    assert (await rest("GET", f"/channels/{HIDDEN}/messages?limit=1"))[1]["code"] == 50001


async def test_a_rate_limit_is_told_and_ends(rest: Rest) -> None:
    rest.api.limit, rest.api.limit_seconds = 2, 4
    await rest.post("one")
    assert rest.headers["X-RateLimit-Remaining"] == "1"
    await rest.post("two")
    status, body = await rest.post("three")
    assert (status, body["global"], rest.headers["X-RateLimit-Scope"]) == (429, False, "user")
    assert (await rest.post("elsewhere", rest.api.dm(ANN)))[0] == 200
    await asyncio.sleep(body["retry_after"])
    assert (await rest.post("three"))[0] == 200


class Client:
    """A client of the gateway, by hand."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, op: int, data: Any) -> None:
        await self.socket.send_str(json.dumps({"op": op, "d": data}))

    async def get(self) -> Json:
        message = await self.socket.receive(timeout=60)
        return json.loads(message.data) if message.type == aiohttp.WSMsgType.TEXT else {"close": self.socket.close_code}

    async def until(self, name: str) -> Json:
        while (said := await self.get()).get("t") != name:
            assert "close" not in said
        return said


class Connect:
    def __init__(self, api: DiscordApi, http: aiohttp.ClientSession) -> None:
        self.api = api
        self.http = http

    async def __call__(self, query: str = "v=10&encoding=json") -> Client:
        return Client(await self.http.ws_connect(f"{self.api.gateway.url}?{query}"))

    async def identified(self, intents: int = MESSAGES | CONTENT) -> tuple[Client, str]:
        client = await self()
        await client.get()
        await client.send(2, {"token": TOKEN, "intents": intents, "properties": PROPERTIES})
        return client, (await client.until("READY"))["d"]["session_id"]

    async def resumed(self, session: str, seq: int, token: str = TOKEN) -> Client:
        client = await self()
        await client.get()
        await client.send(6, {"token": token, "session_id": session, "seq": seq})
        return client


@pytest.fixture
def connect(api: DiscordApi, http: aiohttp.ClientSession) -> Connect:
    return Connect(api, http)


async def test_the_gateway_says_hello_and_wants_a_version_it_knows(connect: Connect) -> None:
    assert (await (await connect()).get())["d"]["heartbeat_interval"] == 41250
    assert await (await connect("v=3&encoding=json")).get() == {"close": 4012}


@pytest.mark.parametrize(
    ("op", "data", "code"),
    [
        (99, None, 4001),
        (2, {"token": TOKEN, "intents": 1, "properties": PROPERTIES, "x": "x" * 4096}, 4002),
        (2, {"token": TOKEN, "intents": 1}, 4002),
        (3, {}, 4003),
        (2, {"token": "wrong", "intents": 1, "properties": PROPERTIES}, 4004),
        (6, {"token": "wrong", "session_id": "s", "seq": 1}, 4004),
        (2, {"token": TOKEN, "properties": PROPERTIES}, 4013),
        (2, {"token": TOKEN, "intents": 1 << 40, "properties": PROPERTIES}, 4013),
        (2, {"token": TOKEN, "intents": 1 << 8, "properties": PROPERTIES}, 4014),
    ],
)
async def test_what_closes_the_connection(connect: Connect, op: int, data: Any, code: int) -> None:
    client = await connect()
    await client.get()
    await client.send(op, data)
    assert await client.get() == {"close": code}


async def test_message_content_is_privileged(connect: Connect) -> None:
    connect.api.gateway.privileged = 0
    client = await connect()
    await client.get()
    await client.send(2, {"token": TOKEN, "intents": CONTENT, "properties": PROPERTIES})
    assert await client.get() == {"close": 4014}
    client, _ = await connect.identified(MESSAGES)
    shown = []
    for text, channel in (("Hidden", CHANNEL), (f"<@{BOT}> Shown", CHANNEL), ("Direct", "")):
        await connect.api.say(ANN, text, channel)
        shown.append((await client.until("MESSAGE_CREATE"))["d"]["content"])
    assert shown == ["", f"<@{BOT}> Shown", "Direct"]


async def test_events_come_by_intent(connect: Connect) -> None:
    client, _ = await connect.identified(DM_MESSAGES)
    await connect.api.say(ANN, "in the guild", CHANNEL)
    await connect.api.say(ANN, "direct")
    assert (await client.until("MESSAGE_CREATE"))["d"]["content"] == "direct"


async def test_a_second_identify_and_one_too_many(connect: Connect) -> None:
    client, _ = await connect.identified()
    await client.send(2, {"token": TOKEN, "intents": 1, "properties": PROPERTIES})
    assert await client.get() == {"close": 4005}
    connect.api.gateway.starts_left = 0
    client = await connect()
    await client.get()
    await client.send(2, {"token": TOKEN, "intents": 1, "properties": PROPERTIES})
    assert (await client.get())["op"] == 9


async def test_heartbeats_are_answered_and_must_come(connect: Connect) -> None:
    connect.api.gateway.heartbeat_seconds = 0.1
    client, _ = await connect.identified()
    await client.send(1, 1)
    assert (await client.get())["op"] == 11
    assert await client.get() == {"close": 4000}


async def test_a_session_is_resumed_with_what_was_missed(connect: Connect) -> None:
    client, session = await connect.identified()
    await connect.api.say(ANN, "one")
    seq = (await client.until("MESSAGE_CREATE"))["s"]
    await client.socket.close(code=4000)
    await connect.api.say(ANN, "two")
    client = await connect.resumed(session, seq)
    assert [(await client.get())["t"], (await client.get())["t"]] == ["MESSAGE_CREATE", "RESUMED"]
    await connect.api.gateway.control(7)
    assert (await client.get())["op"] == 7
    await client.socket.close(code=4000)
    assert await (await connect.resumed(session, 99)).get() == {"close": 4007}


async def test_a_session_that_is_over_is_not_resumed(connect: Connect) -> None:
    client, session = await connect.identified()
    await client.socket.close(code=1000)
    said = await (await connect.resumed(session, 1)).get()
    assert (said["op"], said["d"]) == (9, False)
    client, session = await connect.identified()
    await connect.api.gateway.control(9, False)
    assert (await (await connect.resumed(session, 1)).get())["op"] == 9


async def test_people_are_seen_as_discord_shows_them(api: DiscordApi, connect: Connect) -> None:
    client, _ = await connect.identified((1 << 16) - 1 & ~(1 << 1 | 1 << 8))
    thread = api.thread()
    said = await api.say(ANN, f"<@{BOT}> Hello", thread)
    assert (await client.until("THREAD_MEMBERS_UPDATE"))["d"]["added_members"][0]["user_id"] == BOT
    shown = (await client.until("MESSAGE_CREATE"))["d"]
    assert (shown["guild_id"], shown["mentions"][0]["id"]) == (api.channels[CHANNEL]["guild_id"], BOT)
    await api.react(EVE, said, "\U0001f44d")
    assert (await client.until("MESSAGE_REACTION_ADD"))["d"]["message_author_id"] == ANN
    await api.react(EVE, said, "\U0001f44d", added=False)
    assert "message_author_id" not in (await client.until("MESSAGE_REACTION_REMOVE"))["d"]
    await api.edit(said, "Bye")
    assert (await client.until("MESSAGE_UPDATE"))["d"]["content"] == "Bye"
    await api.say(OTHER_BOT, "Beep", CHANNEL)
    assert (await client.until("MESSAGE_CREATE"))["d"]["author"]["bot"]


@pytest.mark.filterwarnings("ignore:'audioop' is deprecated")
async def test_discord_py_works_with_the_double(api: DiscordApi, monkeypatch: pytest.MonkeyPatch) -> None:
    import discord
    import yarl
    from discord.gateway import DiscordWebSocket
    from discord.http import Route

    monkeypatch.setattr(Route, "BASE", api.base_url)
    monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(api.gateway.url))
    intents = discord.Intents.none()
    intents.guilds = intents.messages = intents.reactions = intents.message_content = True
    seen: list[str] = []

    class Bot(discord.Client):
        async def on_message(self, message: discord.Message) -> None:
            if message.author != self.user:
                seen.append(message.content)
                await message.reply(f"{message.author.name}: {message.content}", file=discord.File(__file__, "t.py"))

        async def on_raw_reaction_add(self, reaction: discord.RawReactionActionEvent) -> None:
            seen.append(f"{reaction.emoji} {reaction.message_author_id}")

    api.gateway.heartbeat_seconds = 5
    bot = Bot(intents=intents, guild_ready_timeout=0.1)
    async with bot:
        await bot.login(TOKEN)
        running = asyncio.create_task(bot.connect())
        await api.connected()
        # discord.py runs a task for each message, so only the next message after a reply has an order.
        await api.say(ANN, "direct")
        assert await api.replies(1) == ["ann: direct"]
        await api.say(ANN, "in a guild", CHANNEL)
        assert await api.replies(2) == ["ann: direct", "ann: in a guild"]
        await api.gateway.control(7)
        await api.connected(resumes=1)
        await api.say(ANN, "resumed", CHANNEL)
        assert (await api.replies(3))[2] == "ann: resumed"
        await api.react(ANN, api.sent()[0], "\U0001f44d")
        async with asyncio.timeout(60):
            while len(seen) < 4:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert seen[3] == f"\U0001f44d {BOT}"
        await bot.close()
        await running
