"""What each error of Slack means for a message."""

from collections.abc import AsyncIterator

import pytest
from fakes.slack_api import BOT_TOKEN, SlackApi

from hermes_lab.gateway.platform import PlatformError, Refused, TryLater, Undeliverable, Unsure
from hermes_lab.gateway.platforms.slack_errors import failures

MEANINGS = {
    Refused: ("invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive", "missing_scope"),
    TryLater: ("ratelimited", "rate_limited", "429"),
    Undeliverable: ("channel_not_found", "not_in_channel", "is_archived", "msg_too_long", "no_text", "new_error"),
    Unsure: ("internal_error", "fatal_error", "500", "503", "html", "text", "cut", "cut after", "hang"),
    PlatformError: ("service_unavailable", "request_timeout"),
}


@pytest.fixture
async def api() -> AsyncIterator[SlackApi]:
    async with SlackApi() as api:
        yield api


async def post(api: SlackApi, *, sending: bool = True, timeout: int = 60) -> None:
    from slack_sdk.web.async_client import AsyncWebClient

    web = AsyncWebClient(BOT_TOKEN, api.url, timeout=timeout, retry_handlers=[])
    web.proxy = None
    with failures("SLACK_BOT_TOKEN", sending=sending):
        await web.chat_postMessage(channel="C1", text="Confidential")


@pytest.mark.parametrize(("kind", "fault"), [(kind, fault) for kind, faults in MEANINGS.items() for fault in faults])
async def test_an_error_has_its_meaning_and_tells_no_text(api: SlackApi, kind: type[Exception], fault: str) -> None:
    api.faults["chat.postMessage"].append(fault)
    with pytest.raises(kind) as raised:
        await post(api, timeout=1 if fault == "hang" else 60)
    assert type(raised.value) is kind
    assert "Confidential" not in str(raised.value)
    assert "xoxb" not in str(raised.value)
    assert len(api.calls) == 1


async def test_a_server_that_is_not_there_has_taken_nothing(api: SlackApi) -> None:
    api.url = "http://127.0.0.1:9/api/"
    with pytest.raises(PlatformError) as raised:
        await post(api)
    assert type(raised.value) is PlatformError


async def test_a_call_that_sends_nothing_is_never_in_doubt(api: SlackApi) -> None:
    for fault in ("cut after", "internal_error", "channel_not_found"):
        api.faults["chat.postMessage"].append(fault)
        with pytest.raises(PlatformError) as raised:
            await post(api, sending=False)
        assert type(raised.value) is PlatformError


async def test_a_rate_limit_says_how_long(api: SlackApi) -> None:
    api.flood, api.flood_seconds = True, 600
    await post(api)
    with pytest.raises(TryLater) as raised:
        await post(api)
    assert raised.value.seconds == 1
