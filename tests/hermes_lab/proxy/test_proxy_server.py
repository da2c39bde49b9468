"""Budgets, failures and what is kept."""

import asyncio
import json

import aiohttp
import anyio
import pytest
from fakes.processes import cancelled_once
from served import KEY, REVIEW, TASK, Given, said, served

from hermes_lab.config.schema import PriceConfig
from hermes_lab.errors import ContextFull, ModelError
from hermes_lab.proxy.exchange import Answer, Request
from hermes_lab.types import ToolCall, Usage

CALL = ToolCall("c", "sh", {})
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": TASK}],
    "input": TASK,
    "tools": [{"type": "function", "function": {"name": "sh"}}],
}


async def ask(url: str, dialect: str = "chat", **more: object) -> tuple[int, object]:
    headers = {"Authorization": f"Bearer {KEY}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(url + PATHS[dialect], json=BODY | more) as reply,
    ):
        return reply.status, await reply.json(content_type=None)


@pytest.mark.parametrize("dialect", PATHS)
async def test_a_reply_that_could_not_be_had_is_a_failure(dialect: str) -> None:
    async with served(Given([ModelError("it is down"), said("late")])) as (proxy, url):
        status, body = await ask(url, dialect)
        assert (status, body["error"]["message"]) == (502, "it is down")  # type: ignore[index]
        with anyio.fail_after(60):
            await proxy.interrupted()
        assert str(proxy.failure) == "it is down"
        # There is no second chance: the episode has no result.
        assert (await ask(url, dialect))[0] == 502
        assert [exchange.generation for exchange in proxy.exchanges] == [None]


async def test_a_bug_of_the_upstream_is_a_failure_too() -> None:
    async with served(Given([KeyError("x")])) as (proxy, url):
        assert (await ask(url))[0] == 502
        assert isinstance(proxy.failure, ModelError)


@pytest.mark.parametrize("dialect", PATHS)
async def test_a_prompt_that_does_not_fit_is_told_in_the_programs_own_way(dialect: str) -> None:
    async with served(Given([ContextFull("10 > 8"), said("short")])) as (proxy, url):
        status, body = await ask(url, dialect)
        error = body["error"]  # type: ignore[index]
        assert status == 400
        assert error.get("code") == "context_length_exceeded" or error["message"].startswith("prompt is too long")
        assert (proxy.failure, proxy.refused) == (None, 1)
        assert (await ask(url, dialect))[0] == 200


@pytest.mark.parametrize(
    ("config", "spent", "served_first"),
    [
        ({"max_iterations": 2}, "max_iterations", 2),
        ({"max_tokens": 20}, "max_tokens", 1),
        ({"max_cost": 0.00002}, "max_cost", 1),
    ],
)
async def test_a_budget_ends(config: dict[str, object], spent: str, served_first: int) -> None:
    """Iterations at the next request, as the last calls still run; tokens and cost before the calls run."""
    upstream = Given([said("", CALL, usage=Usage(8, 5))])
    async with served(upstream, PriceConfig(prompt=1.0, completion=1.0), **config) as (proxy, url):
        for _ in range(served_first):
            assert (await ask(url))[0] == 200
        assert proxy.spent is None
        assert (await ask(url))[0] == 429
        with anyio.fail_after(60):
            await proxy.interrupted()
        assert (proxy.spent, proxy.failure) == (spent, None)
        assert len(upstream.requests) == 2
        assert len(proxy.conversations().main.steps) + len(proxy.conversations().others) == 2  # none is lost
        assert (await ask(url))[0] == 429
        assert len(upstream.requests) == 2


