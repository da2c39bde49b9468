"""Quality rubric of tasks, measured from checks or episodes: repeatability, clarity, tool diversity, error scenarios.

It uses no model. Every value is in [0, 1] and has a reason with the underlying counts; docs/suites.md has the formulas.
"""

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Any, NamedTuple

from hermes_lab.tasks.subtasks import subtasks_of
from hermes_lab.types import Episode, Task

FEW, MANY = 8, 400
"""Minimum and maximum words of a prompt, per subtask."""

_BEGINS = frozenset({"while", "until", "do", "if", "then", "elif", "else", "{", "!", "time", "exec"})
"""Shell words that are followed by a program."""
_NAMES = frozenset({"for", "case", "in", "done", "fi", "esac", "}", "[", "[["})
"""Shell words that are not followed by a program."""
_HERE = re.compile(r"<<-?[ ]*(['\"]?)(\w+)\1(.*)\n(?s:.*?)\n\s*\2[ ]*(?=\n|$)")
_PROGRAM = re.compile(r"[\w./+-]+")


class Mark(NamedTuple):
    """A value in [0, 1], with the counts behind it."""

    value: float
    reason: str


class Rubric(NamedTuple):
    """How suitable a set of tasks is for learning, regardless of its difficulty."""

    repeatability: Mark
    clarity: Mark
    tool_diversity: Mark
    error_scenarios: Mark

    def lines(self) -> list[str]:
        """One line per mark."""
        return [f"{name.replace('_', ' ')} {mark.value:.2f}: {mark.reason}" for name, mark in self._asdict().items()]

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The marks as JSON."""
        return {name: mark._asdict() for name, mark in self._asdict().items()}


@dataclass(frozen=True)
class Measured:
    """Measurements of one task by `prove`."""

    repeats: tuple[bool, ...]
    """For each repetition, whether the result was the same."""
    met: float
    """The naive solution's score on the criteria that no hidden rule decides."""
    named: float
    """The share of outputs whose path is in the prompt or in a file of the task."""
    length: float
    """See `fit_length`."""
    actions: tuple[str, ...]
    """The actions of exploration and solution: a tool, or the program that a command runs."""
    erred: bool
    """Whether the naive solution had an error or was rejected."""
    mended: bool
    """Whether it erred, and a second attempt in the same workspace was right."""


def grade(measured: Sequence[Measured]) -> Rubric:
    """The rubric of the measured tasks, of which there must be at least one."""
    again = [same for each in measured for same in each.repeats]
    clear = [each.met * each.named * each.length for each in measured]
    erred = [each for each in measured if each.erred]
    mended = sum(each.mended for each in erred)
    return Rubric(
        Mark(
            sum(again) / len(again) if again else 1.0, f"{sum(again)} of {len(again)} repetitions gave the same result"
        ),
        Mark(
            _mean(clear),
            f"the naive solution meets {_mean([m.met for m in measured]):.0%} of the open criteria, "
            f"{_mean([m.named for m in measured]):.0%} of the outputs are named",
        ),
        _diversity(action for each in measured for action in each.actions),
        Mark(mended / len(measured), f"{len(erred)} of {len(measured)} tasks fail at first, {mended} are then fixed"),
    )


