"""One request of a program, and what it was answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes_lab.types import Generation, Message

PASSED_ON = ("anthropic-version", "anthropic-beta")
"""The headers of a program that change what its request means; an endpoint of its own dialect gets them."""


@dataclass(frozen=True)
class Asked:
    """A request for a reply, in the lab's own terms. `tools` are OpenAI function schemas; `lost` counts parts that a
    `Message` cannot hold, such as images, which are replaced by a note."""

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]
    stream: bool
    lost: int = 0


@dataclass(frozen=True)
class Request:
    """A request as it arrived: the interface that it was made through, its body, and what it asks. Of its headers, it
    has those that are `PASSED_ON`."""

    dialect: str
    path: str
    body: Mapping[str, Any]
    asked: Asked
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What the upstream answered. `raw` are the bytes of an endpoint that speaks the program's own dialect."""

    generation: Generation
    raw: bytes = b""


@dataclass
class Exchange:
    """What was asked, and the reply; `error` says why there is none. `begun` and `ended` are seconds by
    `time.monotonic`."""

    asked: Asked
    begun: float
    ended: float = 0.0
    generation: Generation | None = None
    error: str = ""

    @property
    def seconds(self) -> float:
        """How long the reply took."""
        return max(self.ended - self.begun, 0.0)
