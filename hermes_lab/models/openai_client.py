"""The client of OpenAI-compatible chat endpoints."""

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from hermes_lab.config import ModelConfig
from hermes_lab.errors import ContextFull, ModelError
from hermes_lab.models import parsers
from hermes_lab.models.endpoint import Endpoint, Refused
from hermes_lab.models.parsers import Reply
from hermes_lab.models.wire import read_reply, wire
from hermes_lab.types import Generation, Message, ModelIdentity
from hermes_lab.types.trajectory import ToolFormat

# vLLM and OpenAI; OpenAI's code; llama.cpp; Anthropic and its look-alikes.
_TOO_LONG = re.compile(
    r"maximum context length|context_length_exceeded|exceeds? the available context|prompt is too long",
    re.IGNORECASE,
)


class OpenAIClient:
    """A `ModelClient` of the endpoint, model and adapter that `identity` names. It closes the endpoint.

    `still_served` is asked before each reply, and raises where the adapter is not served any more. A reply by another
    model than the adapter is an error, too: nothing is ever taken for an answer of weights that did not give it.

    A prompt fits when it leaves room for `sampling.max_tokens`: vLLM and OpenAI refuse a longer one, which is
    `ContextFull`. The room for a reply is so the same on every turn, and never cut to what is left.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        endpoint: Endpoint,
        identity: ModelIdentity,
        tool_format: ToolFormat,
        still_served: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.identity = identity
        self._still_served = still_served
        self._endpoint = endpoint
        self._tool_format = tool_format
        self._token_ids = config.token_ids
        self._parser = parsers.get(config.tool_parser) if config.tool_parser else None
        self._fixed = _fixed_fields(config, identity.adapter or identity.name)

    async def generate(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """One reply; see `ModelClient`."""
        if self._still_served:
            await self._still_served()
        body = self._fixed | {"messages": wire(messages, self._tool_format)}
        read_text: Callable[[str], Reply] | None = None
        if tools:
            body["tools"] = tools
        if tools and (parse := self._parser):
            # The server renders the tools, and leaves the reply's text alone, the tokens that mark calls included.
            body |= {"tool_choice": "none", "skip_special_tokens": False}
            read_text = lambda text: parse(text, tools)  # noqa: E731
        try:
            content, retries = await self._endpoint.post("/chat/completions", body)
        except Refused as error:
            if _TOO_LONG.search(str(error)):
                raise ContextFull(str(error)) from None
            raise
        try:
            reply = read_reply(
                content,
                messages,
                tool_format=self._tool_format,
                token_ids=self._token_ids,
                adapter=self.identity.adapter,
                read_text=read_text,
            )
        except ModelError as error:
            raise ModelError(f"{self._endpoint.base_url}: {error}") from None
        return msgspec.structs.replace(reply, retries=retries) if retries else reply

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._endpoint.aclose()


def open_endpoint(config: ModelConfig, base_url: str, *, connections: int, key: str = "") -> Endpoint:
    """The endpoint with the retries and time limit of `config`."""
    return Endpoint(base_url, key=key, timeout=config.timeout, max_retries=config.max_retries, connections=connections)


def read_key(config: ModelConfig) -> str:
    """The key in the environment variable that `config` names, or "": local servers need none."""
    return os.environ.get(config.api_key_env, "").strip() if config.api_key_env else ""


def _fixed_fields(config: ModelConfig, model: str) -> dict[str, Any]:
    sampling = config.sampling
    fields: dict[str, Any] = {
        "model": model,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
    }
    if config.reasoning_effort:
        fields["reasoning_effort"] = config.reasoning_effort
    if config.token_ids:
        fields |= {"logprobs": True, "return_token_ids": True}
    return fields
