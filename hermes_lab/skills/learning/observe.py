"""Estimates from an episode's record whether it is worth learning from."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.types import Message, Observation, ToolCall, ToolResult, Trajectory, Verdict

_WORD = re.compile(r"[^\s'\"`,;|&<>()\[\]{}=*]+")
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|'([^'\n]+)'")
_PLAIN = re.compile(r"-{0,2}[^\W\d][^\W\d]*([-_]+[^\W\d]+)*", re.ASCII)
_PAYLOAD = frozenset({"content", "old_string", "new_string", "text", "todos"})
"""Arguments that contain the result of the work, not how it was done."""
ASIDE = frozenset(
    {
        *("skill_view", "skills_list", "skill_manage", "memory", "session_search", "todo", "clarify"),
        # Of programs that work instead of the lab's own loop.
        *("Skill", "TodoWrite", "skill", "todo_write", "todowrite", "todoread", "save_memory", "update_plan"),
    }
)
"""Tools that do not work on the task itself."""
_READ_CHARS = 10_000
_TOOLS = 3


class Done(NamedTuple):
    """A tool call with its result; `turn` is the index of the assistant message that made the call."""

    turn: int
    call: ToolCall
    result: ToolResult

    @property
    def failed(self) -> bool:
        """Whether it was executed and failed. A nonzero exit code is a failure, even of `grep` without a match."""
        return self.result.executed and (not self.result.ok or _exit_code(self.result.content) != 0)

    @property
    def good(self) -> bool:
        """Whether it was executed and did not fail."""
        return self.result.executed and not self.failed


class _Exit(msgspec.Struct):
    exit_code: int | None = 0


def observe(trajectory: Trajectory, verdicts: Sequence[Verdict], config: SkillsConfig) -> Observation:
    """Summarizes what happened and computes its learning value.

    `success`: the last submission was accepted, or, without a verifier, an answer was given. `tools`: the number of
    different tools that returned a result without an error. `recovered`: the episode succeeded after a rejected
    submission, or after a failed call followed by one that did not fail. `messages`: all but the system prompt.
    """
    calls = list(done(trajectory.messages))
    success = verdicts[-1].success if verdicts else trajectory.final_response is not None
    tools = len({each.call.name for each in calls if each.result.ok})
    recovered = success and (_recovered(calls) or any(not verdict.success for verdict in verdicts))
    generalisable = is_of_a_class(_prompt(trajectory), calls)
    value = (4 * success + 2 * (tools >= _TOOLS) + 2 * recovered + 2 * generalisable) / 10
    messages = sum(message.role != "system" for message in trajectory.messages)
    worth = success and value >= config.learn_value and messages >= config.learn_messages
    return Observation(value, success, tools, recovered, generalisable, messages, worth)


def done(messages: Sequence[Message]) -> Iterator[Done]:
    """Yields every call with a result, in order. They are matched by order, since ids may repeat."""
    open_calls: list[tuple[int, ToolCall]] = []
    for turn, message in enumerate(messages):
        if message.role == "assistant":
            open_calls = [(turn, call) for call in message.tool_calls]
        for result in message.results:
            if open_calls:
                yield Done(*open_calls.pop(0), result)


def is_of_a_class(prompt: str, calls: Sequence[Done]) -> bool:
    """Whether the work generalizes to a class of tasks: a text-based proxy that masks what is specific to this task.

    The procedure is the set of tools that did the work and the plain words of their arguments: commands, options and
    executed code, but not the content of written files. Specific to the task are all literals of the prompt (quoted, or
    with a digit, dot or slash) and all numbers, paths and file names. The work generalizes if the procedure has at
    least four words, and at least as many as the specific part. So moving a named file is a one-off, but the same
    command with options that the prompt did not name is a procedure.

    This distinguishes a procedure from a copy of the prompt. Whether the lesson is new, correct or ever needed is left
    to the review, and then to the outcomes.
    """
    own = _literals(prompt)
    procedure: set[str] = set()
    specific: set[str] = set()
    for each in calls:
        if not each.good or each.call.name in ASIDE:
            continue
        procedure.add(each.call.name)
        for word in words(texts({name: value for name, value in each.call.arguments.items() if name not in _PAYLOAD})):
            (procedure if _PLAIN.fullmatch(word) and word not in own else specific).add(word)
    return len(procedure) >= 4 and len(procedure) >= len(specific)


def words(text: str) -> list[str]:
    """Splits a command or code into words; options, paths and names are kept whole."""
    return [word.rstrip(".:!?") for word in _WORD.findall(text[:_READ_CHARS]) if word.rstrip(".:!?")]


def texts(value: Any) -> str:
    """Returns all values inside a call's arguments, one per line."""
    if isinstance(value, dict):
        return "\n".join(map(texts, value.values()))
    if isinstance(value, list | tuple):
        return "\n".join(map(texts, value))
    return str(value)


def _recovered(calls: Sequence[Done]) -> bool:
    first = next((index for index, each in enumerate(calls) if each.failed), len(calls))
    return any(each.good for each in calls[first:])


def _literals(prompt: str) -> set[str]:
    quoted = {word for match in _QUOTED.finditer(prompt) for part in match.groups() if part for word in words(part)}
    return quoted | {word for word in words(prompt) if not _PLAIN.fullmatch(word)}


def _prompt(trajectory: Trajectory) -> str:
    return next((message.content for message in trajectory.messages if message.role == "user"), "")


def _exit_code(content: str) -> int:
    if '"exit_code"' not in content:
        return 0
    try:
        return msgspec.json.decode(content.encode(), type=_Exit).exit_code or 0
    except (msgspec.DecodeError, UnicodeEncodeError):
        return 0
