"""The part of Daytona's REST API that sandboxes need."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import anyio

from hermes_lab.errors import SandboxError

if TYPE_CHECKING:
    import aiohttp

_SECONDS = 120.0  # creation from a snapshot is answered after up to 30
_CONNECT_SECONDS = 30.0
_HEARTBEAT_SECONDS = 60.0
_TRIES = 8
_BUSY = 409
_LIMITED = 429
_LONGEST_WAIT = 30.0
_PAGE = 100


class DaytonaError(SandboxError):
    """What the service refused, with its HTTP status; 0 where there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class DaytonaApi:
    """The API at `url`. Requests that the service has surely not done (429, and 409 for a deletion) are made again."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url.rstrip("/")
        self._key = key
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> "aiohttp.ClientSession":
        """The connections, which are made when they are needed."""
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers={"Authorization": f"Bearer {self._key}"},
                timeout=aiohttp.ClientTimeout(total=_SECONDS, sock_connect=_CONNECT_SECONDS),
                connector=aiohttp.TCPConnector(limit=0),  # every sandbox holds a websocket
                trust_env=True,
            )
        return self._session

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        what: str,
        query: Mapping[str, str] | None = None,
        base: str = "",
    ) -> Any:
        """The JSON that answers a request, or None. `what` says what it is for. Raises `DaytonaError`."""
        import aiohttp

        wait = 0.5
        for left in reversed(range(_TRIES)):
            try:
                async with self.session.request(
                    method, f"{base or self._url}{path}", json=body, params=query, allow_redirects=False
                ) as answer:
                    text = await answer.text(errors="replace")
                    status, after = answer.status, answer.headers.get("Retry-After", "")
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                said = " ".join(str(error).split()) or "no answer"
                raise DaytonaError(f"sandbox: daytona: {what}: {said}") from None
            if 200 <= status < 300:
                return self._read(text, what)
            if not left or not (status == _LIMITED or (status == _BUSY and method == "DELETE")):
                self._refused(status, text, what)
            await anyio.sleep(min(float(after) if after.isdecimal() else wait, _LONGEST_WAIT))
            wait *= 2
        raise AssertionError

    @staticmethod
    def _read(text: str, what: str) -> Any:
        try:
            return json.loads(text) if text.strip() else None
        except ValueError:
            raise DaytonaError(
                f"sandbox: daytona: {what}: the answer is no JSON; see sandbox.daytona.api_url"
            ) from None

    @staticmethod
    def _refused(status: int, text: str, what: str) -> NoReturn:
        try:
            said = json.loads(text)
            message = said.get("message") or said.get("error")
        except (ValueError, AttributeError):
            message = text[:300]
        message = " ".join(str(message or "refused").split())
        raise DaytonaError(f"sandbox: daytona: {what}: {message} ({status})", status)

    async def listed(self, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        """The sandboxes with these labels. Raises `DaytonaError`."""
        query, found = {"labels": json.dumps(dict(labels)), "limit": str(_PAGE)}, []
        while True:
            answer = await self.request("GET", "/sandbox", what="listing sandboxes", query=query)
            found += answer["items"]
            if not (cursor := answer.get("nextCursor")):
                return found
            query["cursor"] = cursor

    async def toolbox(self, sandbox: Mapping[str, Any]) -> "Toolbox":
        """The API inside a sandbox that has started. Raises `DaytonaError`."""
        identity = sandbox["id"]
        if not (url := sandbox.get("toolboxProxyUrl")):
            path = f"/sandbox/{identity}/toolbox-proxy-url"
            url = (await self.request("GET", path, what="finding a sandbox's address"))["url"]
        return Toolbox(self, f"{url.rstrip('/')}/{identity}")


class Toolbox:
    """The API inside a sandbox."""

    def __init__(self, api: DaytonaApi, url: str) -> None:
        self._api = api
        self._url = url

    async def request(self, method: str, path: str, body: object = None, *, what: str) -> Any:
        """See `DaytonaApi.request`."""
        return await self._api.request(method, path, body, what=what, base=self._url)

    async def connect(self, path: str) -> "aiohttp.ClientWebSocketResponse":
        """A websocket. Raises `DaytonaError`."""
        import aiohttp

        try:
            with anyio.fail_after(_CONNECT_SECONDS):
                return await self._api.session.ws_connect(f"{self._url}{path}", heartbeat=_HEARTBEAT_SECONDS)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            said = " ".join(str(error).split()) or "no answer"
            raise DaytonaError(f"sandbox: daytona: connecting to a sandbox: {said}") from None
