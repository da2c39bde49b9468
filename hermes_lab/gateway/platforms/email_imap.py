"""An IMAP inbox: which mails are new, and what they hold. Mails are left as they are: nothing is marked or deleted."""

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import date
from typing import Any, NamedTuple

import anyio

from hermes_lab.gateway.platform import PlatformError, Refused

_MOST_BYTES = 2 << 20  # of a mail; texts come before attachments
_SECONDS = 10.0
_IDLE_SECONDS, _POLL_SECONDS = 240.0, 60.0
_PASSING = re.compile(rb"\[(UNAVAILABLE|INUSE|LIMIT|SERVERBUG)\]")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Server(NamedTuple):
    """Where to sign in. `tls` is None where nothing is encrypted; `at_once`: it is from the first byte on."""

    host: str
    port: int
    user: str
    password: str
    tls: ssl.SSLContext | None
    at_once: bool


class Fetched(NamedTuple):
    """A mail, or the beginning of a very large one."""

    raw: bytes
    whole: bool


class Inbox:
    """The inbox of an account. All methods raise `PlatformError`.

    `validity` says until when uids keep their meaning: they do while it is the same. `next` is the uid that the next
    mail will have at least; 0 if the server does not say.
    """

    def __init__(self, imap: Any, lost: anyio.Event) -> None:
        self.validity = ""
        self.next = 0
        self._imap = imap
        self._lost = lost
        self._idles = True

    async def select(self) -> None:
        """Opens it."""
        answer = await self._asked(self._imap.select("INBOX"))
        said = b" ".join(map(bytes, answer.lines))
        if not (found := re.search(rb"\[UIDVALIDITY (\d+)\]", said)):
            raise PlatformError("IMAP: the server has no UIDVALIDITY")
        self.validity = found[1].decode()
        self.next = int(found[1]) if (found := re.search(rb"\[UIDNEXT (\d+)\]", said)) else 0

    async def after(self, uid: int) -> list[int]:
        """The uids above one, in order."""
        # n:* always names the newest mail, even one below n.
        return [each for each in await self._search(f"UID {uid + 1}:*") if each > uid]

    async def since(self, day: date) -> list[int]:
        """The uids of the mails that arrived on a day or later, in order."""
        return await self._search(f"SINCE {day.day}-{_MONTHS[day.month - 1]}-{day.year}")

    async def _search(self, what: str) -> list[int]:
        answer = await self._asked(self._imap.uid_search(what, charset=None))
        return sorted({int(word) for line in answer.lines[:-1] for word in bytes(line).split() if word.isdigit()})

    async def fetch(self, uid: int) -> Fetched | None:
        """A mail; None if it was deleted meanwhile."""
        parts = f"(RFC822.SIZE BODY.PEEK[]<0.{_MOST_BYTES}>)"
        answer = await self._asked(self._imap.uid("fetch", str(uid), parts))
        raw = next((bytes(line) for line in answer.lines if isinstance(line, bytearray)), None)
        size = re.search(rb"RFC822\.SIZE (\d+)", b" ".join(bytes(line) for line in answer.lines if line is not raw))
        if raw is None:
            return None
        return Fetched(raw, len(raw) < _MOST_BYTES or (size is not None and int(size[1]) <= _MOST_BYTES))

    async def wait(self) -> None:
        """Returns when something may have arrived."""
        from aioimaplib import AioImapException

        if self._idles and self._imap.has_capability("IDLE"):
            with _failures():
                try:
                    with anyio.fail_after(_SECONDS):
                        idle = await self._imap.idle_start(_IDLE_SECONDS)
                except AioImapException:  # it says that it can, but refuses
                    self._idles = False
                    return
                await self._imap.wait_server_push(_IDLE_SECONDS + _SECONDS)
                self._imap.idle_done()
                with anyio.fail_after(_SECONDS):
                    await idle
        else:
            await anyio.sleep(_POLL_SECONDS)
            await self._asked(self._imap.noop())

    async def watch(self) -> None:
        """Fails when the connection is cut."""
        await self._lost.wait()
        raise PlatformError("IMAP: the connection was cut")

    async def _asked(self, command: Any) -> Any:
        with _failures():
            answer = await command
        if answer.result != "OK":
            raise PlatformError(f"IMAP: the server answers {answer.result}")
        return answer


