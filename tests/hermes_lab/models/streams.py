"""What the tests of streamed replies share: a model that streams, and what was told."""

import json
from typing import Any, NamedTuple

from fakes.openai_server import FakeOpenAIServer, Reply

from hermes_lab.config.schema import ModelConfig
from hermes_lab.models.remote import open_endpoints
from hermes_lab.protocols import Delta, ModelClient, StreamingModel
from hermes_lab.types import Generation, Message

ASK = [Message("system", "Be brief."), Message("user", "Go.")]
ADD = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}


class Told(NamedTuple):
    """A streamed reply, and what was told of it."""

    reply: Generation
    deltas: list[Delta]

    def said(self, kind: str) -> str:
        """The text of that kind since the last restart."""
        last = max((n for n, delta in enumerate(self.deltas) if delta.kind == "restart"), default=-1)
        return "".join(delta.text for delta in self.deltas[last + 1 :] if delta.kind == kind)

    def kinds(self) -> list[str]:
        return [delta.kind for delta in self.deltas]


async def streamed(model: ModelClient, tools: list[Any] | None = None) -> Told:
    assert isinstance(model, StreamingModel)
    deltas: list[Delta] = []
    return Told(await model.stream(ASK, [ADD] if tools is None else tools, deltas.append), deltas)


async def ask(
    *script: str | Reply, tools: list[Any] | None = None, split: int = 0, tool_format: str = "native", **config: Any
) -> tuple[Told, FakeOpenAIServer]:
    """What a fake server with this script streams."""
    async with FakeOpenAIServer(list(script), split=split) as server:
        made = ModelConfig(name="fake", base_url=server.base_url, **config)
        async with open_endpoints(made, [""], tool_format=tool_format, concurrency=4) as (model,):
            return await streamed(model, tools), server


def events(*deltas: dict[str, Any], end: str = "stop") -> bytes:
    """A stream of these deltas; without an end it is cut."""
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": end}]}] if end else []
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + (
        b"data: [DONE]\n\n" if end else b""
    )
