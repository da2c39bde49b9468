"""Calls that are repeated without any effect: the model is told, and after some times the work ends."""

import json
from collections.abc import Sequence

import msgspec

from hermes_lab.config.schema import AgentConfig
from hermes_lab.types import ToolCall, ToolResult

MOST = 6
"""`agent.max_repeats` where it is null and the prompt is `full`."""

_SAYS = "the same call gave the same result {times} times in a row; try something else, or answer"
_RUNS = '"status": "running"'


class Repeats:
    """Counts calls that get the same results as in the turn right before, since one submission.

    The calls of a turn may stand in any order. A note says how many times in a row a call got its result; the bound is
    one of turns, so that the work never ends before the model was told. A turn that waits for something counts for
    nothing: to look again is what it is for.
    """

    def __init__(self, config: AgentConfig) -> None:
        full = config.prompt == "full"
        self._noted = full
        self._most = (MOST if full else 0) if config.max_repeats is None else config.max_repeats
        self._turns: dict[tuple[str, str], int] = {}  # in a row, by call and result
        self._times: dict[tuple[str, str], int] = {}

    @property
    def reached(self) -> bool:
        """Whether each call of the last turn got the same result in as many turns as may be."""
        return bool(self._most and self._turns) and min(self._turns.values()) >= self._most

    def count(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[ToolResult]:
        """Counts a turn; its results as the model is given them: with a note where they are the same again."""
        turns, times = self._turns, self._times
        self._turns, self._times = {}, {}
        if any(map(_waits, calls, results)):
            return list(results)
        told = []
        for call, result in zip(calls, results, strict=True):
            one = (_written(call), result.content)
            self._turns[one] = turns.get(one, 0) + 1
            self._times[one] = self._times.get(one, times.get(one, 0)) + 1
            told.append(_with_note(result, self._times[one]) if self._noted else result)
        return told


def _with_note(result: ToolResult, times: int) -> ToolResult:
    """The note stands at the end; one that is there already comes before it."""
    if times < 2:
        return result
    answer = json.loads(result.content)
    if not isinstance(answer, dict):  # a tool of a task or a package may answer otherwise
        return result
    note = _SAYS.format(times=times)
    if before := answer.pop("note", ""):
        note = f"{before}; {note}"
    return msgspec.structs.replace(result, content=json.dumps(answer | {"note": note}, ensure_ascii=False))


def _written(call: ToolCall) -> str:
    return json.dumps([call.name, call.arguments, call.raw], sort_keys=True)


def _waits(call: ToolCall, result: ToolResult) -> bool:
    """Whether the call asks a person, or looks at a background command that runs, or of which the log does not tell."""
    if call.name == "process" and result.ok:
        return call.arguments.get("action") == "log" or _RUNS in result.content
    return call.name == "clarify" and result.ok
