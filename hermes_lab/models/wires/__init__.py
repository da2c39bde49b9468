"""Wire formats: build a request body from messages, and a `Generation` from a reply's JSON.

One file per format: `chat` (OpenAI chat completions), `anthropic` (Anthropic Messages), `responses` (OpenAI Responses).
Servers deviate from their formats, so a reply is only checked for what it must contain.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from hermes_lab.models.refusals import Refused
from hermes_lab.protocols import Delta
from hermes_lab.types import Generation, Message


class Wire(Protocol):
    """One wire format, set up for one model."""

    path: str
    """The request path below the base URL."""

    def headers(self, key: str) -> dict[str, str]:
        """The headers of the format, with the key ("": none)."""
        ...

    def body(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, stream: bool = False
    ) -> dict[str, Any]:
        """Builds a request body. `tools` are OpenAI function schemas. `stream` asks for a stream; without it the
        configuration decides."""
        ...

    def adapted(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A body that somebody else has written in this format, as `learn` and the configuration have it."""
        ...

    def read(self, reply: object, sent: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """Parses the reply (decoded JSON) to the messages `sent`.

        Raises `refusals.Failed` if the reply reports a server failure worth a retry, and `ModelError` if it is invalid
        otherwise. It raises nothing else, whatever the reply.
        """
        ...

    def learn(self, refused: Refused, body: Mapping[str, Any]) -> bool:
        """Adapts to the refusal of `body`. Returns whether it did, in which case the next body differs."""
        ...

    def assemble(self, events: Sequence[object]) -> object:
        """Joins a stream's `events` (decoded JSON) into a reply for `read`."""
        ...

    def deltas(self, event: object) -> Iterable[Delta]:
        """The text and the reasoning that an event of a stream adds; for showing them, as `read` gets the events too.

        The pieces of a list are separated by blank lines, of which the first one may be at the very beginning.
        """
        ...
