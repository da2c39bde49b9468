"""A model that repeats the replies of a recorded run, read from its episode log."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import anyio.lowlevel
import msgspec

from hermes_lab.errors import ConfigError, ContextFull, ModelError
from hermes_lab.models.wires.chat import wire
from hermes_lab.transcript import CONCLUDE, SUMMARY, summary_request, visible
from hermes_lab.types import Child, Episode, Generation, Message, ModelIdentity, Recorded, Trajectory
from hermes_lab.types.trajectory import StopReason

_encoder = msgspec.json.Encoder()


class ReplayModel:
    """A `ModelClient` that answers every recorded prompt with its recorded reply, byte for byte.

    If several rollouts had the same prompt (k samples), their replies are given in log order, and then cyclically. A
    prompt that was not recorded raises `ModelError`: the run has diverged. If the recording contains prompts refused as
    too long, it raises `ContextFull`, as refused prompts are not recorded. `Generation.then` holds what followed each
    reply. Token ids are not replayed.
    """

    def __init__(
        self, episodes: Iterable[Episode], *, explains: bool = False, volatile: Callable[[str], str] = str
    ) -> None:
        """`explains` is for replaying single episodes: it says how a prompt that was not recorded differs, and accepts
        a prompt whose messages were recorded with other tool schemas, which sets `other_tools`. It keeps all messages
        in memory. `volatile` takes from a text what differs between equal runs of a program, such as the day."""
        self.other_tools = False
        self._volatile = volatile
        self._conversations: list[Sequence[Message]] | None = [] if explains else None
        self._replies: dict[bytes, list[Generation]] = defaultdict(list)
        self._given: dict[bytes, int] = defaultdict(int)
        self._refused = False
        identity = None
        for episode in episodes:
            if episode.trajectory is None:
                continue
            identity = identity or episode.model
            self._add(episode.trajectory, episode.trajectory.messages)
            self._add_children(episode.children)
            if episode.review and episode.review.trajectory:
                before = episode.trajectory.messages
                self._add(episode.review.trajectory, before + episode.review.trajectory.messages)
        if identity is None:
            raise ConfigError("model.name: the run has no recorded replies to replay")
        self.identity: ModelIdentity = identity

    async def generate(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """The recorded reply."""
        await anyio.lowlevel.checkpoint()
        key = self._key(messages, tools)
        if (
            self._conversations is not None
            and key not in self._replies
            and (same := self._key(messages, ())) in self._replies
        ):
            self.other_tools, key = True, same
        if not (replies := self._replies.get(key)):
            kind = ContextFull if self._refused else ModelError
            raise kind(f"the recording has no reply to this prompt: {self._explained(messages)}")
        turn = self._given[key]
        self._given[key] += 1
        return replies[turn % len(replies)]

    def _explained(self, prompt: Sequence[Message]) -> str:
        if not self._conversations:
            return f"turn {len(prompt)}, {prompt[-1].content[:80]!r}"
        nearest = max(self._conversations, key=lambda told: _alike(told, prompt))
        return first_difference(nearest[: len(prompt)], prompt) or f"turn {len(prompt)} was never requested"

    def _key(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> bytes:
        """A digest of the request as sent to a server."""
        sent = wire((stripped(message, self._volatile) for message in messages), "native")
        return hashlib.sha256(_encoder.encode((sent, tools))).digest()

    async def aclose(self) -> None:
        """Does nothing."""

    def _add_children(self, children: Iterable[Child]) -> None:
        """Adds the replies of child agents, recursively."""
        for child in children:
            if child.trajectory:
                self._add(child.trajectory, child.trajectory.messages)
            self._add_children(child.children)

    def _add(self, trajectory: Trajectory, messages: Sequence[Message]) -> None:
        """Adds the replies of one conversation, of which `messages` is the whole."""
        tools = trajectory.tools if trajectory.tool_format == "native" else ()
        if self._conversations is not None:
            self._conversations.append(messages)
        self._refused |= bool(trajectory.compressions) or trajectory.stop_reason == "context_full"
        for step in trajectory.steps:
            before = [c for c in trajectory.compressions if c.at < step.message]
            prompt = visible(messages[: step.message], before)
            reply = messages[step.message]
            if trajectory.tool_format == "hermes":  # calls are parsed from the text again
                reply = Message(role="assistant", content=reply.content, reasoning=reply.reasoning)
            then = _then(messages, step.message, trajectory.stop_reason)
            generation = Generation(reply, step.finish_reason, step.usage, then=then)
            self._replies[self._key(prompt, tools)].append(generation)
            if tools and self._conversations is not None:
                self._replies[self._key(prompt, ())].append(generation)
        for n, done in enumerate(trajectory.compressions):
            prompt = summary_request(messages, trajectory.compressions[:n], done.start, done.end, done.room)
            summary = Message(role="assistant", content=messages[done.at].content.removeprefix(SUMMARY))
            self._replies[self._key(prompt, ())].append(Generation(summary, "stop", done.usage))


def _then(messages: Sequence[Message], place: int, stop: StopReason) -> Recorded:
    """What followed the reply at index `place`."""
    after = list(takewhile(lambda message: message.results, messages[place + 1 :]))
    following = messages[place + 1 + len(after) :]
    ended = bool(following) and following[0].role == "user" and following[0].content == CONCLUDE
    return Recorded(tuple(result for message in after for result in message.results), stop if ended else "")


def stripped(message: Message, volatile: Callable[[str], str]) -> Message:
    """The message without what is `volatile` in its text."""
    told = volatile(message.content)
    return message if told == message.content else msgspec.structs.replace(message, content=told)


def first_difference(then: Sequence[Message], now: Sequence[Message]) -> str:
    """Describes the first difference; "" if there is none."""
    for number, (a, b) in enumerate(zip(then, now, strict=False)):
        if (a.role, a.content) != (b.role, b.content):
            at = next((i for i, (x, y) in enumerate(zip(a.content, b.content, strict=False)) if x != y), 0)
            was, is_ = a.content[max(at - 20, 0) :][:80], b.content[max(at - 20, 0) :][:80]
            return f"message {number} ({a.role}) differs at character {at}: it was {was!r}, now {is_!r}"
    return "" if len(then) == len(now) else f"there were {len(then)} messages, now {len(now)}"


def _alike(then: Sequence[Message], now: Sequence[Message]) -> int:
    """The number of equal messages at the beginning."""
    pairs = zip(then, now, strict=False)
    same = takewhile(lambda pair: (pair[0].role, pair[0].content) == (pair[1].role, pair[1].content), pairs)
    return sum(1 for _ in same)
