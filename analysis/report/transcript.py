"""Episodes in the viewer's format: the conversation as a list of items, without training data."""

from collections.abc import Iterator
from typing import Any

import msgspec

from hermes_lab.types import Child, Episode, MemoryWrite, Message, SkillWrite, Trajectory, Verdict

Item = dict[str, Any]


def transcript(episode: Episode) -> dict[str, Any]:
    """The episode for JSON, without empty values.

    `items` are the conversation in order: `{"kind": system | user | assistant | tool | verdict, "text": ...}`.
    Assistant items have `calls`, `seconds` and `tokens`, tool items `name` and `failed`, verdicts `score`, `solved` and
    what is missing. `review` and `children` have items of their own.
    """
    skills = episode.skills
    review = episode.review
    return _filled(
        key=episode.key,
        error=f"{episode.error.kind}: {episode.error.message}\n{episode.error.detail}".rstrip()
        if episode.error
        else "",
        items=list(conversation(episode.trajectory, episode)),
        stop=episode.trajectory.stop_reason if episode.trajectory else "",
        triggers=episode.task.triggers,
        listed=skills.listed,
        loaded=skills.loaded,
        followed=[trace.name for trace in skills.traces if trace.followed],
        snapshot=skills.snapshot,
        writes=[_skill_write(write) for write in (*skills.writes, *(review.writes if review else ()))],
        notes=[_note(note) for note in (*episode.memory.writes, *(review.memory if review else ()))],
        children=[_child(child) for child in episode.children],
        review=list(conversation(review.trajectory)) if review else [],
        review_error=review.error.message if review and review.error else "",
    )


def conversation(trajectory: Trajectory | None, episode: Episode | None = None) -> Iterator[Item]:
    """Items of a conversation. With its `episode` they have the verdicts: each precedes the turn with its feedback, and
    the last ones are at the end."""
    told, verdicts = 0, episode.verdicts if episode else ()
    steps = {step.message: step for step in trajectory.steps} if trajectory else {}
    for place, message in enumerate(trajectory.messages if trajectory else ()):
        if message.role == "assistant":
            step = steps.get(place)
            spent = step.usage.completion_tokens if step else 0
            yield _assistant(message) | _filled(tokens=spent, seconds=round(step.seconds, 3) if step else 0)
        elif message.results:
            yield from _results(message)
        else:
            if episode and told < len(verdicts) and episode.tells(message, verdicts[told]):
                yield _verdict(verdicts[told])
                told += 1
            yield _filled(kind=message.role, text=message.content)
    yield from map(_verdict, verdicts[told:])


def _assistant(message: Message) -> Item:
    # In the Hermes text format the text contains the call; show it once.
    written = "<tool_call>" in message.content
    calls = [
        _filled(
            name=call.name,
            arguments={} if written or call.raw else call.arguments,
            raw="" if written else call.raw,
            error=call.error,
        )
        for call in message.tool_calls
    ]
    return _filled(kind="assistant", text=message.content, thought=message.reasoning, calls=calls)


def _results(message: Message) -> Iterator[Item]:
    for result in message.results:
        yield _filled(
            kind="tool", name=result.name, text=result.content, failed=not result.ok, seconds=round(result.seconds, 3)
        )


def _verdict(verdict: Verdict) -> Item:
    missing = {name: verdict.reasons.get(name, "") for name, value in verdict.criteria.items() if value < 1}
    return {"kind": "verdict", "solved": verdict.success, "score": verdict.score} | _filled(missing=missing)


def _skill_write(write: SkillWrite) -> Item:
    return _filled(action=write.action, name=write.name, path=write.path, by=write.origin, text=write.text)


def _note(note: MemoryWrite) -> Item:
    return _filled(action=note.action, name=note.target, by=note.origin, text=note.text or note.old)


def _child(child: Child) -> Item:
    return _filled(
        goal=child.goal,
        items=list(conversation(child.trajectory)),
        error=child.error.message if child.error else "",
        children=[_child(grandchild) for grandchild in child.children],
    )


def _filled(**fields: Any) -> Item:
    """Drops empty, zero and false values, which are the viewer's defaults."""
    return {name: value for name, value in fields.items() if value}


def encoded(episode: Episode) -> bytes:
    """`transcript` as JSON."""
    return msgspec.json.encode(transcript(episode))
