"""Context compression: a summary replaces the turns in the middle of a long conversation."""

import time
from collections.abc import Sequence

from hermes_lab.config.schema import AgentConfig
from hermes_lab.errors import ContextFull, ModelError
from hermes_lab.models.finish import SOUND, ending_of
from hermes_lab.models.hermes_format import parse_reply
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.protocols import ModelClient
from hermes_lab.transcript import SUMMARY, begins_turn, summary_request, visible
from hermes_lab.types import Compression, Generation, Message, Usage

_TAIL_SHARE = 0.2
"""Share of the context that is kept for the last turns."""
_CHARACTERS_PER_TOKEN = 4.0
_LONGEST_TURN = 2_000
"""Characters of one turn that the summary is written from."""
_SUMMARY_TOKENS = 500
"""What a summary takes, roughly."""
_PAUSE = 6
"""Messages to wait after a compression, successful or not, before the next attempt."""


class Context:
    """The part of a growing list of `messages` that is sent to the model.

    The system prompt, the first request and the last turns are always kept, and a tool call is never separated from its
    result. Messages are only ever appended; `compressions` records which turns the model no longer sees.
    """

    def __init__(self, messages: list[Message], config: AgentConfig) -> None:
        self._messages = messages
        self._config = config
        self._counted = 0
        self._counted_at = 0
        self._not_before = 0
        self.compressions: list[Compression] = []

    def visible(self) -> Sequence[Message]:
        """The messages to send."""
        return visible(self._messages, self.compressions)

    def record_usage(self, usage: Usage) -> None:
        """Records the server's token count for all messages so far, including its reply. A count without the prompt's
        says nothing of the messages: they are estimated."""
        self._counted = usage.prompt_tokens and usage.prompt_tokens + usage.completion_tokens
        self._counted_at = len(self._messages)

    def is_large(self) -> bool:
        """Whether the next prompt exceeds the share of the context at which compression starts.

        Tokens are the server's count at the last call plus an estimate by characters for later messages.
        """
        limit = self._config.compress_at * self._config.context_tokens
        return limit > 0 and len(self._messages) >= self._not_before and self._tokens() >= limit

    def _tokens(self) -> float:
        if self._counted:
            return self._counted + _estimate(self._messages[self._counted_at :])
        return _estimate(self.visible())

    def tokens(self) -> int:
        """The tokens of the visible messages: the server's count at the last call plus an estimate of later messages;
        before a first call, an estimate."""
        return round(self._tokens())

    async def compress(self, model: ModelClient, target: int = 0) -> tuple[bool, Usage]:
        """Asks `model` to summarise the middle turns. Returns whether it did, and the tokens used.

        `target` is the number of tokens to get below; 0: the last turns keep a fifth of the context. Nothing changes if
        there is no middle, compression is off, or the model gave no summary, or one as long as what it summarises.
        """
        if not self._config.compress_at or not (middle := self._middle(target)):
            return False, Usage()
        started = time.monotonic()
        start, end = middle
        self._not_before = len(self._messages) + _PAUSE
        room = self._room(end - start)
        try:
            reply = await model.generate(summary_request(self._messages, self.compressions, start, end, room), ())
        except (ModelError, ContextFull):
            return False, Usage()
        if not (text := summary_in(reply)):
            return False, reply.usage
        before, summary = _estimate(self.visible()), Message(role="user", content=SUMMARY + text)
        done = Compression(len(self._messages), start, end, room, reply.usage, time.monotonic() - started)
        if _estimate(visible([*self._messages, summary], [*self.compressions, done])) >= before:
            return False, reply.usage
        self._messages.append(summary)
        self.compressions.append(done)
        self._counted = 0
        return True, reply.usage

    def _room(self, turns: int) -> int:
        """Characters per turn, so that the summary request uses at most half of the context."""
        if not (tokens := self._config.context_tokens):
            return _LONGEST_TURN
        return min(int(tokens / 2 * _CHARACTERS_PER_TOKEN) // turns, _LONGEST_TURN)

    def _middle(self, target: int) -> tuple[int, int] | None:
        """The turns to summarise, as a half-open index range."""
        messages = self._messages
        start = next((i for i, m in enumerate(messages) if m.role == "user"), len(messages)) + 1
        done = self.compressions[-1].end if self.compressions else start
        summaries = {compression.at for compression in self.compressions}
        turns = [i for i in range(done, len(messages)) if i not in summaries and begins_turn(messages, i)]
        if len(turns) < 2:
            return None
        room = _TAIL_SHARE * (self._config.context_tokens or self._tokens())
        if target:
            room = max(target - _estimate(messages[:start]) - _SUMMARY_TOKENS, 0.0)
        end = turns[-1]
        for index in reversed(turns[1:-1]):
            if _estimate(messages[index:]) > room:
                break
            end = index
        return start, end


def summary_in(reply: Generation) -> str:
    """The summary in a reply; "" if it is empty, cut off, or a tool call alone."""
    text = split_reasoning(reply.message.content).answer.strip()
    return text if parse_reply(text).content and ending_of(reply.finish_reason) in SOUND else ""


def _estimate(messages: Sequence[Message]) -> float:
    characters = sum(len(m.content) + sum(len(str(c.arguments)) for c in m.tool_calls) for m in messages)
    return characters / _CHARACTERS_PER_TOKEN
