"""Detects repeated calls without effect: the model gets a note, and after too many the work ends."""

import json
from collections.abc import Sequence

import msgspec

from hermes_lab.config.schema import AgentConfig
from hermes_lab.types import ToolCall, ToolResult

DEFAULT_MAX_REPEATS = 6
"""The value of `agent.max_repeats: null` with the full prompt."""

_NOTE = "the same call gave the same result {times} times in a row; try something else, or answer"
_RUNNING = '"status": "running"'


class Repeats:
    """Counts, per submission, calls that get the same result as in the previous turn.

    The order of calls within a turn does not matter. The note counts identical results in a row; the limit counts
    turns, so that work never ends before the model saw a note. Turns that wait for something do not count.
    """

    def __init__(self, config: AgentConfig) -> None:
        full = config.prompt == "full"
        self._noted = full
        self._limit = (DEFAULT_MAX_REPEATS if full else 0) if config.max_repeats is None else config.max_repeats
        self._turns: dict[tuple[str, str], int] = {}  # consecutive turns, by (call, result)
        self._times: dict[tuple[str, str], int] = {}

    @property
    def reached(self) -> bool:
        """Whether every call of the last turn has repeated its result up to the limit."""
        return bool(self._limit and self._turns) and min(self._turns.values()) >= self._limit

    def count(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[ToolResult]:
        """Counts a turn. Returns its results for the model, with a note on repeated ones."""
        turns, times = self._turns, self._times
        self._turns, self._times = {}, {}
        if any(map(_waits, calls, results)):
            return list(results)
        answers = []
        for call, result in zip(calls, results, strict=True):
            one = (_call_key(call), result.content)
            self._turns[one] = turns.get(one, 0) + 1
            self._times[one] = self._times.get(one, times.get(one, 0)) + 1
            answers.append(_with_note(result, self._times[one]) if self._noted else result)
        return answers


def _with_note(result: ToolResult, times: int) -> ToolResult:
    """Appends the note to any note that is already there."""
    if times < 2:
        return result
    answer = json.loads(result.content)
    if not isinstance(answer, dict):  # third-party tools may return other JSON
        return result
    note = _NOTE.format(times=times)
    if before := answer.pop("note", ""):
        note = f"{before}; {note}"
    return msgspec.structs.replace(result, content=json.dumps(answer | {"note": note}, ensure_ascii=False))


def _call_key(call: ToolCall) -> str:
    return json.dumps([call.name, call.arguments, call.raw], sort_keys=True)


def _waits(call: ToolCall, result: ToolResult) -> bool:
    """Whether the call asks a person, or polls a background command that is running or whose state its log does not
    show."""
    if call.name == "process" and result.ok:
        return call.arguments.get("action") == "log" or _RUNNING in result.content
    return call.name == "clarify" and result.ok