@pytest.mark.parametrize("review", [False, True])
@pytest.mark.parametrize(("config", "named"), [({"max_tokens": 500}, "max_tokens"), ({"max_cost": 1.0}, "max_cost")])
async def test_a_limit_that_nothing_counts_for_is_a_failure(
    config: dict[str, object], named: str, review: bool
) -> None:
    asked = {"messages": [*BODY["messages"], {"role": "user", "content": REVIEW}]} if review else {}  # type: ignore[misc]
    upstream = Given([said("Done.", usage=Usage(uncounted=1))])
    async with served(upstream, PriceConfig(prompt=1.0), **config) as (proxy, url):
        assert (await ask(url, **asked))[0] == 502
        with anyio.fail_after(60):
            await proxy.interrupted()
        assert f"no `usage` with its prompt's tokens, so agent.{named} cannot be enforced" in str(proxy.failure)
        assert (proxy.spent, proxy.review_spent) == (None, None)
        assert (await ask(url))[0] == 502
        assert len(upstream.requests) == 1
        found = proxy.conversations()
        assert (found.review_usage if review else found.work_usage).uncounted == 1
    async with served(upstream, max_cost=1.0) as (proxy, url):  # tokens without a price cost nothing
        assert (await ask(url))[0] == 200
        assert (proxy.failure, proxy.conversations().work_usage.uncounted) == (None, 1)


async def test_a_reply_without_calls_ends_nothing() -> None:
    async with served(Given([said("Done.")]), max_tokens=5, max_iterations=1) as (proxy, url):
        assert (await ask(url))[0] == 200
        assert proxy.spent is None
        assert (await ask(url))[0] == 429  # as the lab's own loop before the first reply of the next submission
        assert proxy.spent == "max_tokens"


async def test_a_budget_ends_a_stream_that_was_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_lab.proxy.server._PING_SECONDS", 0.02)
    for dialect, mark in (
        ("chat", b'data: {"error": '),
        ("messages", b"event: error\ndata: "),
        ("responses", b"event: response.failed\n"),
    ):
        async with served(Given([said("", CALL)], delay=0.1), max_tokens=5) as (proxy, url):
            async with (
                aiohttp.ClientSession(headers={"x-api-key": KEY}) as session,
                session.post(url + PATHS[dialect], json=BODY | {"stream": True}) as reply,
            ):
                content = await reply.read()
            assert mark in content
            assert b"max_tokens" in content
            assert b"call_id" not in content
            assert proxy.spent == "max_tokens"


async def test_side_requests_are_no_iterations_but_cost_tokens() -> None:
    upstream = Given([said("", CALL)])
    helper = {"messages": [{"role": "user", "content": "look around"}]}
    async with served(upstream, max_iterations=1, max_tokens=60) as (proxy, url):
        assert [(await ask(url, **helper))[0] for _ in range(3)] == [200] * 3
        assert (await ask(url))[0] == 200
        assert [(await ask(url, **helper))[0] for _ in range(2)] == [429, 429]  # 65 tokens
        assert proxy.spent == "max_tokens"


async def test_a_subagent_may_go_on_while_the_work_waits_for_its_last_calls() -> None:
    async with served(Given([said("", CALL)]), max_iterations=1) as (proxy, url):
        assert (await ask(url))[0] == 200
        assert (await ask(url, messages=[{"role": "user", "content": "look around"}]))[0] == 200
        assert (await ask(url))[0] == 429
        assert proxy.spent == "max_iterations"


async def test_a_review_has_budgets_of_its_own() -> None:
    review = {"messages": [*BODY["messages"], {"role": "user", "content": REVIEW}]}  # type: ignore[misc]
    async with served(Given([said("", CALL)]), max_iterations=1, review_iterations=2) as (proxy, url):
        assert [(await ask(url, **review))[0] for _ in range(3)] == [200, 200, 429]
        assert (proxy.spent, proxy.review_spent) == (None, "max_iterations")
        with anyio.move_on_after(0.05) as waited:
            await proxy.interrupted()
        assert waited.cancelled_caught  # the work goes on
        assert [(await ask(url))[0] for _ in range(2)] == [200, 429]
        assert proxy.spent == "max_iterations"
        proxy.begin_turn(review=True)  # the lab asks for one, after the work has ended
        with anyio.move_on_after(0.05) as waited:
            await proxy.interrupted()
        assert waited.cancelled_caught
        assert [(await ask(url, **review))[0] for _ in range(3)] == [200, 200, 429]
        with anyio.fail_after(60):
            await proxy.interrupted()
        assert (await ask(url, **review))[0] == 429


