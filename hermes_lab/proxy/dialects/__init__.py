"""The interfaces through which programs ask for replies, one file each: `chat`, `messages` and `responses`.

They read requests and write replies; `hermes_lab.models.wires` does the opposite.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from hermes_lab.proxy.dialects.chat import ChatDialect
from hermes_lab.proxy.dialects.messages import MessagesDialect
from hermes_lab.proxy.dialects.responses import ResponsesDialect
from hermes_lab.proxy.exchange import Asked
from hermes_lab.types import Generation


class Dialect(Protocol):
    """One interface."""

    name: str
    provider: str
    """The `model.provider` of endpoints with the same interface."""
    ending: str
    """How the paths of its requests end."""

    def read(self, body: Mapping[str, Any]) -> Asked:
        """What a request asks. Unknown content is kept as JSON text. Raises `ValueError` for an invalid request."""
        ...

    def reply(self, generation: Generation, request: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a reply."""
        ...

    def events(self, generation: Generation, request: Mapping[str, Any]) -> bytes:
        """The whole stream of a reply, as server-sent events."""
        ...

    def error(self, status: int, message: str, *, too_long: bool = False) -> dict[str, Any]:
        """The body of an error; `too_long` says that the prompt does not fit the model."""
        ...

    def broken_off(self, status: int, message: str, *, too_long: bool = False) -> bytes:
        """The events of an error in a stream that has begun."""
        ...

    def ping(self) -> bytes:
        """What keeps a stream alive."""
        ...


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {dialect.name: dialect for dialect in (ChatDialect(), MessagesDialect(), ResponsesDialect())}
)
