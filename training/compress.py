"""Fits long conversations into a token budget by replacing middle turns with a note.

The note is generated without a model, so the result is deterministic. The remaining turns keep their exact bytes.
"""

import importlib.util
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.models import weights
from hermes_lab.models.reasoning import separate_reasoning
from hermes_lab.models.wires.chat import wire
from hermes_lab.training.select import Selection, TrainingConversation
from hermes_lab.training.tokens import RefusedError, rows_of
from hermes_lab.transcript import begins_turn
from hermes_lab.types import Message, ToolResult, Trajectory

NOTE = "[Turns left out here to fit a token budget: {what}]"
_LAST_TURNS = 4
"""Number of final turns that are always kept."""
_TOOLS_NAMED, _CODES_NAMED, _NAME_CHARS = 12, 4, 40
"""Limits of a note, since a model may write any tool name."""


class Shortened(NamedTuple):
    """A shortened conversation, with a map from old to new message indices."""

    messages: tuple[Message, ...]
    places: dict[int, int]


def shorten(messages: Sequence[Message], fits: Callable[[Shortened], bool]) -> Shortened | None:
    """Drops middle turns, oldest first, until the rest `fits`; bisection finds how many to drop.

    The first system, user, assistant and tool turns and the last four turns are kept; a call and its results are kept
    or dropped together. None if the protected turns do not fit, or there is nothing to drop.
    """
    protected = _protected(messages)
    middle = [unit for unit in _units(messages) if protected.isdisjoint(unit)]
    if not middle:
        return None
    least = _without(messages, middle)
    if not fits(least):
        return None
    too_few, enough = 0, len(middle)
    while enough - too_few > 1:
        count = (too_few + enough) // 2
        shortened = _without(messages, middle[:count])
        if fits(shortened):
            least, enough = shortened, count
        else:
            too_few = count
    return least


def compress_selection(selection: Selection, tokenizer: Any, max_tokens: int) -> Selection:
    """Compresses every conversation with rows longer than `max_tokens`, or refuses it.

    A compressed conversation loses its sampled tokens; its row is rendered by the chat template.
    """
    rows: dict[str, TrainingConversation] = {}
    refused: Counter[str] = Counter(selection.refused)
    compressed = 0
    for conversation in selection.rows:
        try:
            row = fit(conversation, tokenizer, max_tokens)
        except RefusedError as refusal:
            refused[str(refusal)] += 1
            continue
        if rows.setdefault(row.digest, row) is not row:
            refused["duplicate"] += 1
        else:
            compressed += row is not conversation
    ordered = [rows[digest] for digest in sorted(rows)]
    return Selection(ordered, dict(sorted(refused.items())), compressed)


def fit(conversation: TrainingConversation, tokenizer: Any, max_tokens: int) -> TrainingConversation:
    """The conversation itself if its rows fit, else a compressed one. Raises `RefusedError` if neither fits."""
    if _longest(conversation, tokenizer) <= max_tokens:
        return conversation
    rendered = replace(conversation, branches=(), sampled=())

    def fits(shortened: Shortened) -> bool:
        return _longest(_with(rendered, shortened), tokenizer) <= max_tokens

    shortened = shorten(conversation.messages, fits)
    if shortened is None:
        raise RefusedError(f"longer than {max_tokens} tokens, even compressed")
    row = _with(rendered, shortened)
    if not row.trained:
        raise RefusedError("without a turn to train once compressed")
    return row


def fit_trajectory(trajectory: Trajectory, tokenizer: Any, max_tokens: int) -> Trajectory:
    """The trajectory itself if its text has at most `max_tokens`, else a compressed one without token ids.

    Raises `RefusedError` if neither fits, or if the rollout itself used compression.
    """

    def tokens(messages: Sequence[Message]) -> int:
        return text_tokens(messages, trajectory, tokenizer)

    if tokens(trajectory.messages) <= max_tokens:
        return trajectory
    if trajectory.compressions:
        raise RefusedError("compressed on the way")
    shortened = shorten(trajectory.messages, lambda shortened: tokens(shortened.messages) <= max_tokens)
    if shortened is None:
        raise RefusedError(f"longer than {max_tokens} tokens, even compressed")
    places = shortened.places
    kept = (step for step in trajectory.steps if step.message in places)
    steps = tuple(msgspec.structs.replace(step, message=places[step.message]) for step in kept)
    return msgspec.structs.replace(trajectory, messages=shortened.messages, steps=steps, branches=())


