"""Sends what is in the outbox of one platform: in order for each chat, and again after a failure."""

import logging
import time
from pathlib import Path

import anyio
import anyio.abc

from hermes_lab.gateway.platform import Connection, Outbound, Platform, PlatformError, TryLater, Unclear, Undeliverable
from hermes_lab.gateway.store import GatewayStore, Ids, Letter

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 300.0
_MOST_TRIES = 40
_FINISH_SECONDS = 10.0
_AGAIN = "(sent again: it may have arrived before)"
_log = logging.getLogger("hermes_lab.gateway")


class Outbox:
    """The messages to one platform."""

    def __init__(self, store: GatewayStore, platform: Platform, ids: Ids) -> None:
        self._store = store
        self._platform = platform
        self._ids = ids
        self._changed = anyio.Event()
        self._under_way: dict[tuple[str, str], anyio.CancelScope] = {}

    def wake(self) -> None:
        """Says that there is something to send."""
        self._changed.set()

    async def send(self, connection: Connection) -> None:
        """Sends until it is cancelled; what is being sent then has a few seconds to arrive. A chat that cannot be
        reached delays no other."""
        async with anyio.create_task_group() as group:
            try:
                while True:
                    self._changed = anyio.Event()
                    wait = await self._start(group, connection)
                    with anyio.move_on_after(wait):
                        await self._changed.wait()
            finally:
                for scope in self._under_way.values():
                    scope.deadline = anyio.current_time() + _FINISH_SECONDS

    async def _start(self, group: anyio.abc.TaskGroup, connection: Connection) -> float:
        """Starts to send what is due. Returns how long nothing else is, in seconds."""
        now, wait = time.time(), _LONGEST_SECONDS
        for letter in await self._store.call(self._store.letters, self._platform.name):
            chat = (letter.chat, letter.thread)
            if chat in self._under_way:
                continue
            if letter.not_before > now:
                wait = min(wait, letter.not_before - now)
                continue
            scope = self._under_way[chat] = anyio.CancelScope(shield=True)
            group.start_soon(self._one, connection, letter, scope)
        return wait

    async def _one(self, connection: Connection, letter: Letter, scope: anyio.CancelScope) -> None:
        store = self._store
        try:
            with scope:
                message = self._message(letter)
                await store.call(store.sending, letter.number)
                try:
                    sent = await connection.send(message)
                except TryLater as error:
                    await self._later(letter, error, error.seconds)
                except PlatformError as error:
                    await self._failed(letter, error)
                except Undeliverable as error:
                    _log.warning("a message to %s cannot be sent: %s", self._ids(letter.platform, letter.chat), error)
                    await store.call(store.dead, letter.number, str(error))
                else:
                    await store.call(store.sent, letter.number, sent)
        finally:
            del self._under_way[letter.chat, letter.thread]
            self.wake()

    def _message(self, letter: Letter) -> Outbound:
        again = letter.doubtful and not self._platform.idempotent
        marked = f"{letter.text}\n{_AGAIN}"
        limit = self._platform.limit
        text = marked if again and letter.text and limit.measure(marked) <= limit.most else letter.text
        files = tuple(map(Path, letter.files))
        return Outbound(letter.key, letter.chat, letter.thread, text, letter.reply_to, files, letter.doubtful)

    async def _failed(self, letter: Letter, error: PlatformError) -> None:
        store = self._store
        if letter.tries + 1 >= _MOST_TRIES:
            await store.call(store.dead, letter.number, f"given up after {_MOST_TRIES} tries: {error}")
            return
        seconds = min(_FIRST_SECONDS * 2**letter.tries, _LONGEST_SECONDS)
        await self._later(letter, error, seconds)

    async def _later(self, letter: Letter, error: PlatformError, seconds: float) -> None:
        doubtful = letter.doubtful or isinstance(error, Unclear)
        await self._store.call(self._store.later, letter.number, time.time() + seconds, str(error), doubtful)
