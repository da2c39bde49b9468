"""What running episodes are doing now, for a person who watches the run. No part of it enters a record."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import msgspec

from hermes_lab.types import Message, ToolCall, ToolResult
from hermes_lab.types.episode import Phase

State = Literal["sandbox", "model", "command", "verifier", "review"]
"""What an episode waits for: its sandbox to start or stop, a reply, tool calls, the verdict, or its review."""
EPISODE_ROOM = 32_000
"""Characters of the newest messages that are kept of an episode."""
ROOM = 2_000_000
"""The same, of all episodes of a process."""
MESSAGE_ROOM = 8_000
"""The same, of one text of a message: its first and its last half."""


class Running(msgspec.Struct, frozen=True, omit_defaults=True):
    """A running episode at one moment. `since` and `started` are seconds since 1970.

    `messages` are the newest ones, shortened, after the first `left_out` of the conversation.
    """

    key: str
    task: str
    lane: str
    state: State
    since: float
    started: float
    phase: Phase = "learn"
    turn: int = 0
    left_out: int = 0
    messages: Sequence[Message] = ()


class Activity:
    """What one episode is doing. The rollout and its agent set it, at the cost of an assignment.

    `messages` is the agent's own list, which grows; `turn` counts its model calls.
    """

    __slots__ = ("_kept", "key", "lane", "messages", "phase", "since", "started", "state", "task", "turn")

    def __init__(self, key: str = "", task: str = "", lane: str = "", phase: Phase = "learn") -> None:
        self.key, self.task, self.lane, self.phase = key, task, lane, phase
        self.messages: list[Message] = []
        self._kept: tuple[tuple[int, int, int], list[Message]] = (0, 0, 0), []  # most episodes wait between two looks
        self.turn = 0
        self.state: State = "sandbox"
        self.started = self.since = time.time()

    def wait_for(self, state: State) -> None:
        """Says what the episode waits for from now on."""
        self.state = state
        self.since = time.time()

    def at_once(self, room: int) -> Running:
        """The episode now, with the newest messages, of about `room` characters."""
        messages = self.messages.copy() if room else []  # a copy, since another thread may add to it
        kept = self._newest(messages, room) if room else []
        return Running(
            key=self.key,
            task=self.task,
            lane=self.lane,
            state=self.state,
            since=self.since,
            started=self.started,
            phase=self.phase,
            turn=self.turn,
            left_out=len(messages) - len(kept),
            messages=kept,
        )

    def _newest(self, messages: Sequence[Message], room: int) -> list[Message]:
        what = id(self.messages), len(messages), room
        known, kept = self._kept
        if known != what:
            kept = _newest(messages, room)
            self._kept = what, kept
        return kept


class Activities:
    """The running episodes of a process. `elsewhere` are those of its workers, as they last said."""

    def __init__(self) -> None:
        self._here: dict[int, Activity] = {}
        self.elsewhere: Sequence[Running] = ()

    @contextmanager
    def episode(self, key: str, task: str, lane: str, phase: Phase = "learn") -> Iterator[Activity]:
        """An episode, as long as it runs."""
        activity = Activity(key, task, lane, phase)
        self._here[id(activity)] = activity
        try:
            yield activity
        finally:
            del self._here[id(activity)]

    def now(self, *, messages: bool = True) -> list[Running]:
        """All running episodes, those of this process without `messages` if none are wanted. May be called in another
        thread than that of the episodes."""
        here = list(self._here.values())
        rounded = 1 << max(len(here) - 1, 0).bit_length()  # so that the room seldom changes
        room = min(EPISODE_ROOM, ROOM // rounded) if messages else 0
        return [*(activity.at_once(room) for activity in here), *self.elsewhere]


def _newest(messages: Sequence[Message], room: int) -> list[Message]:
    """The last messages that fit, and the last one in any case."""
    kept: list[Message] = []
    for message in reversed(messages):
        short = _shortened(message, min(room, MESSAGE_ROOM))
        room -= _size(short)
        if kept and room < 0:
            break
        kept.append(short)
    return kept[::-1]


def _size(message: Message) -> int:
    called = sum(len(call.raw) + (len(str(call.arguments)) if call.arguments else 0) for call in message.tool_calls)
    results = sum(len(result.content) for result in message.results)
    return len(message.content) + len(message.reasoning) + called + results


def _shortened(message: Message, room: int) -> Message:
    return Message(
        role=message.role,
        # A tool's message repeats its results.
        content="" if message.results else _cut(message.content, room),
        tool_calls=tuple(_shortened_call(call, room) for call in message.tool_calls),
        results=tuple(
            ToolResult(each.call_id, each.name, _cut(each.content, room), each.ok, each.executed, each.seconds)
            for each in message.results
        ),
        reasoning=_cut(message.reasoning, room),
    )


def _shortened_call(call: ToolCall, room: int) -> ToolCall:
    if len(call.raw) + len(written := str(call.arguments)) <= room:
        return ToolCall(call.id, call.name, call.arguments, call.error, call.raw)
    return ToolCall(call.id, call.name, {}, call.error, _cut(call.raw or written, room))


def _cut(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    half = room // 2
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters are left out while the episode runs]\n{text[-half:]}"