def text_tokens(messages: Sequence[Message], trajectory: Trajectory, tokenizer: Any) -> int:
    """Tokens of messages as rendered by the chat template, plus those of separate reasoning."""
    native = trajectory.tool_format == "native"
    sent = wire(messages, trajectory.tool_format)
    for call in (call for message in sent for call in message.get("tool_calls", ())):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    tools = list(trajectory.tools) if native else None
    text = str(tokenizer.apply_chat_template(sent, tools=tools, tokenize=False, add_generation_prompt=False))
    thoughts = [separate_reasoning(message.content, message.reasoning) for message in messages]
    return sum(len(tokenizer.encode(each, add_special_tokens=False)) for each in [text, *thoughts])


def named_tokenizer(name: str) -> Any:
    """The tokenizer of `packaged`, a folder or a hub id. Raises `ConfigError` if transformers is missing."""
    if importlib.util.find_spec("transformers") is None:
        raise ConfigError("--max-tokens: needs transformers: pip install 'hermes-lab[train]'")
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(weights.resolve_tokenizer(name))


def _longest(conversation: TrainingConversation, tokenizer: Any) -> int:
    return max((len(row.input_ids) for row in rows_of(conversation, tokenizer)), default=0)


def _with(conversation: TrainingConversation, shortened: Shortened) -> TrainingConversation:
    trained = tuple(shortened.places[index] for index in conversation.trained if index in shortened.places)
    return replace(conversation, messages=shortened.messages, trained=trained)


def _units(messages: Sequence[Message]) -> list[range]:
    """Units kept or dropped together: a message, or a reply with the results of its calls."""
    starts = [i for i, m in enumerate(messages) if i == 0 or m.role == "system" or begins_turn(messages, i)]
    return [range(start, end) for start, end in zip(starts, [*starts[1:], len(messages)], strict=True)]


def _protected(messages: Sequence[Message]) -> set[int]:
    firsts: dict[str, int] = {}
    turns: list[int] = []
    for index, message in enumerate(messages):
        # In the native format each tool result is a message; the results of one reply form one turn.
        if not (message.results and index and messages[index - 1].results):
            turns.append(index)
        firsts.setdefault("tool" if message.results else message.role, index)
    tail = range(turns[-_LAST_TURNS:][0], len(messages)) if turns else range(0)
    return {*firsts.values(), *tail}


def _without(messages: Sequence[Message], left_out: Sequence[range]) -> Shortened:
    gone = {index for unit in left_out for index in unit}
    kept: list[Message] = []
    places: dict[int, int] = {}
    run: list[Message] = []
    for index, message in enumerate(messages):
        if index in gone:
            run.append(message)
            continue
        if run:
            kept.append(Message(role="user", content=note(run)))
            run = []
        places[index] = len(kept)
        kept.append(message)
    return Shortened(tuple(kept), places)


def note(left_out: Sequence[Message]) -> str:
    """The note in place of dropped turns: number of replies, tools called and their outcomes."""
    replies = sum(message.role == "assistant" for message in left_out)
    others = sum(message.role != "assistant" and not message.results for message in left_out)
    parts = [_count(replies, "reply", "replies")] if replies else []
    parts += [_count(others, "other message", "other messages")] if others else []
    results = [result for message in left_out for result in message.results]
    return NOTE.format(what="; ".join([*parts, *_calls(results)]))


def _calls(results: Sequence[ToolResult]) -> Iterator[str]:
    names = Counter(result.name for result in results)
    shown = list(names)[:_TOOLS_NAMED]
    for name in shown:
        came = Counter(_outcome(result) for result in results if result.name == name)
        outcomes = [f"{outcome}: {count}" for outcome, count in came.most_common(_CODES_NAMED)]
        if rest := came.total() - sum(count for _, count in came.most_common(_CODES_NAMED)):
            outcomes.append(f"other: {rest}")
        yield f"{_readable(name)} called {_count(names[name], 'time', 'times')} ({', '.join(outcomes)})"
    if rest := names.total() - sum(names[name] for name in shown):
        yield f"other tools called {_count(rest, 'time', 'times')}"


def _outcome(result: ToolResult) -> str:
    if not result.executed:
        return "refused"
    try:
        code = json.loads(result.content).get("exit_code")
    except (ValueError, AttributeError, RecursionError):
        code = None
    if isinstance(code, int) and not isinstance(code, bool):
        return f"exit code {str(code)[:_NAME_CHARS]}"
    return "ok" if result.ok else "failed"


def _readable(name: str) -> str:
    plain = "".join(letter if letter.isalnum() or letter in "_-." else "?" for letter in name[:_NAME_CHARS])
    return plain or "no tool"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
