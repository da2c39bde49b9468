"""One HTTP server under a base URL: a connection pool and the single retry layer of model calls."""

import email.utils
import os
import random
import time
from typing import NamedTuple, Self

import aiohttp
import anyio
import msgspec

from hermes_lab.errors import ModelError

RETRIED = frozenset({408, 429, 500, 502, 503, 504, 529})
"""HTTP statuses that another try may mend."""
_FIRST_WAIT, _LONGEST_WAIT, _LONGEST_RETRY_AFTER = 0.5, 8.0, 60.0
# Below the 5 s after which uvicorn (vLLM) closes an idle connection: a request never meets a closing one.
_KEEP_ALIVE = 3.0
_CONNECT_SECONDS = 30.0
_LARGEST_BODY = 32 << 20


class Answer(NamedTuple):
    """The body of a successful reply, and how many tries failed before it."""

    content: bytes
    retries: int


class Refused(ModelError):
    """The server answered with an HTTP error, `status`; the message is the server's own, on one line."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class NoReply(ModelError):
    """The server took longer than it may."""


class _PassingError(Exception):
    """A failure that another try may mend, after `retry_after` seconds where the server said so."""

    def __init__(self, failure: ModelError, retry_after: float | None = None) -> None:
        self.failure = failure
        self.retry_after = retry_after


class Endpoint:
    """Requests to one server; an async context manager, made inside a running event loop.

    Connection errors, 408, 429 and 5xx are tried again up to `max_retries` times, with exponential backoff
    and jitter, or after the server's Retry-After. Whatever still fails is a `ModelError`; other 4xx are
    `Refused` at once. `timeout` is seconds for one try; running out of it is a `NoReply`, and not tried again. The
    key goes as a bearer token, or as it is in another `key_header`; it is in no error message.
    """

    def __init__(
        self,
        base_url: str,
        *,
        key: str = "",
        key_header: str = "Authorization",
        timeout: float = 60.0,
        max_retries: int = 4,
        connections: int = 16,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._key = key
        self._timeout = timeout
        self._max_retries = max_retries
        sent_key = f"Bearer {key}" if key_header == "Authorization" else key
        headers = {"Content-Type": "application/json"} | ({key_header: sent_key} if key else {})
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=_KEEP_ALIVE),
            timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS),
            headers=headers,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._session.close()

    async def get(self, path: str) -> Answer:
        """A GET."""
        return await self._request("GET", path, None)

    async def post(self, path: str, body: object) -> Answer:
        """A POST of `body` as JSON."""
        return await self._request("POST", path, msgspec.json.encode(body))

    async def _request(self, method: str, path: str, data: bytes | None) -> Answer:
        tried = 0
        while True:
            try:
                return Answer(await self._try(method, path, data), tried)
            except _PassingError as error:
                if tried >= self._max_retries:
                    raise error.failure from None
                await anyio.sleep(backoff(tried) if error.retry_after is None else error.retry_after)
                tried += 1

    async def _try(self, method: str, path: str, data: bytes | None) -> bytes:
        url = self.base_url + path
        try:
            async with self._session.request(method, url, data=data, allow_redirects=False) as response:
                content = await self._read(response)
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
            raise _PassingError(ModelError(f"{self.base_url}: {_connection_reason(error)}")) from None
        except TimeoutError:
            raise NoReply(f"{self.base_url}: no reply within {self._timeout:g} s") from None
        except aiohttp.ClientError as error:
            raise ModelError(f"{self.base_url}: no HTTP reply: {' '.join(str(error).split())}") from None
        status = response.status
        if status < 300:
            return content
        refused = Refused(f"{self.base_url}: HTTP {status}: {self._reason(content)}", status)
        if status in RETRIED:
            raise _PassingError(refused, _retry_after(response.headers.get("Retry-After", "")))
        raise refused

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """The body, as long as it can be a reply: a server gone wrong must not fill the memory."""
        body = bytearray()  # a Content-Length would tell nothing: a small body may unpack to a large one
        while len(body) <= _LARGEST_BODY and (chunk := await response.content.readany()):
            body += chunk
        if len(body) > _LARGEST_BODY:
            response.close()
            raise ModelError(f"{self.base_url}: a reply of more than {_LARGEST_BODY >> 20} MB is none")
        return bytes(body)

    def _reason(self, content: bytes) -> str:
        """The server's message on one line, and its code where that is a word."""
        text = content.decode(errors="replace")
        try:
            error = msgspec.json.decode(content)["error"]
            text = error if isinstance(error, str) else f"{error['message']} {_word(error.get('code'))}"
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
            pass  # no error object: the body itself says what it can
        line = " ".join(text.split())[:500]
        return line.replace(self._key, "***") if self._key else line


def _word(code: object) -> str:
    return f"({code})" if isinstance(code, str) else ""


def backoff(tried: int) -> float:
    """Seconds before the next try: exponential, with jitter, so that rollouts do not return all at once."""
    return min(_LONGEST_WAIT, _FIRST_WAIT * 2.0**tried) * random.uniform(0.5, 1.5)


def _connection_reason(error: aiohttp.ClientError) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = error.os_error
        if isinstance(reason, ConnectionError) and reason.errno:  # whose own text is "Connect call failed"
            return f"cannot connect: {os.strerror(reason.errno)}"
        return f"cannot connect: {reason.strerror or reason}"
    return f"the connection broke: {' '.join(str(error).split()) or type(error).__name__}"


def _retry_after(header: str) -> float | None:
    """Seconds to wait, from either form of the header (RFC 9110, 10.2.3)."""
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return min(seconds, _LONGEST_RETRY_AFTER) if seconds >= 0 else None
