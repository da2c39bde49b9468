"""The client of a model behind HTTP, for all wire formats."""

import os
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import msgspec

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ConfigError, ContextFull, ModelError, NoRoomForReply
from hermes_lab.models.advice import advice, limit_in
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.models.overflow import is_overflow
from hermes_lab.models.refusals import Failed, Refused, Rejected
from hermes_lab.models.room import room_beside
from hermes_lab.models.stream_reader import StreamReader
from hermes_lab.models.wires import Wire
from hermes_lab.models.wires.chat import ChatWire
from hermes_lab.models.wires.lessons import TEACHING, refuses_stream
from hermes_lab.models.wires.loose import decode_json
from hermes_lab.models.wires.sse import events_of, is_stream
from hermes_lab.protocols import OnText
from hermes_lab.types import Generation, Message, ModelIdentity, Usage
from hermes_lab.types.trajectory import ToolFormat

_MOST_LESSONS = 5
"""How many refusals of one request the client adapts to."""
_FILTERED = re.compile(
    r"content_filter|content management policy|ResponsibleAIPolicyViolation|content_policy_violation"
    r"|data_?inspection_?failed|prohibited_content|inappropriate content|content filtering policy|prompt was flagged",
    re.IGNORECASE,
)
"""Matches how Azure, OpenAI, Anthropic, DashScope and gateways refuse a prompt or an output caught by their content
filter."""
_CUT = re.compile(r"could not finish the message because max_tokens", re.IGNORECASE)
"""Matches how OpenAI and Azure tell of a reply that reached its limit within the reasoning."""
_OF_THE_REQUEST = TEACHING | {413}
"""HTTP statuses of refusals that whoever wrote the request may have caused."""
_OF_THE_ACCOUNT = re.compile(r"credit|billing|quota|api.?key|authenti|permission|model_not_found", re.IGNORECASE)
"""Matches refusals with these statuses that nobody can avoid by another request."""
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class EndpointClient:
    """A `ModelClient` for the endpoint, model and adapter in `identity`. Closing it closes the endpoint.

    `still_served` is called before each request, and raises if the adapter is no longer served. A reply by another
    model than the adapter is an error too: no reply is attributed to weights that did not produce it.

    A prompt fits if it leaves room for `sampling.max_tokens`: vLLM and OpenAI refuse longer ones, which raises
    `ContextFull`. The room for a reply is thus the same on every turn. If a lower limit would have made room, it is a
    `NoRoomForReply`, which names the field.
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
        self._config = config
        self._still_served = still_served
        self._endpoint = endpoint
        self._tool_format = tool_format
        self._can_stream = True
        self._wire = wire_for(config, identity.adapter or identity.name, tool_format)

    async def generate(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """One reply; see `ModelClient`."""
        return await self._ask(messages, tools, None)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], on_text: OnText
    ) -> Generation:
        """One reply, told as it comes; see `StreamingModel`."""
        reader = StreamReader(self._wire, self._config, self._tool_format, on_text)
        reply = await self._ask(messages, tools, reader)
        reader.finish(reply.message, messages)
        return reply

    async def _ask(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], reader: StreamReader | None
    ) -> Generation:
        if self._still_served:
            await self._still_served()
        for lesson in range(_MOST_LESSONS):
            streams = reader is not None and self._can_stream
            body = self._wire.body(messages, tools, stream=streams)
            limit = limit_in(body)
            read = partial(self._read, messages=messages, tools=tools, limit=limit)
            see = partial(self._check_room, limit)
            try:
                reply, retries = await self._endpoint.exchange(
                    self._wire.path, body, read, see, receiver=reader if streams else None
                )
            except Refused as error:
                if reader:
                    reader.restart()
                if reply_instead := _outcome_of(error):
                    return reply_instead
                learned = self._wire.learn(error, body) or (streams and self._learn_whole(error, body))
                if not learned or lesson == _MOST_LESSONS - 1:
                    raise self._advised(error, body) from None
            else:
                return msgspec.structs.replace(reply, retries=retries) if retries else reply
        raise AssertionError("the last lesson raises")

    async def forward(
        self,
        body: Mapping[str, Any],
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        *,
        configured: Collection[str],
        headers: Mapping[str, str],
    ) -> tuple[Generation, bytes]:
        """One reply to a request body that somebody else has written, and its bytes; none for a refusal that is
        an outcome, such as that of a filter.

        `configured` are the fields of the body that the configuration has set. Raises as `generate`, but `Rejected` for
        a refusal of the request's form (400, 405, 406, 413, 415, 422) that concerns none of them, nor the account.
        """
        if self._still_served:
            await self._still_served()
        for lesson in range(_MOST_LESSONS):
            sent = self._wire.adapted(body)
            limit = limit_in(sent)

            def read(content: bytes, limit: int = limit) -> tuple[Generation, bytes]:
                return self._read(content, messages, tools, limit), content

            try:
                (reply, content), retries = await self._endpoint.exchange(
                    self._wire.path, sent, read, partial(self._check_room, limit), headers
                )
            except Refused as error:
                if reply_instead := _outcome_of(error):
                    return reply_instead, b""
                if not self._wire.learn(error, sent) or lesson == _MOST_LESSONS - 1:
                    raise self._blamed(error, {name: sent[name] for name in configured if name in sent}) from None
            else:
                return msgspec.structs.replace(reply, retries=retries), content
        raise AssertionError("the last lesson raises")

    def _learn_whole(self, refused: Refused, body: Mapping[str, Any]) -> bool:
        """Asks for whole replies from now on if the endpoint refuses a stream. Returns whether it does."""
        self._can_stream = not refuses_stream(refused, body)
        return not self._can_stream

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._endpoint.aclose()

    def _read(
        self, content: bytes, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], limit: int
    ) -> Generation:
        """Parses a reply's body. `limit` is that of its tokens, 0 if the request had none.

        Raises `Failed` for errors worth a retry, `ContextFull` for a prompt that is too long, and `ModelError` for any
        other invalid reply.
        """
        try:
            reply = self._wire.assemble(events_of(content)) if is_stream(content) else _decoded(content)
            self._check_adapter(reply)
            return self._wire.read(reply, messages, tools)
        except Failed as error:
            if is_overflow(error.status or 400, str(error), self._config.overflow_pattern):
                raise _context_full(str(error), limit) from None
            raise Failed(f"{self._endpoint.base_url}: {error}", error.status) from None
        except Refused as error:
            self._check_room(limit, error)
            raise Refused(f"{self._endpoint.base_url}: {error}", error.status) from None
        except ModelError as error:
            raise ModelError(f"{self._endpoint.base_url}: {error}") from None

    def _check_room(self, limit: int, refused: Refused) -> None:
        if is_overflow(refused.status, str(refused), self._config.overflow_pattern):
            raise _context_full(str(refused), limit)

    def _check_adapter(self, reply: object) -> None:
        """Checks which weights answered; some endpoints substitute others, but report it."""
        adapter = self.identity.adapter
        if not adapter or not isinstance(reply, Mapping) or reply.get("error"):
            return
        if (answered := reply.get("model")) != adapter:
            raise ModelError(f"the request was for adapter {adapter}, but {answered or 'an unnamed model'} answered")

    def _blamed(self, refused: Refused, configured: Mapping[str, Any]) -> Refused:
        """`Rejected` if the refused request is to blame, without the fields that the configuration has set."""
        advised = self._advised(refused, configured)
        is_ours = advised is not refused or refused.status not in _OF_THE_REQUEST
        if is_ours or _OF_THE_ACCOUNT.search(str(refused)):
            return advised
        return Rejected(str(refused), refused.status, refused.body)

    def _advised(self, refused: Refused, body: Mapping[str, Any]) -> Refused:
        hint = advice(refused.status, str(refused), body, self._config, self._endpoint.base_url)
        return Refused(f"{refused}; {hint}", refused.status) if hint else refused


def _context_full(said: str, limit: int) -> ContextFull:
    """The error for a prompt that does not fit. It blames the reply's limit where a lower one would have made room."""
    room = room_beside(limit, said)
    if room is None:
        return ContextFull(said)
    left, of = max(room.context - limit, 0), f" of {room.prompt}" if room.prompt else ""
    return NoRoomForReply(
        f"a reply of up to {limit} tokens leaves {left} of the model's context of {room.context} for the prompt{of}: "
        "set a lower model.sampling.max_tokens, or give the server a larger context (model.server.max_model_len, if "
        f"the lab serves the model); {said}"
    )


