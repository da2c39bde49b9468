"""A model that answers as it did in a recorded run: the episode log is the recording."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import anyio.lowlevel
import msgspec

from hermes_lab.agent.compress import SUMMARY, summary_request, visible
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.wire import wire
from hermes_lab.types import Child, Episode, Generation, Message, ModelIdentity, Trajectory

_encoder = msgspec.json.Encoder()


class ReplayModel:
    """A `ModelClient` that gives every recorded prompt its recorded reply, byte for byte.

    Where several rollouts met the same prompt (k samples), their replies are given in turn, in the order of the log,
    and then again from the first. A prompt that was not recorded is a `ModelError`: what runs now is not what ran
    then. Token ids are not replayed.
    """

    def __init__(self, episodes: Iterable[Episode]) -> None:
        self._replies: dict[bytes, list[Generation]] = defaultdict(list)
        self._given: dict[bytes, int] = defaultdict(int)
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
            raise ConfigError("model.name: the run holds no episode whose replies could be given again")
        self.identity: ModelIdentity = identity

    async def generate(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """The recorded reply."""
        await anyio.lowlevel.checkpoint()
        key = _key(messages, tools)
        if not (replies := self._replies.get(key)):
            raise ModelError(
                f"the recording has no reply to this prompt (turn {len(messages)}): {messages[-1].content[:80]!r}"
            )
        turn = self._given[key]
        self._given[key] += 1
        return replies[turn % len(replies)]

    async def aclose(self) -> None:
        """Nothing to give back."""

    def _add_children(self, children: Iterable[Child]) -> None:
        """Takes up the replies of child agents, and of theirs."""
        for child in children:
            if child.trajectory:
                self._add(child.trajectory, child.trajectory.messages)
            self._add_children(child.children)

    def _add(self, trajectory: Trajectory, messages: Sequence[Message]) -> None:
        """Takes up the replies of one conversation; `messages` is all of it."""
        tools = trajectory.tools if trajectory.tool_format == "native" else ()
        for step in trajectory.steps:
            before = [c for c in trajectory.compressions if c.at < step.message]
            prompt = visible(messages[: step.message], before)
            reply = messages[step.message]
            if trajectory.tool_format == "hermes":  # its calls are read from the text again
                reply = Message(role="assistant", content=reply.content, reasoning=reply.reasoning)
            self._replies[_key(prompt, tools)].append(Generation(reply, step.finish_reason, step.usage))
        for n, done in enumerate(trajectory.compressions):
            prompt = summary_request(messages, trajectory.compressions[:n], done.start, done.end, done.room)
            summary = Message(role="assistant", content=messages[done.at].content.removeprefix(SUMMARY))
            self._replies[_key(prompt, ())].append(Generation(summary, "stop", done.usage))


def _key(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> bytes:
    """A digest of what a server would be sent."""
    return hashlib.sha256(_encoder.encode((wire(messages, "native"), tools))).digest()
