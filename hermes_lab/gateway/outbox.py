"""Sends what is in the outbox of one platform: in order for each chat, and again after a failure."""

import logging
import time
from pathlib import Path

import anyio

from hermes_lab.gateway.platform import Connection, Outbound, Platform, PlatformError, TryLater, Undeliverable, Unsure
from hermes_lab.gateway.store import GatewayStore, Ids, Letter

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 300.0
_MOST_SECONDS = 3600.0
"""How long a message waits for its next attempt at most, however long its platform asks for."""
_MOST_TRIES, _MOST_DOUBTFUL = 40, 3
_SEND_SECONDS, _FILE_SECONDS = 20.0, 150.0
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
                    left = letter.not_before - now
                    if 0 < left <= _MOST_SECONDS + _LONGEST_SECONDS:  # else the clock was ahead when it was set
                        wait = min(wait, left)
                        continue
                    self._under_way.add(chat)
                    group.start_soon(self._one, connection, letter)
                with anyio.move_on_after(wait):
                    await self._changed.wait()

    async def _one(self, connection: Connection, letter: Letter) -> None:
        try:
            # The end of the daemon waits for the answer, so that nothing is sent twice.
            with anyio.CancelScope(shield=True):
                if await self._store.call(self._store.sending, letter):
                    await self._attempt(connection, letter)
        finally:
            self._under_way.discard((letter.chat, letter.thread))
            self.wake()

    async def _attempt(self, connection: Connection, letter: Letter) -> None:
        store, message = self._store, self._message(letter)
        patience: float = getattr(self._platform, "send_seconds", _SEND_SECONDS)
        seconds = max(patience, _FILE_SECONDS) if letter.files else patience
        try:
            with anyio.fail_after(seconds):
                sent = await connection.send(message)
        except TryLater as error:
            await self._later(letter, error, error.seconds)
        except PlatformError as error:
            await self._failed(letter, error)
        except TimeoutError:
            await self._failed(letter, Unsure(f"no answer within {seconds:g} s"))
        except Undeliverable as error:
            _log.warning("a message to %s cannot be sent: %s", self._ids(letter.platform, letter.chat), error)
            await store.call(store.dead, letter.number, str(error))
        except Exception as error:  # a fault of the platform's code, which may come each time
            _log.error("%s failed to send a message: %s", letter.platform, type(error).__name__)
            await self._failed(letter, Unsure(type(error).__name__))
        else:
            await store.call(store.sent, letter.number, sent)

    def _message(self, letter: Letter) -> Outbound:
        """The message of a letter, marked if it comes again, where there is room."""
        again = letter.doubtful and not self._platform.idempotent
        marked = f"{letter.text}\n{_AGAIN}" if letter.text else _AGAIN
        limit = self._platform.limit
        text = marked if again and limit.measure(marked) <= limit.most else letter.text
        files = tuple(map(Path, letter.files))
        return Outbound(letter.key, letter.chat, letter.thread, text, letter.reply_to, files, letter.doubtful)

    async def _failed(self, letter: Letter, error: PlatformError) -> None:
        tries = letter.tries + 1
        # Each doubtful attempt may have arrived: many of them would be many copies.
        copies = isinstance(error, Unsure) and letter.doubtful and not self._platform.idempotent
        if tries >= _MOST_TRIES or (copies and tries >= _MOST_DOUBTFUL):
            why = f"given up after {tries} tries: {error}"
            _log.warning("a message to %s is %s", self._ids(letter.platform, letter.chat), why)
            await self._store.call(self._store.dead, letter.number, why)
            return
        await self._later(letter, error, min(_FIRST_SECONDS * 2**letter.tries, _LONGEST_SECONDS))

    async def _later(self, letter: Letter, error: PlatformError, seconds: float) -> None:
        # Once in doubt, it stays so: that the next attempt failed does not say that the first did.
        doubtful = letter.doubtful or isinstance(error, Unsure)
        until = time.time() + min(seconds, _MOST_SECONDS)
        await self._store.call(self._store.later, letter.number, until, str(error), doubtful=doubtful)