@asynccontextmanager
async def open_inbox(server: Server) -> AsyncIterator[Inbox]:
    """Signs in, and opens the inbox. Raises `PlatformError`, and `Refused` for a wrong password."""
    from aioimaplib import IMAP4

    logging.getLogger("aioimaplib").setLevel(logging.WARNING)  # below that it logs mails
    lost = anyio.Event()
    imap = IMAP4(
        server.host,
        server.port,
        timeout=_SECONDS,
        conn_lost_cb=lambda _: lost.set(),
        ssl_context=server.tls if server.at_once else None,
    )
    _guard(imap.protocol)
    inbox = Inbox(imap, lost)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(inbox.watch)
            with _failures():
                await imap.wait_hello_from_server()
                if server.tls and not server.at_once:
                    await _start_tls(imap, server.host, server.tls)
                answer = await imap.login(_quoted(server.user), server.password)
            if answer.result != "OK":
                if _PASSING.search(b" ".join(map(bytes, answer.lines))):
                    raise PlatformError("IMAP: the server cannot let anybody in now")
                raise Refused("IMAP: wrong user or password")
            with _failures():
                await asyncio.wait_for(imap.protocol.capability(), _SECONDS)
            await inbox.select()
            group.cancel_scope.cancel()
        yield inbox
    finally:
        _close(imap)


async def _start_tls(imap: Any, host: str, tls: ssl.SSLContext) -> None:
    from aioimaplib.aioimaplib import Command

    protocol = imap.protocol
    asked = Command("STARTTLS", protocol.new_tag(), loop=protocol.loop)
    answer = await asyncio.wait_for(protocol.execute(asked), _SECONDS)
    # What came before the encryption may be anybody's.
    if answer.result != "OK" or protocol.incomplete_line:
        raise Refused("IMAP: the server does not offer STARTTLS (gateway.email.security)")
    loop = asyncio.get_running_loop()
    start = loop.start_tls(protocol.transport, protocol, tls, server_hostname=host)
    protocol.transport = await asyncio.wait_for(start, _SECONDS)
    protocol.capabilities = set()


def _guard(protocol: Any) -> None:
    """Ends the connection for an answer that the library does not understand: its errors hold what was sent, with the
    password, and would be logged."""
    received = protocol.data_received

    def guarded(data: bytes) -> None:
        try:
            received(data)
        except Exception:
            protocol.transport.abort()

    protocol.data_received = guarded


def _close(imap: Any) -> None:
    protocol = imap.protocol
    if protocol.transport is not None:
        if imap.has_pending_idle():
            imap.idle_done()
        protocol.transport.close()
    for task in (imap._client_task, *imap.tasks, *protocol.tasks):
        task.cancel()


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@contextmanager
def _failures() -> Iterator[None]:
    """Errors of the library may hold what was sent, and are not shown."""
    from aioimaplib import AioImapException

    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise PlatformError(f"IMAP: the server's certificate is not valid: {error.verify_message}") from None
    except OSError as error:  # timeouts, too
        why = "no answer" if isinstance(error, TimeoutError) else error.strerror or type(error).__name__
        raise PlatformError(f"IMAP: {why}") from None
    except AioImapException as error:
        why = "no answer" if type(error).__name__ == "CommandTimeout" else "an answer that cannot be understood"
        raise PlatformError(f"IMAP: {why}") from None
    except ValueError:
        raise Refused("IMAP: the user or the password has a character that cannot be sent") from None
