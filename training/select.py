"""Selects conversations for training from episodes. Refusals are counted by reason."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.chat.sharing import withheld
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.models.wires.chat import wire
from hermes_lab.records import read_episodes
from hermes_lab.training.completeness import spoilt, unfinished, unsound_turns
from hermes_lab.training.config import Gate
from hermes_lab.types import Episode, Message, TokenBranch, Trajectory
from hermes_lab.types.trajectory import ToolFormat

_encoder = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True)
class TrainingConversation:
    """One conversation exactly as the model saw it: an episode, and its review if it has one.

    `trained` has the indices of the assistant turns to train on. `branches` are the sampler's token ids, if available,
    and `sampled` the indices of their turns, in order.
    """

    episode: str
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]
    tool_format: ToolFormat
    trained: tuple[int, ...]
    branches: tuple[TokenBranch, ...]
    sampled: tuple[int, ...]

    @property
    def digest(self) -> str:
        """sha256 of the training content, to detect equal samples of a task: with the sampler's tokens, if they are
        known."""
        tokens = [(branch.token_ids, branch.mask) for branch in self.branches]
        return _sha256(self._content(), self.trained, *([tokens, self.sampled] if tokens else []))

    def export(self) -> dict[str, Any]:
        """A JSON Lines row in OpenAI's chat format."""
        return self._content() | {"trained": self.trained, "metadata": {"episode": self.episode}}

    def _content(self) -> dict[str, Any]:
        # In the text format the system prompt contains the tools.
        tools = self.tools if self.tool_format == "native" else ()
        return {"messages": wire(self.messages, self.tool_format), "tools": tools}


@dataclass(frozen=True)
class Selection:
    """The selected conversations, and refusals by reason."""

    rows: list[TrainingConversation]
    refused: dict[str, int]
    compressed: int = 0
    """Rows compressed to a token budget (`training/compress.py`)."""

    @property
    def digest(self) -> str:
        """sha256 of the rows, independent of order and folders."""
        return _sha256(sorted(row.digest for row in self.rows))

    def sentence(self) -> str:
        """The selection in one line."""
        total = len(self.rows) + sum(self.refused.values())
        return f"{len(self.rows)} of {total} episodes selected{refusals(self.refused)}"


def refusals(refused: Mapping[str, int]) -> str:
    """Refusals as text to append to a message, or ""."""
    return "; refused: " + ", ".join(f"{n} {reason}" for reason, n in refused.items()) if refused else ""


def select_rows(runs: Iterable[Path], gate: Gate | None = None) -> Selection:
    """Selects the accepted, finished, distinct conversations of the training split.

    A task is held out if it is in another split, or if one of `gate.held_out` has a task with the same suite, world and
    first prompt, regardless of its id.
    """
    gate = gate or Gate()
    episodes = [episode for run in runs for episode in read_episodes(run)]
    held_out = held_out_tasks(episodes, gate)
    rows: dict[str, TrainingConversation] = {}
    refused: Counter[str] = Counter()
    for episode in episodes:
        reason = _refusal(episode, gate, held_out)
        if reason is None and episode.trajectory is not None:
            row = _conversation(episode, episode.trajectory)
            if not row.trained:
                reason = "without a turn to train"
            elif rows.setdefault(row.digest, row) is not row:
                reason = "duplicate"
        if reason is not None:
            refused[reason] += 1
    # Sorted by digest, since the order in the log depends on which episode finished first.
    return Selection([rows[digest] for digest in sorted(rows)], dict(sorted(refused.items())))


def held_out_tasks(episodes: Iterable[Episode], gate: Gate) -> set[str]:
    """Digests of held-out tasks: in another split of these episodes, or in a held-out run."""
    held_out = {task_digest(episode) for episode in episodes if episode.task.split not in gate.splits}
    return held_out | {task_digest(e) for run in gate.held_out for e in read_episodes(Path(run))}


