"""`tasks`: judged turns of chats as rows of a JSONL suite, so that what people asked can be run again.

A row's prompt is the message with the conversation before it; its rubric is the person's verdict. Runs, environments
and trainings of such a suite need a model as a judge.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from hermes_lab.chat.recall import without_recall
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.runners.export.source import Source
from hermes_lab.transcript import CONCLUDE
from hermes_lab.types import Episode, Message, Trajectory
from hermes_lab.types.episode import CHAT

_GOOD = (
    "A person asked this, and found the earlier answer below good{why}. A new answer passes if it serves the person "
    "as well: the same facts and the same result, in any words."
)
_BAD = (
    "A person asked this, and rejected the earlier answer below{why}. A new answer passes if it does what was asked "
    "and does not have the fault of the earlier one."
)


def rows(source: Source) -> Iterator[dict[str, Any]]:
    """Every turn that a person judged. What stood in the sandbox is not part of a row."""
    for episode, trajectory in source.finished():
        if episode.suite != CHAT:
            source.left_out["not a turn of a chat"] += 1
        elif episode.success is None:
            source.left_out["not judged by a person"] += 1
        elif (answer := trajectory.final_response) is None:
            source.left_out["no answer"] += 1
        else:
            yield {
                "id": f"{episode.task_id}-{episode.sample}",
                "prompt": _prompt(episode, trajectory),
                "judge": f"{_rubric(episode)}\n\nThe earlier answer:\n\n{answer}",
                "metadata": {"session": episode.task_id, "turn": episode.sample, "good": episode.success},
            }


def _prompt(episode: Episode, trajectory: Trajectory) -> str:
    at = episode.begins
    message = without_recall(trajectory.messages[at].content)
    before = list(_said(trajectory.messages[:at]))
    if not before:
        return message
    lines = "\n\n".join(f"{name}: {text}" for name, text in before)
    return f"The conversation so far:\n\n{lines}\n\nThe message to answer:\n\n{message}"


def _said(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """What the two sides said, without calls and their results."""
    for message in messages:
        if message.role == "user" and not message.results and message.content != CONCLUDE:
            yield "User", without_recall(message.content)
        elif message.role == "assistant" and (text := split_reasoning(message.content).answer.strip()):
            yield "Assistant", text


def _rubric(episode: Episode) -> str:
    comment = next((verdict.reasons.get("person", "") for verdict in episode.verdicts), "")
    why = f" ({' '.join(comment.split())})" if comment.strip() else ""
    return (_GOOD if episode.success else _BAD).format(why=why)