def _outcome_of(refused: Refused) -> Generation | None:
    """The empty reply that a refusal amounts to, if it is the outcome of a good request; another try would end so
    too."""
    if refused.status != 400:
        return None
    said = str(refused)
    ending = "content_filter" if _FILTERED.search(said) else "length" if _CUT.search(said) else ""
    return Generation(Message(role="assistant"), ending, Usage()) if ending else None


def wire_for(config: ModelConfig, model: str, tool_format: ToolFormat) -> Wire:
    """The wire format of `config.provider`. Raises `ConfigError` for fields that the format does not support."""
    if config.provider == "anthropic":
        from hermes_lab.models.wires.anthropic import AnthropicWire

        return AnthropicWire(config, model, tool_format)
    if config.provider == "responses":
        from hermes_lab.models.wires.responses import ResponsesWire

        return ResponsesWire(config, model, tool_format)
    return ChatWire(config, model, tool_format)


def open_endpoint(config: ModelConfig, base_url: str, *, connections: int, key: str = "") -> Endpoint:
    """The endpoint with the headers, retries and timeout of `config`. Raises `ConfigError` if a header refers to an
    unset environment variable."""
    headers = {name: _VARIABLE.sub(_value_of, value) for name, value in config.headers.items()}
    secrets = [headers[name] for name, value in config.headers.items() if _VARIABLE.search(value)]
    if not key.isprintable():
        raise ConfigError(f"model.api_key_env: the key in {config.key_variable} holds a line break; set it again")
    for name, value in headers.items():
        if not f"{name}{value}".isprintable():
            raise ConfigError(f"model.headers: {name!r} holds a line break or another control character")
    configured = {name.lower() for name in headers}  # names of headers have no case
    own = wire_for(config, config.name, "native").headers(key)
    own = {name: value for name, value in own.items() if name.lower() not in configured}
    return Endpoint(
        base_url,
        timeout=config.timeout,
        max_retries=config.max_retries,
        connections=connections,
        headers=own | headers,
        secrets=[*secrets, key],
    )


