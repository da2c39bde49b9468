"""What an episode is worth learning from, told from its record alone."""

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
"""Arguments that hold the product of the work, and not how it was made."""
ASIDE = frozenset({"skill_view", "skills_list", "skill_manage", "memory", "session_search", "todo", "clarify"})
"""Tools that do none of the work."""
_READ_CHARS = 10_000
_TOOLS = 3


class Done(NamedTuple):
    """A call with its answer; `turn` is the index of the assistant's message that made it."""

    turn: int
    call: ToolCall
    result: ToolResult

    @property
    def failed(self) -> bool:
        """Whether it was executed and failed; a command does so by its exit code. `grep` that finds nothing, too."""
        return self.result.executed and (not self.result.ok or _exit_code(self.result.content) != 0)

    @property
    def good(self) -> bool:
        """Whether it was executed and did not fail."""
        return self.result.executed and not self.failed


class _Exit(msgspec.Struct):
    exit_code: int | None = 0


def observe(trajectory: Trajectory, verdicts: Sequence[Verdict], config: SkillsConfig) -> Observation:
    """What happened, and its learning value.

    `success`: the last submission was accepted; where nothing judges, that an answer was delivered. `tools`: different
    tools that answered. `recovered`: a submission was rejected, or a call failed and a later one did not, and the work
    succeeded in the end. `messages` counts all but the system prompt.
    """
    calls = list(done(trajectory.messages))
    success = verdicts[-1].success if verdicts else trajectory.final_response is not None
    tools = len({each.call.name for each in calls if each.result.ok})
    recovered = success and (_overcame(calls) or any(not verdict.success for verdict in verdicts))
    generalisable = is_of_a_class(_prompt(trajectory), calls)
    value = (4 * success + 2 * (tools >= _TOOLS) + 2 * recovered + 2 * generalisable) / 10
    messages = sum(message.role != "system" for message in trajectory.messages)
    worth = success and value >= config.learn_value and messages >= config.learn_messages
    return Observation(value, success, tools, recovered, generalisable, messages, worth)


def done(messages: Sequence[Message]) -> Iterator[Done]:
    """Every call that was answered, in order. Answers come in the order of the calls; ids may come again."""
    open_calls: list[tuple[int, ToolCall]] = []
    for turn, message in enumerate(messages):
        if message.role == "assistant":
            open_calls = [(turn, call) for call in message.tool_calls]
        for result in message.results:
            if open_calls:
                yield Done(*open_calls.pop(0), result)


def is_of_a_class(prompt: str, calls: Sequence[Done]) -> bool:
    """Whether the way of working still stands when what is this task's own is masked: a proxy, from texts alone.

    The procedure is the tools that did the work and the plain words of what they were told: commands, options, the code
    that was run, but not the files that were written. What is this task's own is every literal of the prompt (quoted,
    or with a digit, dot or slash) and every number, path and file name wherever it comes from. The work is of a class
    if the procedure is at least four words, and no fewer than what is the task's own. So moving a named file is a
    one-off; options that the prompt did not name make the same command a procedure.

    It tells a procedure from a copy of the prompt. It does not tell whether the lesson is new, right, or ever needed:
    that is for the review, and then for the outcomes.
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
    """The words of a command or of code: options, paths and names stay whole."""
    return [word.rstrip(".:!?") for word in _WORD.findall(text[:_READ_CHARS]) if word.rstrip(".:!?")]


def texts(value: Any) -> str:
    """All strings and numbers inside a call's arguments, a line each."""
    if isinstance(value, dict):
        return "\n".join(map(texts, value.values()))
    if isinstance(value, list | tuple):
        return "\n".join(map(texts, value))
    return str(value)


def _overcame(calls: Sequence[Done]) -> bool:
    first = next((place for place, each in enumerate(calls) if each.failed), len(calls))
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
