"""The double of the Bot API keeps the rules of Telegram's."""

import asyncio
import http.client
import json
import os
import struct
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import aiohttp
import pytest
from fakes.telegram_api import TOKEN, TelegramApi

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


@pytest.fixture
async def api() -> AsyncIterator[TelegramApi]:
    async with TelegramApi() as api:
        yield api


async def ask(api: TelegramApi, method: str, token: str = TOKEN, **data: Any) -> tuple[int, Any]:
    """The status of a request, and its result, or its description and parameters."""
    form = {name: value if isinstance(value, bytes) else str(value) for name, value in data.items()}
    async with aiohttp.ClientSession() as client, client.post(f"{api.url}/bot{token}/{method}", data=form) as answer:
        body = await answer.json()
    return answer.status, body["result"] if body["ok"] else (body["description"], body.get("parameters"))


async def failure(api: TelegramApi, method: str, **data: Any) -> tuple[int, str]:
    status, (why, _) = await ask(api, method, **data)
    return status, why


async def updates(api: TelegramApi, **data: Any) -> list[int]:
    return [each["update_id"] for each in (await ask(api, "getUpdates", **data))[1]]


async def test_a_token_that_is_none_gets_404_and_one_of_no_bot_401(api: TelegramApi) -> None:
    assert (await ask(api, "getMe", "nonsense"))[0] == 404
    assert (await ask(api, "getMe", TOKEN[:-1] + "x"))[0] == 401
    assert (await ask(api, "getMe"))[1]["is_bot"]
    assert (await ask(api, "getYou"))[0] == 404


async def test_updates_are_given_until_the_offset_has_passed_them(api: TelegramApi) -> None:
    first, second = api.say(7, "one"), api.say(7, "two")
    assert await updates(api) == await updates(api) == [first, second]
    assert await updates(api, limit=1) == [first]
    assert await updates(api, offset=second) == [second]
    assert await updates(api) == [second]
    assert await updates(api, offset=second + 1000) == [second]
    assert await updates(api, offset=second + 1) == []


async def test_a_request_waits_for_an_update(api: TelegramApi) -> None:
    waits = asyncio.create_task(updates(api, timeout=50))
    await asyncio.sleep(0.05)
    said = api.say(7, "one")
    assert await waits == [said]
    assert await updates(api, offset=said + 1, timeout=1) == []


async def test_a_second_poller_ends_the_first_and_a_webhook_all(api: TelegramApi) -> None:
    first = asyncio.create_task(ask(api, "getUpdates", timeout=50))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(ask(api, "getUpdates", timeout=50))
    assert (await first)[0] == 409
    api.say(7, "one")
    assert (await second)[0] == 200
    await ask(api, "setWebhook", url="https://example.org")
    assert (await ask(api, "getUpdates"))[0] == 409


async def test_allowed_updates_hold_for_what_comes_later(api: TelegramApi) -> None:
    said = api.say(7, "one")
    api.react(7, 1, "👍")
    await updates(api, allowed_updates=json.dumps(["message_reaction"]))
    reacted = api.react(7, 1, "👍")
    api.say(7, "two")
    assert await updates(api) == [said, reacted]


async def test_a_message_needs_visible_text_of_at_most_4096_utf_16_units(api: TelegramApi) -> None:
    api.say(7, "hello")
    assert await failure(api, "sendMessage", chat_id=7) == (400, "Bad Request: message text is empty")
    assert await failure(api, "sendMessage", chat_id=7, text=" \n") == (400, "Bad Request: text must be non-empty")
    assert (await ask(api, "sendMessage", chat_id=7, text="😀" * 2048))[0] == 200
    too_long = (400, "Bad Request: message is too long")
    assert await failure(api, "sendMessage", chat_id=7, text="😀" * 2048 + "a") == too_long
    assert [each["text"] for each in api.sent] == ["😀" * 2048]


async def test_a_message_goes_to_a_chat_that_the_bot_knows(api: TelegramApi) -> None:
    assert await failure(api, "sendMessage", text="a") == (400, "Bad Request: chat_id is empty")
    assert await failure(api, "sendMessage", chat_id=7, text="a") == (400, "Bad Request: chat not found")
    api.say(7, "hello")
    api.shut(7)
    blocked = (403, "Forbidden: bot was blocked by the user")
    assert await failure(api, "sendMessage", chat_id=7, text="a") == blocked
    api.migrate(api.group(-5, kind="group"), -1005)
    status, (_, moved) = await ask(api, "sendMessage", chat_id=-5, text="a")
    assert (status, moved) == (400, {"migrate_to_chat_id": -1005})


async def test_threads_and_messages_to_reply_to_exist(api: TelegramApi) -> None:
    chat = api.group(is_forum=True)
    thread = api.topic(chat)
    to = {"chat_id": chat, "text": "a"}
    assert (await ask(api, "sendMessage", message_thread_id=thread, **to))[1]["message_thread_id"] == thread
    none = (400, "Bad Request: message thread not found")
    assert await failure(api, "sendMessage", message_thread_id=99, **to) == none
    assert await failure(api, "sendMessage", reply_parameters='{"message_id": 99}', **to) == (
        400,
        "Bad Request: message to be replied not found",
    )
    without = '{"message_id": 99, "allow_sending_without_reply": true}'
    assert (await ask(api, "sendMessage", reply_parameters=without, **to))[0] == 200


async def test_a_flood_is_refused_with_the_seconds_to_wait() -> None:
    async with TelegramApi(flood=True) as api:
        for user in range(1, 40):
            api.say(user, "hello")
        assert (await ask(api, "sendMessage", chat_id=1, text="a"))[0] == 200
        status, (_, parameters) = await ask(api, "sendMessage", chat_id=1, text="a")
        assert (status, parameters) == (429, {"retry_after": 1})
        for user in range(2, 31):
            api._count(user)
        assert (await ask(api, "sendMessage", chat_id=35, text="a"))[0] == 429


