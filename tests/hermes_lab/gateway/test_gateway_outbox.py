"""Messages that may have arrived already."""

import time
from pathlib import Path

import anyio
import pytest
from fakes.wire import Start, Wire

from hermes_lab.gateway.platform import PlatformError, TryLater, Unsure
from hermes_lab.gateway.platforms.email import EmailPlatform
from hermes_lab.gateway.platforms.email_smtp import _SIGN_IN_SECONDS, _TAKE_SECONDS
from hermes_lab.gateway.store import GatewayStore
from hermes_lab.sessions import SessionKey

PLACE = SessionKey("wire", "1", "", "dm")
MARK = "(sent again: an earlier attempt may have arrived)"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_lab.gateway.outbox._FIRST_SECONDS", 0.01)


async def test_a_message_in_doubt_stays_in_doubt_until_it_is_taken(start: Start, wire: Wire) -> None:
    wire.failures = [Unsure("cut"), PlatformError("refused")]
    async with start(wire) as gateway:
        await gateway.post("one", PLACE, "hello")
        assert await wire.replies(1) == [f"hello\n{MARK}"]
    assert wire.sent[0].again


async def test_a_message_that_did_not_arrive_is_sent_as_it_is(start: Start, wire: Wire) -> None:
    wire.failures = [PlatformError("refused")]
    async with start(wire) as gateway:
        await gateway.post("one", PLACE, "hello")
        assert await wire.replies(1) == ["hello"]
    assert not wire.sent[0].again


async def test_a_message_that_fills_the_limit_comes_again_without_a_mark(start: Start, wire: Wire) -> None:
    wire.failures = [Unsure("cut")]
    async with start(wire) as gateway:
        await gateway.post("one", PLACE, "a" * 200)
        assert await wire.replies(1) == ["a" * 200]
    assert wire.sent[0].again


async def test_the_end_waits_for_what_is_being_sent(start: Start, wire: Wire, home: Path) -> None:
    wire.slow = 0.2
    async with start(wire) as gateway:
        await gateway.post("one", PLACE, "hello")
        with anyio.fail_after(60):
            while not GatewayStore(home).counts()["outbox"].get("sending"):  # noqa: ASYNC110 - another task
                await anyio.sleep(0.01)
    assert GatewayStore(home).counts()["outbox"] == {"sent": 1}


async def test_a_fault_in_a_platforms_code_stops_neither_it_nor_other_messages(
    start: Start, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    wire.failures = [KeyError("a secret text")]
    async with start(wire) as gateway:
        await gateway.post("one", PLACE, "hello")
        with anyio.fail_after(60):
            while wire.failures:  # noqa: ASYNC110 - another task
                await anyio.sleep(0.01)
        await gateway.post("two", SessionKey("wire", "2", "", "dm"), "there")
        assert await wire.replies(1) == [f"hello\n{MARK}"]
        assert await wire.replies(1, "2") == ["there"]
    assert "wire failed to send a message: KeyError" in caplog.text
    assert "secret" not in caplog.text
    assert "wire is down" not in caplog.text


async def ended(home: Path, **counts: int) -> None:
    """Waits until the outbox has these messages alone."""
    with anyio.fail_after(60):
        while GatewayStore(home).counts()["outbox"] != counts:  # noqa: ASYNC110 - another task
            await anyio.sleep(0.01)


async def test_a_message_that_stays_in_doubt_is_given_up_before_it_has_arrived_many_times(
    start: Start, wire: Wire, home: Path
) -> None:
    wire.failures = [Unsure("no answer")] * 9
    async with start(wire) as gateway:
        await gateway.post("one", PLACE, "hello")
        await ended(home, dead=1)
    assert len(wire.failures) == 6


async def test_a_platform_that_recognises_repeats_is_tried_on(start: Start, wire: Wire) -> None:
    wire.idempotent = True
    wire.failures = [Unsure("no answer")] * 5
    async with start(wire) as gateway:
        await gateway.post("one", PLACE, "hello")
        assert await wire.replies(1) == ["hello"]


async def test_a_slow_platform_gets_the_time_that_it_asks_for(
    start: Start, wire: Wire, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes_lab.gateway.outbox._SEND_SECONDS", 0.05)
    patient = Wire("patient")
    patient.send_seconds = 20.0  # type: ignore[attr-defined]
    wire.slow = patient.slow = 0.5
    async with start(wire, patient) as gateway:
        await gateway.post("one", PLACE, "hello")
        await gateway.post("two", SessionKey("patient", "1", "", "dm"), "hello")
        assert await patient.replies(1) == ["hello"]
        await ended(home, dead=1, sent=1)
    assert not patient.sent[0].again
    assert not wire.sent
    assert EmailPlatform.send_seconds > _SIGN_IN_SECONDS + _TAKE_SECONDS


async def test_no_wait_is_longer_than_an_hour(start: Start, wire: Wire, home: Path) -> None:
    wire.failures = [TryLater(1e8)]
    store = GatewayStore(home)
    async with start(wire) as gateway:
        await gateway.post("one", PLACE, "hello")
        with anyio.fail_after(60):
            while wire.failures or not store.counts()["outbox"].get("pending"):  # noqa: ASYNC110 - another task
                await anyio.sleep(0.01)
    (letter,) = store.letters("wire")
    assert time.time() < letter.not_before <= time.time() + 3600
    store.later(letter.number, time.time() + 1e8, "as by a clock that was ahead")
    async with start(wire):
        assert await wire.replies(1) == ["hello"]
