"""The trajectory server, over HTTP."""

import asyncio
import gzip
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import aiohttp
import msgspec

from hermes_lab.envs.atropos.messages import (
    Disconnected,
    EnvId,
    Info,
    Latest,
    Posted,
    Registered,
    RegisterEnv,
    ScoredData,
    Status,
    WandbInfo,
)
from hermes_lab.errors import HermesLabError
from hermes_lab.models.weights import Say

T = TypeVar("T")

_GZIP_FROM = 1024
_TRANSIENT = (502, 503, 504)
"""Status codes of proxies for an unavailable server. The server itself only ever returns 500, repeatedly."""
_NOBODY = EnvId(2**31 - 1)
"""An id of no environment, to query the server's state without changing it."""


class AtroposError(HermesLabError):
    """The server is unavailable, rejects a request, or cannot accept data in its state."""


class UnknownEnvironment(AtroposError):
    """The server does not know this environment: it was restarted, or its data was reset."""


class NotSent(AtroposError):
    """Connection refused: nothing was sent."""


class LostAnswer(AtroposError):
    """The connection broke after sending; it is unknown whether the data arrived."""


class AtroposClient:
    """One environment on the server `url`. Retries for `retry_seconds` if the server does not answer."""

    def __init__(self, url: str, *, retry_seconds: float, say: Say, pause: float = 1.0) -> None:
        self.url = url.rstrip("/")
        self._retry_seconds = retry_seconds
        self._say = say
        self._pause = pause
        self._env = _NOBODY
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "AtroposClient":
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120))
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._session:
            await self._session.close()

    async def register(self, wanted: RegisterEnv, *, patience: float) -> Registered:
        """Registers the environment once the trainer has registered and asked for a batch.

        Raises `AtroposError` if it has not within `patience` seconds, or can no longer do so.
        """
        started = time.monotonic()
        told = False
        while True:
            answer = await self._ask(Registered, "POST", "/register-env", wanted)
            if answer.status == "success":
                self._env = EnvId(answer.env_id)
                return answer
            await self._check_registrable()
            if time.monotonic() - started >= patience:
                raise AtroposError(f"{self.url}: no trainer registered and asked for a batch within {patience:g} s")
            if not told:
                self._say(f"{self.url}: waiting until a trainer registers and asks for a batch")
                told = True
            await asyncio.sleep(self._pause)

    async def info(self) -> Info:
        """The trainer's batch size and its longest sequence."""
        info = await self._ask(Info, "GET", "/info")
        if info.batch_size < 1:
            raise AtroposError(self._mend("it has no batch size"))
        return info

    async def wandb_info(self) -> WandbInfo:
        """The trainer's wandb project and group."""
        return await self._ask(WandbInfo, "GET", "/wandb_info")

    async def status(self) -> Status:
        """The trainer's step and this environment's queue. Raises `UnknownEnvironment`."""
        return await self._ask(Status, "GET", "/status-env", self._env)

    async def post(self, groups: Sequence[ScoredData]) -> None:
        """Posts groups, at most once. Raises `AtroposError` if the server buffers one; `NotSent` if it is unavailable,
        since a restarted server may not know the trainer and break on the data; and `LostAnswer`, since losing a group
        is better than posting it twice."""
        named = [msgspec.structs.replace(group, env_id=self._env.env_id) for group in groups]
        if len(named) == 1:
            answer = await self._ask(Posted, "POST", "/scored_data", named[0], again=False)
        else:
            answer = await self._ask(Posted, "POST", "/scored_data_list", named, again=False)
        if answer.status == "buffered" or answer.buffered:
            raise AtroposError(
                f"{self.url}: buffered a group of {len(groups[0].tokens)} ('buffered'): it expects another size of "
                f"environment {self._env.env_id}, so two environments share this id; restart them"
            )

    def forget(self) -> None:
        """Drops the id without disconnecting: on a restarted server it may belong to another environment."""
        self._env = _NOBODY

    async def disconnect(self) -> bool:
        """Tells the server that this was the last group; returns whether it acknowledged."""
        if self._env is _NOBODY:
            return True
        env, self._env = self._env, _NOBODY
        try:
            answer = await self._ask(Disconnected, "POST", "/disconnect-env", env, again=False)
        except AtroposError:
            return False
        return answer.status == "success"

    async def _check_registrable(self) -> None:
        """Groups posted before the trainer's `/register` make the server ignore it forever, since it already has a
        queue. Such a server has a latest group but no list of environments."""
        latest = await self._ask(Latest, "GET", "/latest_example")
        if latest.tokens:
            nobody = await self._ask(Disconnected, "POST", "/disconnect-env", _NOBODY)
            if "has no attribute 'envs'" in nobody.error:
                raise AtroposError(self._mend("no trainer can register"))

    def _mend(self, state: str) -> str:
        return (
            f"{self.url}: {state}: something was posted before the trainer registered; "
            f"run `curl {self.url}/reset_data`, then start the trainer and this environment again"
        )

    async def _ask(self, kind: type[T], method: str, path: str, body: Any = None, *, again: bool = True) -> T:
        content = await self._send(method, path, body, again=again)
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise AtroposError(f"{self.url}{path}: not an Atropos server: {error}") from None

    async def _send(self, method: str, path: str, body: Any, *, again: bool) -> bytes:
        """One request; with `again` retried until the server answers or `retry_seconds` are over."""
        assert self._session, "used outside of its context"
        data, headers = _encode(body)
        until = time.monotonic() + self._retry_seconds
        pause = 0.25
        told = False
        while True:
            lost: type[AtroposError] = LostAnswer
            try:
                async with self._session.request(method, self.url + path, data=data, headers=headers) as response:
                    content = await response.read()
                if response.status not in _TRANSIENT:
                    return self._accept(path, response.status, content)
                problem = f"status {response.status}"
            except aiohttp.InvalidURL:
                raise AtroposError(f"{self.url}: not a URL; use one such as http://127.0.0.1:8000") from None
            except aiohttp.ClientConnectorError as error:
                lost, problem = NotSent, str(error.os_error.strerror or error)
            except (aiohttp.ClientError, TimeoutError) as error:
                problem = f"{type(error).__name__} {error}".strip()
            if not again:
                raise lost(f"{self.url}{path}: {problem}")
            if time.monotonic() >= until:
                raise AtroposError(f"{self.url}: no Atropos server answers ({problem}); start `run-api`")
            if not told:
                self._say(f"{self.url}: does not answer ({problem}); retrying for {self._retry_seconds:g} s")
                told = True
            await asyncio.sleep(pause)
            pause = min(2 * pause, 5.0)

    def _accept(self, path: str, status: int, content: bytes) -> bytes:
        if status < 400:
            return content
        if path == "/status-env" and status >= 500:
            raise UnknownEnvironment(f"{self.url}: no longer knows environment {self._env.env_id}")
        raise AtroposError(f"{self.url}{path}: rejected with status {status}: {content[:300].decode(errors='replace')}")


def _encode(body: Any) -> tuple[bytes | None, dict[str, str]]:
    if body is None:
        return None, {}
    data, headers = msgspec.json.encode(body), {"Content-Type": "application/json"}
    if len(data) < _GZIP_FROM:
        return data, headers
    return gzip.compress(data, compresslevel=1), headers | {"Content-Encoding": "gzip"}
