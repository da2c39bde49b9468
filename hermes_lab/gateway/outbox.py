"""Sends what is in the outbox of one platform: in order for each chat, and again after a failure."""

import logging
import time
from pathlib import Path

import anyio

from hermes_lab.gateway.platform import Connection, Outbound, Platform, PlatformError, TryLater, Undeliverable, Unsure
from hermes_lab.gateway.store import GatewayStore, Ids, Letter

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 300.0
_MOST_TRIES = 40
_SEND_SECONDS = 20.0
_AGAIN = "(sent again: an earlier attempt may have arrived)"
_log = logging.getLogger("hermes_lab.gateway")


class Outbox:
    """The messages to one platform."""

    def __init__(self, store: GatewayStore, platform: Platform, ids: Ids) -> None:
        self._store = store
        self._platform = platform
        self._ids = ids
        self._changed = anyio.Event()
        self._under_way: set[tuple[str, str]] = set()

    def wake(self) -> None:
        """Says that there is something to send."""
        self._changed.set()

    async def send(self, connection: Connection) -> None:
        """Sends until it is cancelled. A chat that cannot be reached delays no other."""
        async with anyio.create_task_group() as group:
            while True:
                self._changed = anyio.Event()
                now, wait = time.time(), _LONGEST_SECONDS
                for letter in await self._store.call(self._store.letters, self._platform.name):
                    chat = (letter.chat, letter.thread)
                    if chat in self._under_way:
                        continue
                    if letter.not_before > now:
                        wait = min(wait, letter.not_before - now)
                        continue
                    self._under_way.add(chat)
                    group.start_soon(self._one, connection, letter)
                with anyio.move_on_after(wait):
                    await self._changed.wait()

    async def _one(self, connection: Connection, letter: Letter) -> None:
        store = self._store
        try:
            again = letter.doubtful and not self._platform.idempotent
            files = tuple(map(Path, letter.files))
            text = f"{letter.text}\n{_AGAIN}" if again else letter.text
            message = Outbound(letter.key, letter.chat, letter.thread, text, letter.reply_to, files)
            if not await store.call(store.sending, letter):
                return
            # The end of the daemon waits for the answer, so that nothing is sent twice.
            with anyio.CancelScope(shield=True):
                await self._attempt(connection, letter, message)
        finally:
            self._under_way.discard((letter.chat, letter.thread))
            self.wake()

    async def _attempt(self, connection: Connection, letter: Letter, message: Outbound) -> None:
        store = self._store
        try:
            with anyio.fail_after(_SEND_SECONDS):
                sent = await connection.send(message)
        except TryLater as error:
            await store.call(store.later, letter.number, time.time() + error.seconds, str(error))
        except PlatformError as error:
            await self._failed(letter, error)
        except TimeoutError:
            await self._failed(letter, Unsure(f"no answer within {_SEND_SECONDS:g} s"))
        except Undeliverable as error:
            _log.warning("a message to %s cannot be sent: %s", self._ids(letter.platform, letter.chat), error)
            await store.call(store.dead, letter.number, str(error))
        else:
            await store.call(store.sent, letter.number, sent)

    async def _failed(self, letter: Letter, error: PlatformError) -> None:
        store = self._store
        if letter.tries + 1 >= _MOST_TRIES:
            await store.call(store.dead, letter.number, f"given up after {_MOST_TRIES} tries: {error}")
            return
        seconds = min(_FIRST_SECONDS * 2**letter.tries, _LONGEST_SECONDS)
        unsure = isinstance(error, Unsure)
        await store.call(store.later, letter.number, time.time() + seconds, str(error), doubtful=unsure)
