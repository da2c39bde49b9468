"""Search services with an API key: Tavily, Brave and Exa, per their public documentation."""

import html
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from hermes_lab.config.schema import WebConfig
from hermes_lab.errors import ConfigError, ModelError, ToolError
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.models.refusals import Refused
from hermes_lab.web.provider import Document, Hit

_TAG = re.compile(r"</?\w+>")
_SNIPPET = 400
_NO_PAGE = "the service gives no text for it"


class _Access(NamedTuple):
    base_url: str
    key_env: str


ACCESS = {
    "tavily": _Access("https://api.tavily.com", "TAVILY_API_KEY"),
    "brave": _Access("https://api.search.brave.com/res/v1", "BRAVE_API_KEY"),
    "exa": _Access("https://api.exa.ai", "EXA_API_KEY"),
}
"""Each service's address and the environment variable with its key; the configuration may override both."""


class _Service(ABC):
    """One search service.

    Every call opens its own connection, so there is nothing to close; a search takes hundreds of milliseconds anyway.
    Failures are returned to the model as `ToolError`: parts of the web are always unavailable.
    """

    outside = True
    reads_pages = True
    name: str
    key_header = "Authorization"

    def __init__(self, config: WebConfig, base_url: str, key: str) -> None:
        self._config = config
        self._base_url = base_url
        self._key = key

    @abstractmethod
    async def search(self, query: str, limit: int) -> list[Hit]:
        """As `WebProvider.search`."""

    @abstractmethod
    async def extract(self, urls: Sequence[str]) -> list[Document]:
        """As `WebProvider.extract`."""

    async def _get(self, path: str, query: Mapping[str, object]) -> dict[str, Any]:
        return await self._ask(f"{path}?{urlencode(query)}", None)

    async def _post(self, path: str, body: object) -> dict[str, Any]:
        return await self._ask(path, body)

    async def _ask(self, path: str, body: object) -> dict[str, Any]:
        """The JSON object of a reply. Raises `ToolError` for anything else; the message never contains the key."""
        config = self._config
        try:
            async with Endpoint(
                self._base_url,
                key=self._key,
                key_header=self.key_header,
                timeout=config.timeout,
                max_retries=config.max_retries,
            ) as endpoint:
                answer = await (endpoint.get(path) if body is None else endpoint.post(path, body))
        except Refused as error:
            hint = f"; check {key_variable(config)}" if error.status in (401, 403) else ""
            raise ToolError(f"{self.name}: {error}{hint}") from None
        except ModelError as error:
            raise ToolError(f"{self.name}: {error}") from None
        try:
            found = msgspec.json.decode(answer.content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ToolError(f"{self.name}: {self._base_url}: the reply is no JSON object")
        return found


class Tavily(_Service):
    """`POST /search` and `POST /extract`, the key as a bearer token."""

    name = "tavily"

    async def search(self, query: str, limit: int) -> list[Hit]:
        """As `WebProvider.search`."""
        found = await self._post("/search", {"query": query, "max_results": limit})
        return [_hit(each, each.get("content")) for each in _objects(found.get("results"))][:limit]

    async def extract(self, urls: Sequence[str]) -> list[Document]:
        """As `WebProvider.extract`."""
        found = await self._post("/extract", {"urls": list(urls), "format": "markdown"})
        read = {_text(each, "url"): each for each in _objects(found.get("results"))}
        failed = {_text(each, "url"): _text(each, "error") for each in _objects(found.get("failed_results"))}
        return [_document(url, read.get(url), "raw_content", failed.get(url, "")) for url in urls]


class Brave(_Service):
    """`GET /web/search`, the key in `X-Subscription-Token`. It only searches; it cannot read pages."""

    name = "brave"
    reads_pages = False
    key_header = "X-Subscription-Token"

    async def search(self, query: str, limit: int) -> list[Hit]:
        """As `WebProvider.search`."""
        found = await self._get("/web/search", {"q": query, "count": limit, "text_decorations": "false"})
        web = found.get("web")
        results = _objects(web.get("results") if isinstance(web, dict) else None)
        return [_hit(each, html.unescape(_TAG.sub("", _text(each, "description")))) for each in results][:limit]

    async def extract(self, urls: Sequence[str]) -> list[Document]:
        """Not supported."""
        del urls
        raise ToolError("brave: the service searches but does not read pages; for that set web.provider=tavily or exa")


class Exa(_Service):
    """`POST /search` and `POST /contents`, the key in `x-api-key`."""

    name = "exa"
    key_header = "x-api-key"

    async def search(self, query: str, limit: int) -> list[Hit]:
        """As `WebProvider.search`."""
        contents = {"text": {"maxCharacters": _SNIPPET}}
        found = await self._post("/search", {"query": query, "numResults": limit, "contents": contents})
        return [_hit(each, each.get("text")) for each in _objects(found.get("results"))][:limit]

    async def extract(self, urls: Sequence[str]) -> list[Document]:
        """As `WebProvider.extract`."""
        found = await self._post("/contents", {"urls": list(urls), "text": True})
        read = {_text(each, key): each for key in ("id", "url") for each in _objects(found.get("results"))}
        failed = {_text(each, "id"): _exa_error(each) for each in _objects(found.get("statuses"))}
        return [_document(url, read.get(url), "text", failed.get(url, "")) for url in urls]


_SERVICES: Mapping[str, type[_Service]] = {"tavily": Tavily, "brave": Brave, "exa": Exa}


def open_service(config: WebConfig) -> _Service:
    """The service named by `web.provider`. Raises `ConfigError` if its key is not set."""
    access = ACCESS[config.provider]
    name = key_variable(config)
    key = os.environ.get(name, "").strip()
    if not key:
        raise ConfigError(f"web.provider: {config.provider} needs a key; set {name} in the environment")
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"web.api_key_env: the value of {name} is not a valid key: it must be printable ASCII")
    base_url = config.base_url or access.base_url
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"web.base_url: {base_url!r} is not an http:// or https:// URL such as {access.base_url}")
    if "@" in parts.netloc:
        raise ConfigError("web.base_url: it must not contain a user or password; use web.api_key_env instead")
    return _SERVICES[config.provider](config, base_url, key)


def key_variable(config: WebConfig) -> str:
    """The environment variable with the key of the service; "" if `web.provider` needs none."""
    access = ACCESS.get(config.provider)
    return config.api_key_env or (access.key_env if access else "")


def _hit(found: Mapping[str, Any], snippet: object) -> Hit:
    text = " ".join(snippet.split()) if isinstance(snippet, str) else ""
    return Hit(_text(found, "title"), _text(found, "url"), text if len(text) <= _SNIPPET else f"{text[:_SNIPPET]}…")


def _document(url: str, found: Mapping[str, Any] | None, field: str, error: str) -> Document:
    text = _text(found, field) if found else ""
    return Document(url, _text(found or {}, "title"), text, "" if text else error or _NO_PAGE)


def _exa_error(status: Mapping[str, Any]) -> str:
    error = status.get("error")
    if not isinstance(error, dict):
        return ""
    code = error.get("httpStatusCode")
    return f"HTTP {code} ({_text(error, 'tag')})" if code else _text(error, "tag")


def _objects(found: object) -> list[dict[str, Any]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""