def read_keys(config: ModelConfig) -> list[str]:
    """The API key for each server, from the environment variables in `config`; "" if none is named, as for local
    servers."""
    servers = config.servers
    names = [name.strip() for name in config.key_variable.split(",")]
    if len(names) not in (1, len(servers)):
        raise ConfigError(
            f"model.api_key_env: {len(names)} variables for {len(servers)} servers; set one for all, or one for each"
        )
    keys = [os.environ.get(name, "").strip() if name else "" for name in names]
    return keys * len(servers) if len(keys) == 1 else keys


def _decoded(content: bytes) -> object:
    if not content.strip():
        raise Failed("the reply is empty")
    try:
        return decode_json(content)
    except ModelError:
        said = " ".join(content[:300].decode(errors="replace").split())
        if said.startswith("<"):
            raise ModelError(
                f"the reply is an HTML page, not an API response: {said[:80]!r}; check model.base_url"
            ) from None
        # A truncated body is a broken connection.
        raise Failed(f"the reply is not JSON: {said[:80]!r}") from None


def _value_of(found: re.Match[str]) -> str:
    name = found[1]
    if (value := os.environ.get(name)) is None:
        _no_variable(name)
    return value.strip()


def _no_variable(name: str) -> NoReturn:
    raise ConfigError(f"model.headers: set {name} in the environment")