def _refusal(episode: Episode, gate: Gate, held_out: set[str]) -> str | None:
    if episode.status != "ok" or episode.trajectory is None:
        return "errored"
    if episode.task.split not in gate.splits or is_held_out(episode, held_out):
        return "held out"
    if not episode.verdicts:
        return "not judged"
    if not episode.verdicts[-1].success:
        return "not accepted"
    if reason := unfinished(episode.trajectory) or spoilt(episode.trajectory):
        return reason
    if episode.trajectory.final_response is None:
        return "without a final answer"
    if episode.trajectory.compressions:
        return "compressed on the way"
    return withheld(episode, consent=gate.consent)


def task_digest(episode: Episode) -> str:
    """A task's identity apart from its id: suite, world and first prompt."""
    # An errored episode may have no conversation; then use the task id.
    return _sha256(episode.suite, episode.task.world, episode.prompt or episode.task_id)


def is_held_out(episode: Episode, held_out: Collection[str]) -> bool:
    """Whether the episode's task is held out, by content or by id."""
    known = {task_digest(episode), _sha256(episode.suite, episode.task.world, episode.task_id)}
    return not known.isdisjoint(held_out)


def _conversation(episode: Episode, trajectory: Trajectory) -> TrainingConversation:
    review = episode.review.trajectory if episode.review and not episode.review.error else None
    messages = trajectory.messages + (review.messages if review else ())
    steps = trajectory.steps + (review.steps if review else ())
    return TrainingConversation(
        episode=episode.key,
        messages=messages,
        tools=trajectory.tools,
        tool_format=trajectory.tool_format,
        trained=tuple(_trained(messages, _earlier(trajectory) | unsound_turns(steps) | _unread(messages, review))),
        branches=_join(trajectory.branches, review.branches if review else ()),
        sampled=tuple(step.message for step in steps),
    )


def _earlier(trajectory: Trajectory) -> set[int]:
    """The messages before the model's first reply; in a chat, earlier turns are episodes of their own."""
    return set(range(trajectory.steps[0].message)) if trajectory.steps else set()


def _unread(messages: Sequence[Message], review: Trajectory | None) -> set[int]:
    """The last turn of a review that ended with an unparsed call or an empty reply."""
    if review is None or review.stop_reason not in ("unparsed", "empty"):
        return set()
    return {max(index for index, message in enumerate(messages) if message.role == "assistant")}


def _trained(messages: Sequence[Message], unsound: Collection[int]) -> Iterator[int]:
    """Assistant turns without rejected calls that are not `unsound` (e.g. truncated).

    Calls that ran and failed are kept: recovery is worth learning, malformed calls are not.
    """
    for index, message in enumerate(messages):
        if message.role != "assistant" or index in unsound or _says_nothing(message):
            continue
        malformed = any(call.error for call in message.tool_calls)
        if not malformed and all(result.executed for result in _results(messages[index + 1 :])):
            yield index


def _says_nothing(message: Message) -> bool:
    """Whether a turn has neither a call nor an answer. It may have reasoning."""
    return not message.tool_calls and not split_reasoning(message.content).answer.strip()


def _results(following: Sequence[Message]) -> Iterator[Any]:
    for message in following:
        if message.role == "assistant":
            return
        yield from message.results


def _join(episode: Sequence[TokenBranch], review: Sequence[TokenBranch]) -> tuple[TokenBranch, ...]:
    """Merges branches if the review's tokens extend the episode's. Keeps both masks."""
    if not episode or not review:
        return (*episode, *review)
    last, first = episode[-1], review[0]
    length = len(last.token_ids)
    if first.token_ids[:length] != last.token_ids:
        return (*episode, *review)
    joined = TokenBranch(first.token_ids, last.mask + first.mask[length:], last.logprobs + first.logprobs[length:])
    return (*episode[:-1], joined, *review[1:])


def _sha256(*parts: object) -> str:
    return hashlib.sha256(_encoder.encode(parts)).hexdigest()
