"""The rubric of a task, measured from the task and its runs: repeatability, clarity, tool diversity, error scenarios.

No model is asked. Every value is in [0, 1] and comes with what it was counted from; docs/suites.md has the formulas.
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
"""Words of a prompt, for one piece of work: fewer say too little, more hide what is wanted."""


_BEGINS = frozenset({"while", "until", "do", "if", "then", "elif", "else", "{", "!", "time", "exec"})
"""Words of the shell after which a program stands."""
_NAMES = frozenset({"for", "case", "in", "done", "fi", "esac", "}", "[", "[["})
"""And after which none does."""
_HERE = re.compile(r"<<-?[ ]*(['\"]?)(\w+)\1(.*)\n(?s:.*?)\n\s*\2[ ]*(?=\n|$)")
_PROGRAM = re.compile(r"[\w./+-]+")


class Mark(NamedTuple):
    """A value in [0, 1], and what it was counted from."""

    value: float
    reason: str


class Rubric(NamedTuple):
    """How good a set of tasks is to learn from, apart from how hard it is."""

    repeatability: Mark
    clarity: Mark
    tool_diversity: Mark
    error_scenarios: Mark

    def lines(self) -> list[str]:
        """One a mark."""
        return [f"{name.replace('_', ' ')} {mark.value:.2f}: {mark.reason}" for name, mark in self._asdict().items()]

    def report(self) -> dict[str, dict[str, Any]]:
        """The marks for JSON."""
        return {name: mark._asdict() for name, mark in self._asdict().items()}


@dataclass(frozen=True)
class Measured:
    """What the check of one task gave for the rubric."""

    repeats: tuple[bool, ...]
    """Each time that something was done again: whether it came out the same."""
    met: float
    """The share that somebody who knows nothing but the prompt meets, of the criteria that no hidden rule decides."""
    named: float
    """The share of the judged paths that the prompt, or a file that it comes with, names."""
    length: float
    """1 where the prompt has a length to be read; falls to 0 with the words that are missing or too many."""
    actions: tuple[str, ...]
    """What was done, look and work: a tool, or the program that a command runs."""
    erred: bool
    """Whether the obvious way met an error or a rejection."""
    mended: bool
    """And a second, different attempt on top of it was right."""


def grade(measured: Sequence[Measured]) -> Rubric:
    """The rubric of the tasks that were measured, at least one."""
    again = [same for each in measured for same in each.repeats]
    clear = [each.met * each.named * each.length for each in measured]
    erred = [each for each in measured if each.erred]
    mended = sum(each.mended for each in erred)
    return Rubric(
        Mark(sum(again) / len(again) if again else 1.0, f"{sum(again)} of {len(again)} repetitions came out the same"),
        Mark(
            _mean(clear),
            f"the obvious way meets {_mean([m.met for m in measured]):.0%} of the open criteria, "
            f"{_mean([m.named for m in measured]):.0%} of the outputs are named",
        ),
        _diversity(action for each in measured for action in each.actions),
        Mark(mended / len(measured), f"{len(erred)} of {len(measured)} tasks go wrong at first, {mended} are mended"),
    )


def grade_runs(episodes: Iterable[Episode]) -> Rubric:
    """The same of what agents did with the tasks: only episodes that were judged count. Raises `ValueError` where there
    are none."""
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
        else Mark(0.0, "no task was run twice; give run.samples at least 2"),
        Mark(_mean(parts) if parts else 1.0, f"{len(rejected)} rejected first submissions met this part of criteria"),
        _diversity(action for each in judged for action in _did(each)),
        Mark(mended / len(judged), f"{len(erred)} of {len(judged)} met an error or a rejection, {mended} recovered"),
    )


def named_outputs(task: Task) -> float:
    """The share of a task's judged paths that its prompt or a file of the workspace names; 1 where it has none of its
    own, since then what it came with is judged."""
    text = "\n".join([task.prompt, *task.files.values(), *(page.text for page in task.pages)])
    outputs = [path for subtask in subtasks_of(task.truth) for path in subtask.instance.outputs]
    named = [path in text or path.rpartition("/")[2] in text or path in task.files for path in outputs]
    return _mean(named) if named else 1.0


def fit_length(task: Task) -> float:
    """Of the prompt: 1 from FEW to MANY words for each piece of work."""
    words, subtasks = len(task.prompt.split()), max(1, len(subtasks_of(task.truth)))
    return min(1.0, words / (FEW * subtasks), MANY * subtasks / max(1, words))


def is_knowledge(task: Task) -> bool:
    """Whether there is nothing to work with: no file, no page, nothing that a setup made."""
    return not (task.files or task.setup or task.pages)


def action_kinds(tool: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """What a tool call does: the tool's name, or of a command the programs that it runs."""
    command = arguments.get("command")
    return _programs(command) if tool == "terminal" and isinstance(command, str) else (tool,)


def _programs(command: str) -> tuple[str, ...]:
    """The first word of each part of a command line that is no word of the shell's own; here documents are data."""
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
    """1 - 1/N for N kinds of action in effect: the exponential of the entropy of what was done."""
    counts = Counter(actions)
    total = sum(counts.values())
    if not total:
        return Mark(0.0, "no tool is needed")
    effective = math.exp(-sum(n / total * math.log(n / total) for n in counts.values()))
    most = ", ".join(name for name, _ in counts.most_common(6))
    return Mark(1 - 1 / effective, f"{len(counts)} kinds of action, {effective:.1f} in effect: {most}")


def _did(episode: Episode) -> list[str]:
    messages = episode.trajectory.messages if episode.trajectory else ()
    return [each for m in messages for call in m.tool_calls for each in action_kinds(call.name, call.arguments)]


def _failed_calls(episode: Episode) -> int:
    messages = episode.trajectory.messages if episode.trajectory else ()
    return sum(not succeeded(result.ok, result.content) for m in messages for result in m.results)


def succeeded(ok: bool, content: str) -> bool:
    """Whether a tool call did what it was to do: no error, and no exit code but 0."""
    if not ok:
        return False
    try:
        found = json.loads(content)
    except ValueError:
        return True
    return not isinstance(found, dict) or found.get("exit_code", 0) in (0, None)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
