"""Wire formats: how messages become a request's body, and a reply's JSON becomes a `Generation`.

One file a format: `chat` (OpenAI chat completions), `anthropic` (Anthropic Messages), `responses` (OpenAI Responses).
Servers are many and careless, so a reply is read for what it must have, and nothing beside that can cost it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hermes_lab.models.refusals import Refused
from hermes_lab.types import Generation, Message


class Wire(Protocol):
    """One wire format, set up for one model."""

    path: str
    """Of the requests, below the base URL."""

    def headers(self, key: str) -> dict[str, str]:
        """The headers that the format needs, with the key ("": there is none)."""
        ...

    def body(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """A request. `tools` are OpenAI function schemas."""
        ...

    def read(self, reply: object, sent: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """The reply (JSON, decoded) to the messages `sent`.

        Raises `refusals.Failed` where the reply says that the server failed, so that it is tried again, and
        `ModelError` where it is no sound reply otherwise. It raises nothing else, whatever the reply is.
        """
        ...

    def learn(self, refused: Refused, body: Mapping[str, Any]) -> bool:
        """Whether the refusal of `body` tells how the endpoint wants its requests; the next body is made so."""
        ...

    def assemble(self, events: Sequence[object]) -> object:
        """The reply that a stream's `events` (JSON, decoded) make up; `read` reads it as any other."""
        ...
