"""What the Matrix platform makes of a homeserver's refusals, and of who is meant by a message. Needs no Synapse."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from aiohttp import web
from fakes.desk import Desk
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.config.gateway import MatrixConfig
from hermes_lab.errors import ConfigError
from hermes_lab.gateway.platform import Outbound, PlatformError, Refused, TryLater, Undeliverable, Unsure
from hermes_lab.gateway.platforms import matrix_events as events
from hermes_lab.gateway.platforms.matrix import MatrixPlatform
from hermes_lab.gateway.platforms.matrix_requests import SignedOut


@pytest.fixture
def desk() -> Desk:
    return Desk()


@asynccontextmanager
async def homeserver(
    answer: Callable[[web.Request], web.Response | None], login: web.Response | None = None
) -> AsyncIterator[str]:
    """One that answers requests to send so; None: it closes the connection. `login`: its answer to a login; None: it
    lets anybody in."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/login") and login:
            return login
        if request.path.endswith("/login"):
            body = {"user_id": "@bot:localhost", "access_token": "secret-token", "device_id": "D"}
            return web.json_response(body)
        if "/send/" not in request.path:
            return web.json_response({"errcode": "M_NOT_FOUND", "error": "@ann:localhost"}, status=404)
        if found := answer(request):
            return found
        assert request.transport
        request.transport.close()
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "http://{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()


def refusal(status: int, code: str, **more: object) -> web.Response:
    return web.json_response({"errcode": code, "error": "no, @ann:localhost, not !room", **more}, status=status)


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (lambda _: refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=2500), TryLater, "try again in 2.5 s"),
        (lambda _: web.Response(status=429), TryLater, "try again in 5 s"),
        (lambda _: refusal(403, "M_FORBIDDEN"), Undeliverable, "M_FORBIDDEN"),
        (lambda _: refusal(413, "M_TOO_LARGE"), Undeliverable, "M_TOO_LARGE"),
        (lambda _: refusal(400, "M_UNKNOWN"), Undeliverable, "M_UNKNOWN"),
        (lambda _: refusal(401, "M_UNKNOWN_TOKEN"), PlatformError, "M_UNKNOWN_TOKEN"),
        (lambda _: refusal(403, "M_USER_DEACTIVATED"), PlatformError, "M_USER_DEACTIVATED"),
        (lambda _: refusal(404, "M_UNRECOGNIZED"), PlatformError, "M_UNRECOGNIZED"),
        (lambda _: refusal(500, "M_UNKNOWN"), PlatformError, "HTTP 500"),
        (lambda _: web.Response(status=502, text="<html>"), PlatformError, "no Matrix error"),
        (lambda _: web.Response(status=404, text="<html>"), PlatformError, "no Matrix error"),
        (lambda _: web.json_response([]), PlatformError, "no Matrix error"),
        (lambda _: None, Unsure, "does not answer"),
    ],
)
async def test_what_a_refusal_means(
    answer: Callable[[web.Request], web.Response | None],
    kind: type[Exception],
    told: str,
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MATRIX_PASSWORD", "pw")
    async with homeserver(answer) as url:
        config = MatrixConfig(homeserver=url, user="@bot:localhost")
        async with MatrixPlatform(config).connect(desk) as connection:
            with pytest.raises(kind, match=told) as caught:
                await connection.send(Outbound("k", "!r:localhost", "$t", "Hi"))
    assert type(caught.value) in (kind, SignedOut)
    for secret in ("ann", "room", "token", "pw"):
        assert secret not in str(caught.value).replace("UNKNOWN_TOKEN", "")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "M_FORBIDDEN", Refused),
        (400, "M_UNKNOWN", Refused),
        (429, "M_LIMIT_EXCEEDED", TryLater),
        (500, "M_UNKNOWN", PlatformError),
    ],
)
async def test_only_a_wrong_password_or_user_is_pointless_to_repeat(
    status: int, code: str, kind: type[Exception], desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MATRIX_PASSWORD", "pw")
    async with homeserver(lambda _: None, refusal(status, code)) as url:
        with pytest.raises(kind) as caught:
            async with MatrixPlatform(MatrixConfig(homeserver=url, user="@bot:localhost")).connect(desk):
                pass
    assert type(caught.value) is kind
    assert "ann" not in str(caught.value)


async def test_a_homeserver_that_hangs_or_is_gone_is_noticed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_PASSWORD", "pw")
    monkeypatch.setattr("hermes_lab.gateway.platforms.matrix._REQUEST_SECONDS", 0.2)
    release = anyio.Event()

    async def handle(request: web.Request) -> web.Response:
        await release.wait()
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = "http://{}:{}".format(*runner.addresses[0][:2])
    matrix = MatrixPlatform(MatrixConfig(homeserver=url, user="@bot:localhost"))
    with pytest.raises(Unsure, match="does not answer"):
        async with matrix.connect(desk):
            pass
    release.set()
    await runner.cleanup()
    with pytest.raises(PlatformError, match="cannot be reached") as caught:
        async with matrix.connect(desk):
            pass
    assert not isinstance(caught.value, (Unsure, Refused))


@pytest.mark.parametrize(
    ("content", "meant"),
    [
        ({"body": "Hermes Bot: hi"}, True),
        ({"body": "@hermes hi"}, True),
        ({"body": "HERMES, hi"}, True),
        ({"body": "hi @hermes:host"}, True),
        ({"body": "/new"}, True),
        ({"body": "hi", "m.mentions": {"user_ids": ["@hermes:host"]}}, True),
        ({"body": "hermeshi"}, False),
        ({"body": "the hermes"}, False),
        ({"body": "hi", "m.mentions": {"user_ids": "@hermes:host"}}, False),
        ({"body": "hi", "m.mentions": {"room": True}}, False),
        ({"body": ""}, False),
    ],
)
def test_who_is_meant(content: dict[str, object], meant: bool) -> None:
    assert events.mentions({"msgtype": "m.text", **content}, "@hermes:host", ("Hermes Bot", "hermes")) is meant
    assert not events.mentions({"msgtype": "m.text", "body": "hi"}, "@hermes:host", ("", ""))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("Hermes: /status", "/status"),
        ("@hermes /status", "/status"),
        ("@hermes:host: go", "go"),
        ("Hermes Bot, go", "go"),
        ("Hermes is here", "Hermes is here"),
        ("Hermes:", "Hermes:"),
        ("go", "go"),
    ],
)
def test_the_name_before_a_text_is_left_out(body: str, text: str) -> None:
    assert events.without_name(body, "@hermes:host", ("Hermes Bot", "hermes")) == text


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "gateway.matrix.homeserver"),
        ({"homeserver": "matrix.org", "user": "@a:b"}, "gateway.matrix.homeserver"),
        ({"homeserver": "https://matrix.org", "user": "hermes"}, "gateway.matrix.user"),
    ],
)
def test_what_is_missing_in_the_configuration_is_told(fields: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        MatrixPlatform(MatrixConfig(**fields))


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["", "m.text", "m.file", "m.thread", "m.replace", "> <a"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["event_id", "rel_type", "m.in_reply_to", "user_ids", "is_falling_back", "key"]), inner
        )
    ),
    max_leaves=6,
)


@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("msgtype", "body", "filename", "m.relates_to", "m.mentions"), ODD)
    )
)
def test_fields_may_have_any_type(content: dict[str, object]) -> None:
    assert isinstance(events.mentions(content, "@hermes:host", ("Hermes",)), bool)
    assert all(isinstance(found, str) for found in (events.said(content), events.thread_of(content)))
    assert isinstance(events.answered(content), str)
    events.verdict(content.get("body"))
