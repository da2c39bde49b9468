"""One HTTP server under a base URL: a connection pool and the only retry layer of model calls."""

import ipaddress
import os
import random
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Generic, NamedTuple, Protocol, Self, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import aiohttp
import anyio
import msgspec

from hermes_lab.errors import ConfigError, ContextFull, ModelError
from hermes_lab.models.refusals import RETRIES, Failed, NoReply, Refused, Unreachable
from hermes_lab.models.waits import reset_wait, stated_wait

_RETRIED = frozenset({408, 425, 429})
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 8.0
_LONGEST_STATED_WAIT = 60.0
_LIMITED = 20.0
"""Factor on the waits after a 429 that states none, so that the retries outlast a limit per minute."""
_LASTING = re.compile(r"\binsufficient_quota\b")
"""Matches a 429 that no wait mends: the account has no credit."""
# Below uvicorn's 5 s (vLLM), so that no request is sent on a connection that is being closed.
_KEEP_ALIVE = 3.0
_CONNECT_SECONDS = 30.0
_LARGEST_BODY = 32 << 20
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


T = TypeVar("T")


def is_retryable(status: int) -> bool:
    """Whether a refusal with this HTTP status may succeed on a retry: every 5xx, and some 4xx."""
    return status >= 500 or status in _RETRIED


class Receiver(Protocol):
    """Gets the body of a successful reply while it is received."""

    def receive(self, chunk: bytes) -> None:
        """Gets the next bytes."""
        ...

    def restart(self) -> None:
        """The body so far is void: the request failed, and is sent again."""
        ...


class Answer(NamedTuple, Generic[T]):
    """A successful reply as parsed, and the number of failed tries before it."""

    content: T
    retries: int


class _TemporaryError(Exception):
    """A failure worth a retry. `wait` is what the server asked for, in seconds; None: nothing. `is_limit`: a rate limit
    refused the request."""

    def __init__(self, failure: ModelError, wait: float | None = None, *, is_limit: bool = False) -> None:
        self.failure = failure
        self.wait = wait
        self.is_limit = is_limit


