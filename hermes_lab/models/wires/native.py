"""What the native formats (`anthropic`, `responses`) have in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from hermes_lab.config.schema import ModelConfig
from hermes_lab.models.refusals import Refused
from hermes_lab.models.wires.lessons import wants_stream
from hermes_lab.models.wires.loose import mapping
from hermes_lab.types import Generation, Message
from hermes_lab.types.trajectory import ToolFormat


class NativeWire(ABC):
    """The part of a `Wire` that does not depend on its format."""

    def __init__(self, config: ModelConfig, fixed: dict[str, Any], tool_format: ToolFormat) -> None:
        """`fixed` are the fields of every request."""
        self._native = tool_format == "native"
        self._sound = config.finish_reasons
        self._fixed = fixed

    @abstractmethod
    def body(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, stream: bool = False
    ) -> dict[str, Any]:
        """See `Wire`."""

    def adapted(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """See `Wire`."""
        return {**body, "stream": True} if self._fixed.get("stream") else dict(body)

    def learn(self, refused: Refused, body: Mapping[str, Any]) -> bool:
        """See `Wire`."""
        if not wants_stream(refused, body):
            return False
        self._fixed["stream"] = True
        return True

    def read(
        self,
        reply: object,
        sent: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],  # noqa: ARG002
    ) -> Generation:
        """See `Wire`."""
        return self._read(mapping(reply), sent)

    @abstractmethod
    def _read(self, received: Mapping[str, Any], sent: Sequence[Message]) -> Generation:
        """The reply to the messages in `sent`."""