async def test_commands_have_the_names_that_telegram_allows(api: TelegramApi) -> None:
    async def status(*commands: tuple[str, str]) -> int:
        listed = [{"command": name, "description": about} for name, about in commands]
        return (await ask(api, "setMyCommands", commands=json.dumps(listed)))[0]

    assert await status(("a_1", "x" * 256)) == 200
    assert await status(*[("a", "b")] * 100) == 200
    assert await status(*[("a", "b")] * 101) == 400
    for name, about in (("a-b", "c"), ("A", "c"), ("", "c"), ("a" * 33, "c"), ("a", ""), ("a", "x" * 257)):
        assert await status((name, about)) == 400, (name, about)


async def test_photos_and_files_are_what_telegram_takes(api: TelegramApi) -> None:
    api.say(7, "hello")

    async def status(kind: str, content: bytes) -> int:
        form = aiohttp.FormData({"chat_id": "7"})
        form.add_field(kind.lower(), content, filename="a.bin")
        address = f"{api.url}/bot{TOKEN}/send{kind}"
        async with aiohttp.ClientSession() as client, client.post(address, data=form) as answer:
            return answer.status

    assert await status("Photo", PNG + struct.pack(">II", 100, 100)) == 200
    assert await status("Photo", PNG + struct.pack(">II", 9000, 2000)) == 400
    assert await status("Photo", PNG + struct.pack(">II", 100, 2)) == 400
    assert await status("Photo", b"text") == 400
    assert await status("Document", b"") == 400
    assert await status("Document", b"text") == 200
    assert await failure(api, "sendDocument", chat_id=7, document="a") == (
        400,
        "Bad Request: there is no document in the request",
    )


async def test_faults_are_done_once_and_what_was_taken_is_kept(api: TelegramApi) -> None:
    api.say(7, "hello")
    api.faults["sendmessage"].extend(["502", "cut", "cut after"])
    async with aiohttp.ClientSession() as client:
        address = f"{api.url}/bot{TOKEN}/sendMessage?chat_id=7&text=a"
        async with client.post(address) as answer:
            assert (answer.status, len(api.sent)) == (502, 0)
        for taken in (0, 1):
            with pytest.raises(aiohttp.ClientError):
                await client.post(address)
            assert len(api.sent) == taken
        async with client.post(address) as answer:
            assert (answer.status, len(api.sent)) == (200, 2)


async def test_updates_come_again_and_in_another_order_where_that_is_wanted(api: TelegramApi) -> None:
    said = [api.say(7, "hello") for _ in range(5)]
    await updates(api, offset=said[-1] + 1)
    api.repeat(said[0])
    assert await updates(api) == [said[0]]
    said = [api.say(7, "hello") for _ in range(5)]
    api.rates = {"reorder": 1, "duplicate": 1}
    given = await updates(api, offset=said[0])
    assert set(said) <= set(given)
    assert given != sorted(given)
    assert len(given) == 6


async def test_a_group_that_migrates_says_so_in_both_chats(api: TelegramApi) -> None:
    api.migrate(api.group(-5, kind="group"), -1005)
    found = [each["message"] for each in (await ask(api, "getUpdates"))[1]]
    assert [each["chat"]["id"] for each in found] == [-5, -1005]
    assert (found[0]["migrate_to_chat_id"], found[1]["migrate_from_chat_id"]) == (-1005, -5)


def test_it_is_a_program_that_people_can_be_played_with() -> None:
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    program = Popen([sys.executable, "-m", "fakes.telegram_api", "--port", "0"], stdout=PIPE, text=True, env=env)
    try:
        assert program.stdout is not None
        url, token = program.stdout.readline().split()
        bot = f"bot{token}"

        def post(path: str, **data: Any) -> Any:
            request = urllib.request.Request(f"{url}/{path}", json.dumps(data).encode())
            request.add_header("Content-Type", "application/json")
            try:
                with urllib.request.urlopen(request) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as refused:
                with refused:
                    return refused.code

        first = post("control/say", user=7, text="hello")["result"]
        assert post("control/waiting")["waiting"] == [first]
        assert len(post(f"{bot}/getUpdates", allowed_updates='["message", "message_reaction"]')["result"]) == 1
        post("control/react", user=7, message=1, emoji=["👍"])
        assert len(post(f"{bot}/getUpdates", offset=first + 1)["result"]) == 1
        post("control/repeat", update=first)
        assert len(post(f"{bot}/getUpdates")["result"]) == 2
        post("control/faults", sendMessage=["502"])
        assert post(f"{bot}/sendMessage", chat_id=7, text="hi") == 502
        post("control/flood", on=True)
        post(f"{bot}/sendMessage", chat_id=7, text="hi")
        assert post(f"{bot}/sendMessage", chat_id=7, text="hi") == 429
        sent = {"chat": 7, "id": 2, "thread": 0, "text": "hi", "file": "", "reply": 0}
        assert post("control/sent", since=0)["sent"] == [sent]
        post("control/rates", **{"getme cut": 1})
        with pytest.raises((urllib.error.URLError, ConnectionError, http.client.HTTPException)):
            post(f"{bot}/getMe")
        post("control/cut")
    finally:
        program.kill()
        program.communicate()


async def test_all_connections_can_be_closed(api: TelegramApi) -> None:
    poll = asyncio.create_task(updates(api, timeout=50))
    while not api._poll:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    async with aiohttp.ClientSession() as client:
        await client.post(f"{api.url}/control/cut", json={})
    with pytest.raises(aiohttp.ClientError):
        await poll