def grade_runs(episodes: Iterable[Episode]) -> Rubric:
    """The rubric measured from agents' episodes. Only judged episodes count; raises `ValueError` if there are none."""
    judged = [each for each in episodes if each.verdicts]
    if not judged:
        raise ValueError("no episode was judged")
    order = sorted(judged, key=lambda e: (e.suite, e.task_id, e.lane, e.round))
    pairs = [
        one.success == other.success
        for _, same in groupby(order, key=lambda e: (e.suite, e.task_id, e.lane, e.round))
        for one, other in combinations(list(same), 2)
    ]
    rejected = [each for each in judged if not each.verdicts[0].success]
    parts = [_mean(list(each.verdicts[0].criteria.values())) for each in rejected if each.verdicts[0].criteria]
    erred = [each for each in judged if not each.verdicts[0].success or _failed_calls(each)]
    mended = sum(each.verdicts[-1].success for each in erred)
    return Rubric(
        Mark(_mean(pairs), f"{sum(pairs)} of {len(pairs)} pairs of samples agree")
        if pairs
        else Mark(0.0, "no task was run twice; set run.samples to at least 2"),
        Mark(_mean(parts) if parts else 1.0, f"share of criteria met by {len(rejected)} rejected first submissions"),
        _diversity(action for each in judged for action in _actions_of(each)),
        Mark(mended / len(judged), f"{len(erred)} of {len(judged)} had an error or a rejection, {mended} recovered"),
    )


def named_outputs(task: Task) -> float:
    """The share of a task's output paths that its prompt, files or pages name. 1 for a task that names no outputs,
    since its initial files are then judged."""
    text = "\n".join([task.prompt, *task.files.values(), *(page.text for page in task.pages)])
    outputs = [path for subtask in subtasks_of(task.truth) for path in subtask.instance.outputs]
    named = [path in text or path.rpartition("/")[2] in text or path in task.files for path in outputs]
    return _mean(named) if named else 1.0


def fit_length(task: Task) -> float:
    """1 for a prompt of FEW to MANY words per subtask; falls towards 0 for shorter and longer ones."""
    words, subtasks = len(task.prompt.split()), max(1, len(subtasks_of(task.truth)))
    return min(1.0, words / (FEW * subtasks), MANY * subtasks / max(1, words))


def is_knowledge(task: Task) -> bool:
    """Whether a task can be answered without tools: it has no files, pages or setup."""
    return not (task.files or task.setup or task.pages)


def action_kinds(tool: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The kinds of action in a tool call: for a command, the programs that it runs; otherwise the tool's name."""
    command = arguments.get("command")
    return _programs(command) if tool == "terminal" and isinstance(command, str) else (tool,)


def _programs(command: str) -> tuple[str, ...]:
    """The programs in a command line: the first word of each part, except shell keywords. Skips here-documents."""
    command = _HERE.sub(r"\3", command)
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        words = command.split()
    found, first = [], True
    for word in words:
        if word and set(word) <= set("();<>|&"):
            first = first or not set(word) & set("<>")
        elif first and word in _NAMES:
            first = False
        elif first and word not in _BEGINS and "=" not in word.partition("/")[0]:
            found += [word.rpartition("/")[2]] if _PROGRAM.fullmatch(word) else []
            first = False
    return tuple(found) or ("terminal",)


def _diversity(actions: Iterable[str]) -> Mark:
    """1 - 1/N for an effective number of N kinds of action: the exponential of the entropy of their frequencies."""
    counts = Counter(actions)
    total = sum(counts.values())
    if not total:
        return Mark(0.0, "no tool is needed")
    effective = math.exp(-sum(n / total * math.log(n / total) for n in counts.values()))
    most = ", ".join(name for name, _ in counts.most_common(6))
    return Mark(1 - 1 / effective, f"{len(counts)} kinds of action, effectively {effective:.1f}: {most}")


def _actions_of(episode: Episode) -> list[str]:
    messages = episode.trajectory.messages if episode.trajectory else ()
    return [each for m in messages for call in m.tool_calls for each in action_kinds(call.name, call.arguments)]


def _failed_calls(episode: Episode) -> int:
    messages = episode.trajectory.messages if episode.trajectory else ()
    return sum(not succeeded(result.ok, result.content) for m in messages for result in m.results)


def succeeded(ok: bool, content: str) -> bool:
    """Whether a tool call succeeded: no error, and no exit code other than 0."""
    if not ok:
        return False
    try:
        found = json.loads(content)
    except ValueError:
        return True
    return not isinstance(found, dict) or found.get("exit_code", 0) in (0, None)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
