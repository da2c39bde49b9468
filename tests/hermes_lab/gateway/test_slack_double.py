"""The double of Slack keeps Slack's rules, one test each."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from fakes.slack_api import APP_TOKEN, BOT, BOT_TOKEN, SlackApi
from slack_lab import until


@pytest.fixture
async def api() -> AsyncIterator[SlackApi]:
    async with SlackApi(ack_seconds=0.1) as api:
        yield api


async def call(api: SlackApi, method: str, token: str = BOT_TOKEN, **given: Any) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession() as client, client.post(api.url + method, json=given, headers=headers) as answer:
        return answer.status, await answer.json()


async def error(api: SlackApi, method: str, token: str = BOT_TOKEN, **given: Any) -> str:
    status, body = await call(api, method, token, **given)
    assert (status, body["ok"]) == (200, False)
    return str(body["error"])


async def address(api: SlackApi) -> str:
    return str((await call(api, "apps.connections.open", APP_TOKEN))[1]["url"])


async def test_each_call_needs_its_kind_of_token(api: SlackApi) -> None:
    assert await error(api, "auth.test", "") == "not_authed"
    assert await error(api, "auth.test", "xoxb-other") == "invalid_auth"
    assert await error(api, "auth.test", APP_TOKEN) == "not_allowed_token_type"
    assert await error(api, "apps.connections.open") == "not_allowed_token_type"
    api.tokens[BOT_TOKEN] = "token_revoked"
    assert await error(api, "auth.test") == "token_revoked"
    assert await error(api, "no.such") == "unknown_method"


async def test_each_call_needs_its_scope(api: SlackApi) -> None:
    api.scopes.remove("users:read")
    _, body = await call(api, "users.info", user="U1")
    assert (body["error"], body["needed"]) == ("missing_scope", "users:read")


@pytest.mark.parametrize("code", ["is_archived", "not_in_channel"])
async def test_a_message_needs_a_channel_that_takes_it(api: SlackApi, code: str) -> None:
    assert await error(api, "chat.postMessage", channel="C404", text="a") == "channel_not_found"
    api.channels["C1"][code] = True
    assert await error(api, "chat.postMessage", channel="C1", text="a") == code


async def test_a_message_needs_a_text_which_is_cut_off(api: SlackApi) -> None:
    assert await error(api, "chat.postMessage", channel="C1", text=" ") == "no_text"
    await call(api, "chat.postMessage", channel="C1", text="a" * 40_001)
    assert len(api.sent[0]["text"]) == 40_000


async def test_a_thread_is_named_by_its_parent(api: SlackApi) -> None:
    parent = api.say("U1", "one", "C1")
    reply = api.say("U1", "two", "C1", thread=parent)
    for wrong in (reply, "1.2"):
        assert await error(api, "chat.postMessage", channel="C1", text="a", thread_ts=wrong) == "invalid_thread_ts"
    assert (await call(api, "chat.postMessage", channel="C1", text="a", thread_ts=parent))[1]["ok"]


async def test_more_than_one_message_a_second_gets_429(api: SlackApi) -> None:
    api.flood, api.flood_seconds = True, 600
    assert (await call(api, "chat.postMessage", channel="C1", text="a"))[1]["ok"]
    assert (await call(api, "chat.postMessage", channel="C1", text="a"))[0] == 429
    assert (await call(api, "chat.postMessage", channel="C2", text="a"))[1]["ok"]


async def test_a_file_has_three_steps(api: SlackApi) -> None:
    assert await error(api, "files.getUploadURLExternal", filename="a", length=0) == "invalid_arguments"
    _, given = await call(api, "files.getUploadURLExternal", filename="a", length=3)
    listed = [{"id": given["file_id"]}]
    assert await error(api, "files.completeUploadExternal", files=listed, channel_id="C1") == "file_not_found"
    async with aiohttp.ClientSession() as client:
        for content, status in ((b"ab", 400), (b"abc", 200)):
            async with client.post(given["upload_url"], data=content) as answer:
                assert answer.status == status
    assert (await call(api, "files.completeUploadExternal", files=listed, channel_id="C1"))[1]["ok"]
    assert api.shared[0]["content"] == b"abc"
    assert await error(api, "files.completeUploadExternal", files=listed, channel_id="C1") == "file_not_found"


async def test_an_address_opens_one_connection(api: SlackApi) -> None:
    url = await address(api)
    async with aiohttp.ClientSession() as client, client.ws_connect(url) as socket:
        assert (await socket.receive_json())["type"] == "hello"
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await client.ws_connect(url)


async def test_an_app_has_ten_connections(api: SlackApi) -> None:
    async with aiohttp.ClientSession() as client:
        sockets = [await client.ws_connect(await address(api)) for _ in range(11)]
        first = [await socket.receive_json() for socket in sockets]
        assert [each["type"] for each in first] == ["hello"] * 10 + ["disconnect"]
        assert first[-1]["reason"] == "too_many_websockets"


async def test_an_event_comes_again_until_it_is_acknowledged(api: SlackApi) -> None:
    api.say("U1", "hello")
    async with aiohttp.ClientSession() as client, client.ws_connect(await address(api)) as socket:
        await socket.receive_json()
        first, second = await socket.receive_json(), await socket.receive_json()
        assert [each["retry_attempt"] for each in (first, second)] == [0, 1]
        assert (second["retry_reason"], first["payload"]) == ("timeout", second["payload"])
        await socket.send_json({"envelope_id": second["envelope_id"]})
        await until(lambda: api.idle)
        await socket.send_json({"envelope_id": first["envelope_id"]})
        await until(lambda: api.late)
        assert not api.wrong
        await socket.send_json({"envelope_id": "never-sent"})
        await until(lambda: api.wrong)


async def test_an_event_of_a_connection_that_ends_comes_on_another(api: SlackApi) -> None:
    api.ack_seconds = 60
    api.say("U1", "hello")
    async with aiohttp.ClientSession() as client:
        async with client.ws_connect(await address(api)) as socket:
            await socket.receive_json()
            await socket.receive_json()
        async with client.ws_connect(await address(api)) as socket:
            await socket.receive_json()
            assert (await socket.receive_json())["retry_attempt"] == 1


async def test_an_event_goes_to_one_of_the_connections(api: SlackApi) -> None:
    async with aiohttp.ClientSession() as client:
        sockets = [await client.ws_connect(await address(api)) for _ in range(2)]
        for socket in sockets:
            await socket.receive_json()
        api.ack_seconds = 60
        api.say("U1", "one")
        api.say("U1", "two")
        assert {(await socket.receive_json())["payload"]["event"]["text"] for socket in sockets} == {"one", "two"}


async def test_a_connection_ends_after_its_disconnect(api: SlackApi) -> None:
    async with aiohttp.ClientSession() as client, client.ws_connect(await address(api)) as socket:
        await socket.receive_json()
        api.disconnect("refresh_requested")
        assert (await socket.receive_json())["reason"] == "refresh_requested"
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE


async def test_a_mention_is_two_events_but_not_in_direct_messages(api: SlackApi) -> None:
    async with aiohttp.ClientSession() as client, client.ws_connect(await address(api)) as socket:
        api.ack_seconds = 60
        await socket.receive_json()
        ts = api.say("U1", f"<@{BOT}> hello", "C1")
        api.say("U1", f"<@{BOT}> hello", "D1")
        events = [(await socket.receive_json())["payload"]["event"] for _ in range(3)]
    assert [each["type"] for each in events] == ["message", "app_mention", "message"]
    assert [each["ts"] for each in events[:2]] == [ts, ts]
    assert [each.get("channel_type") for each in events] == ["channel", None, "im"]


async def test_the_bots_own_messages_are_events(api: SlackApi) -> None:
    await call(api, "chat.postMessage", channel="C1", text="a")
    async with aiohttp.ClientSession() as client, client.ws_connect(await address(api)) as socket:
        await socket.receive_json()
        event = (await socket.receive_json())["payload"]["event"]
    assert (event["user"], bool(event["bot_id"])) == (BOT, True)


async def test_an_edit_is_a_message_changed(api: SlackApi) -> None:
    ts = api.say("U1", "one", "C1")
    api.edit("C1", ts, "two")
    async with aiohttp.ClientSession() as client, client.ws_connect(await address(api)) as socket:
        events = [(await socket.receive_json()).get("payload", {}).get("event") for _ in range(3)]
    assert (events[2]["subtype"], events[2]["message"]["text"]) == ("message_changed", "two")
    assert events[2]["ts"] != ts


def test_the_clients_keep_what_begins_with_a_slash() -> None:
    assert SlackApi().say("U1", "/status") == ""