class Endpoint:
    """Sends requests to one server. An async context manager, created inside a running event loop.

    Connection errors, 408, 425, 429, every 5xx, and bodies for which `read` raises `Failed` are retried up to
    `max_retries` times, with exponential backoff and jitter, or after the wait that the server states; if that is
    longer than a minute, they are not retried. After a 429 that states none, four retries outlast a minute. A failure
    that persists is a `ModelError`; any other 4xx, and a 429 for want of credit, is `Refused` at once. `timeout` is
    seconds per try; exceeding it is a `NoReply`, which is not retried. For a reply with a `Receiver` it is seconds
    without a byte instead, however long the reply.

    A query in the base URL is appended to every path. The key is sent as a bearer token, or verbatim in another
    `key_header`. Neither it nor `secrets`, such as the values of `headers`, appear in error messages. The proxy comes
    from the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`), except for addresses of this machine.
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
        headers: Mapping[str, str] | None = None,
        secrets: Collection[str] = (),
    ) -> None:
        address, mark, query = base_url.partition("?")
        self.base_url = address.rstrip("/")
        self._query = mark + query
        self._proxy = proxy_for(address)
        self._secrets = [secret for secret in (key, *secrets) if secret]
        self._timeout = timeout
        self._max_retries = max_retries
        sent_key = f"Bearer {key}" if key_header == "Authorization" else key
        sent = {"Content-Type": "application/json"} | ({key_header: sent_key} if key else {}) | dict(headers or {})
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=_KEEP_ALIVE), headers=sent
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._session.close()

    async def get(self, path: str) -> Answer[bytes]:
        """Sends a GET request."""
        return await self._request("GET", path, None, _unread, _let_pass, _NO_HEADERS, None)

    async def post(self, path: str, body: object) -> Answer[bytes]:
        """Posts `body` as JSON."""
        return await self.exchange(path, body, _unread)

    async def exchange(
        self,
        path: str,
        body: object,
        read: Callable[[bytes], T],
        refused: Callable[[Refused], None] | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        receiver: Receiver | None = None,
    ) -> Answer[T]:
        """Posts `body` as JSON and parses the reply with `read`. `headers` are sent besides the endpoint's own.
        `receiver` gets the bytes of the reply as they come, before `read`.

        If `read` raises `Failed`, the request is retried like any temporary failure; its other exceptions propagate.
        `refused` is called with every HTTP error first, and may raise a different one.
        """
        data = msgspec.json.encode(body)
        return await self._request("POST", path, data, read, refused or _let_pass, headers, receiver)

    async def _request(
        self,
        method: str,
        path: str,
        data: bytes | None,
        read: Callable[[bytes], T],
        see: Callable[[Refused], None],
        headers: Mapping[str, str],
        receiver: Receiver | None,
    ) -> Answer[T]:
        tried = 0
        while True:
            try:
                return Answer(read(await self._try(method, path, data, see, headers, receiver)), tried)
            except _TemporaryError as passing:
                error = passing
            except Failed as failure:
                said = self._without_key(str(failure))
                error = _TemporaryError(
                    Failed(said, failure.status), stated_wait(_NO_HEADERS, said), is_limit=failure.status == 429
                )
            except (ModelError, ContextFull) as final:
                final.args = (self._without_key(str(final)),)  # the message; type, status and body stay
                raise
            if error.wait is not None and error.wait > _LONGEST_STATED_WAIT:
                raise _too_long(error.failure, error.wait) from None
            if tried >= self._max_retries:
                raise error.failure from None
            if receiver:
                receiver.restart()
            wait = _wait(error, tried)
            tried += 1
            RETRIES.info("no reply yet, trying again (%d of %d): %s", tried, self._max_retries, error.failure)
            await anyio.sleep(wait)

    async def _try(
        self,
        method: str,
        path: str,
        data: bytes | None,
        see: Callable[[Refused], None],
        headers: Mapping[str, str],
        receiver: Receiver | None,
    ) -> bytes:
        url = self.base_url + path + self._query
        timeout = aiohttp.ClientTimeout(
            total=None if receiver else self._timeout,
            sock_connect=_CONNECT_SECONDS,
            sock_read=self._timeout if receiver else None,
        )
        try:
            async with self._session.request(
                method, url, data=data, headers=headers, timeout=timeout, allow_redirects=False, proxy=self._proxy
            ) as response:
                content = await self._read(response, receiver)
        except aiohttp.SocketTimeoutError:
            raise NoReply(f"{self._named}: nothing received within {self._timeout:g} s") from None
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
            kind = Unreachable if isinstance(error, aiohttp.ClientConnectorError) else ModelError
            raise _TemporaryError(kind(f"{self._named}: {_connection_reason(error)}")) from None
        except TimeoutError:
            raise NoReply(f"{self._named}: no reply within {self._timeout:g} s") from None
        except aiohttp.ClientError as error:
            raise ModelError(f"{self._named}: not an HTTP reply: {' '.join(str(error).split())}") from None
        status = response.status
        if status < 300:
            return content
        body = self._without_key(content.decode(errors="replace"))
        refused = Refused(f"{self._named}: HTTP {status}: {self._reason(content)}", status, body)
        if 300 <= status < 400 and (to := response.headers.get("Location")):
            refused = Refused(
                f"{self._named}: HTTP {status}: it redirects to {self._without_key(to)}; give that address", status
            )
        see(refused)
        is_limit = status == 429
        if not is_retryable(status) or (is_limit and _LASTING.search(body)):
            raise refused
        told = {name.lower(): value for name, value in response.headers.items()}
        wait = stated_wait(told, body)
        if wait is None and is_limit and (until := reset_wait(told)) is not None:
            wait = min(until, _LONGEST_STATED_WAIT)  # a limit that refills bit by bit lets requests through before
        raise _TemporaryError(refused, wait, is_limit=is_limit)

    @property
    def _named(self) -> str:
        return f"{self.base_url} (by the proxy {_shown(self._proxy)})" if self._proxy else self.base_url

    async def _read(self, response: aiohttp.ClientResponse, receiver: Receiver | None) -> bytes:
        """Reads the body up to a size limit, so that a faulty server cannot exhaust memory."""
        body = bytearray()  # not Content-Length: a small body may decompress to a large one
        while len(body) <= _LARGEST_BODY and (chunk := await response.content.readany()):
            body += chunk
            if receiver and response.status < 300:
                receiver.receive(chunk)
        if len(body) > _LARGEST_BODY:
            response.close()
            raise ModelError(f"{self.base_url}: the reply exceeds {_LARGEST_BODY >> 20} MB")
        return bytes(body)

    def _reason(self, content: bytes) -> str:
        """The server's message on one line, with its error code if that is a word."""
        text = content.decode(errors="replace").removeprefix("\ufeff")
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # not JSON: show the body itself
            text = _error_message(msgspec.json.decode(text)) or text
        return self._without_key(" ".join(text.split()))[:500]

    def _without_key(self, line: str) -> str:
        """Removes the key, which some servers echo."""
        for secret in self._secrets:
            line = line.replace(secret, "***")
        return line