async def test_iterations_count_per_submission() -> None:
    async with served(Given([said("", CALL)]), max_iterations=2) as (proxy, url):
        for _ in range(2):
            proxy.begin_turn()
            assert [(await ask(url))[0] for _ in range(2)] == [200, 200]


async def test_a_client_that_hangs_up_is_no_failure() -> None:
    upstream = Given([said("late")], delay=600)
    async with served(upstream) as (proxy, url):
        await cancelled_once(lambda: bool(upstream.requests), lambda: ask(url))
        with anyio.fail_after(60):
            await proxy.quiet(0.1)
        assert proxy.failure is None
        assert proxy.exchanges[0].generation is None


async def test_a_slow_stream_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_lab.proxy.server._PING_SECONDS", 0.05)
    for dialect, ping in (("chat", b": waiting"), ("messages", b"event: ping"), ("responses", b": waiting")):
        async with served(Given([said("late")], delay=0.3)) as (_, url):
            headers = {"x-api-key": KEY}
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.post(url + PATHS[dialect], json=BODY | {"stream": True}) as reply,
            ):
                content = await reply.read()
            assert content.startswith(ping)
            assert b"late" in content


async def test_images_that_a_record_cannot_hold_are_counted() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    asked = {"role": "user", "content": [{"type": "text", "text": "Look."}, image, image]}
    async with served(Given([said("x"), said("y")])) as (proxy, url):
        assert proxy.lost == 0
        async with aiohttp.ClientSession(headers={"x-api-key": KEY}) as session:
            for messages in ([asked], [asked, {"role": "assistant", "content": "x"}, {"role": "user", "content": "?"}]):
                assert (await session.post(url + PATHS["chat"], json=BODY | {"messages": messages})).status == 200
        assert proxy.lost == 2  # the second request repeats them


async def test_what_is_not_offered_or_no_request_is_refused() -> None:
    async with served(Given([said("x")])) as (proxy, url):
        async with aiohttp.ClientSession(headers={"x-api-key": KEY}) as session:
            for path in ("/v1/embeddings", "/v1/files"):
                reply = await session.post(url + path, json={})
                assert (reply.status, f"POST {path} is not offered here" in await reply.text()) == (404, True)
            assert (await session.post(url + PATHS["chat"], data=b"{")).status == 400
            assert (await session.post(url + PATHS["chat"], json=[1])).status == 400
        assert proxy.exchanges == []


class Backwards:
    """An upstream that answers, once there are three requests, the last one first."""

    def __init__(self) -> None:
        self.asked = self.answered = 0

    async def answer(self, request: Request) -> Answer:
        place = self.asked
        self.asked += 1
        while self.asked < 3 or self.answered < 2 - place:  # noqa: ASYNC110 - other requests
            await anyio.sleep(0.001)
        self.answered += 1
        return Answer(said("fine"))


async def test_requests_that_arrive_together_keep_their_order() -> None:
    async with served(Backwards()) as (proxy, url):
        host, port = url.removeprefix("http://").split(":")
        streams = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
        await anyio.sleep(0.05)  # so that all are accepted
        for number, (_, writer) in enumerate(streams):  # without a pause, so that the server sees them at once
            body = json.dumps(BODY | {"messages": [{"role": "user", "content": f"look at {number}"}]})
            head = f"POST {PATHS['chat']} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        for reader, writer in streams:
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()
        arrived = [exchange.asked.messages[-1].content for exchange in proxy.exchanges]
        found = [thread.messages[0].content for thread in proxy.conversations().others]
        assert sorted(arrived) == ["look at 0", "look at 1", "look at 2"]
        assert found == arrived