def proxy_for(url: str) -> str | None:
    """The environment's proxy for a URL; None for addresses of this machine, or without a proxy.

    Raises `ConfigError` for unsupported kinds of proxy.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    is_own = host == "localhost" or host.endswith(".localhost") or _is_own(host)
    if is_own or proxy_bypass(host) or proxy_bypass(f"{host}:{port}") or _in_no_proxy_network(host):
        return None
    proxies = getproxies_environment()
    proxy = proxies.get(urlsplit(url).scheme) or proxies.get("all")
    if not proxy:
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if not proxy.startswith(("http://", "https://")):
        raise ConfigError(
            f"the proxy {_shown(proxy)} in the environment is not an http:// or https:// proxy; "
            f"unset it, or add {host} to NO_PROXY"
        )
    return proxy


def _is_own(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _in_no_proxy_network(host: str) -> bool:
    """Whether an address is in a network listed in NO_PROXY, such as `10.0.0.0/8`, which urllib does not support."""
    for entry in getproxies_environment().get("no", "").split(","):
        if "/" in entry:
            with suppress(ValueError):
                if ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip(), strict=False):
                    return True
    return False


def _shown(proxy: str) -> str:
    """The proxy without its password."""
    parts = urlsplit(proxy)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _unread(content: bytes) -> bytes:
    return content


def _let_pass(refused: Refused) -> None:
    del refused


def _error_message(body: object) -> str:
    """The message of an error body, with its code if that is a word; "" if there is none."""
    if isinstance(body, list):
        return "; ".join(filter(None, map(_error_message, body[:3])))
    if not isinstance(body, dict):
        return body if isinstance(body, str) else ""
    for name in ("error", "detail", "errors", "message", "msg"):
        if isinstance(found := body.get(name), dict | list):
            return _error_message(found)
        if isinstance(found, str) and found:
            place = body.get("loc")  # FastAPI: the field concerned
            where = ".".join(map(str, place)) + ": " if isinstance(place, list) else ""
            code = body.get("code")
            raw = body.get("metadata")  # OpenRouter: the provider's message
            if isinstance(raw, dict) and isinstance(raw.get("raw"), str):
                found = f"{found}: {raw['raw']}"
            return f"{where}{found} ({code})" if isinstance(code, str) else f"{where}{found}"
    return ""


def backoff(tried: int) -> float:
    """Seconds before the next try: exponential, with jitter so that rollouts do not retry simultaneously."""
    return min(_LONGEST_WAIT, _FIRST_WAIT * 2.0**tried) * random.uniform(0.5, 1.5)


def _wait(error: _TemporaryError, tried: int) -> float:
    """Seconds before the next try; up to a tenth more than stated, so that rollouts do not retry simultaneously."""
    if error.wait is not None:
        return error.wait * random.uniform(1.0, 1.1)
    return min(backoff(tried) * _LIMITED, _LONGEST_STATED_WAIT) if error.is_limit else backoff(tried)


def _too_long(failure: ModelError, wait: float) -> ModelError:
    """The failure, with why it is not tried again."""
    failure.args = (
        f"{failure}; the server asks to wait {wait:.0f} s, more than the limit of {_LONGEST_STATED_WAIT:.0f} s: "
        "start again later, or send fewer requests at once (run.concurrency)",
    )
    return failure


def _connection_reason(error: aiohttp.ClientError) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = error.os_error
        if isinstance(reason, ConnectionError) and reason.errno:  # its own text is just "Connect call failed"
            return f"cannot connect: {os.strerror(reason.errno)}"
        return f"cannot connect: {reason.strerror or reason}"
    return f"the connection broke: {' '.join(str(error).split()) or type(error).__name__}"
