"""Policies for `ScriptedModel` that do ledger tasks as an agent would, and learn at a known rate.

They see the conversation and nothing else, so that a whole lab (prompts, tools, sandboxes, reviews, lanes,
fits) can be tested against a learning curve that is known beforehand, without a model. The same policy writes
demonstrations.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hermes_lab.agent.review import REVIEW_REQUEST
from hermes_lab.models.scripted import Policy
from hermes_lab.types import Message, ToolCall, ToolResult
from tasks.ledger.hints import Hint, read_hint
from tasks.ledger.suite import ANSWER, sum_command
from tasks.worlds import Draws, WorldSpec

_INDEX = re.compile(r"<skills>\n(?P<lines>.*)\n</skills>\s*\Z", re.DOTALL)
_ENTRY = re.compile(r"- (?P<name>[^:\n]+): (?P<description>.*)")
_FILE = re.compile(r"\b(?P<desk>\w+)\.csv\b")
_COMMAND = re.compile(r"\./ledger sum .*")

VIEWING = ("I look at the skill.", "There is a skill.", "The skill first.", "A skill fits.")
FOLLOWING = ("I follow it.", "As the skill says.", "With its flags.", "Now the sum.")
ADDING = ("I add it up.", "No skill fits.", "A plain sum.", "Just the sum.")
MENDING = ("I fix the command.", "Once more, rightly.", "The command was wrong.")
RETRYING = ("Again, by the rule.", "With that flag.", "I do it their way.", "Now as told.")
SAVING = ("I save the rule.", "Worth a skill.", "This will be needed.", "I note it.")
DONE = (
    "Done: answer.json holds the total.",
    "Done: the total is in answer.json.",
    "Done: I wrote answer.json.",
)
NOTHING = ("Nothing to save.",)
SAVED = ("Saved.", "The skill is saved.")

MISTAKES = ((" sum ", " "), (f" --out {ANSWER}", ""), (" sum ", " sum exports/"))
"""Replacements that make a command the tool refuses."""


def learner(capture: float = 1.0, slip: float = 0.0, seed: int = 0) -> Policy:
    """The calibrated learner: its success rate after n tasks is `expected_success(n, spec, capture, slip)`.

    It goes the naive way where no skill fits, and after a hint it does better. Its review writes the hinted
    rule down with probability `capture`. With probability `slip` it neither looks for a skill nor learns in
    that episode.
    """
    return _Clerk(capture=capture, slip=slip, seed=seed)


def demonstrator(seed: int = 0) -> Policy:
    """A learner that captures everything, in varied words, and in 6 % of the episodes with a skill first
    mistypes the command and mends it: its episodes are demonstrations for fine-tuning.
    """
    return _Clerk(stumble=0.06, varied=True, seed=seed)


def noop() -> Policy:
    """Answers at once, without work."""
    return lambda _: Message(role="assistant", content="Done.")


def expected_success(n: int, spec: WorldSpec, capture: float = 1.0, slip: float = 0.0) -> float:
    """The probability that `learner` solves a task at first try, n tasks being in its library's past.

    A task is about one of D = M + P places, each with probability 1/D. At a plain one (P) the naive way is
    right. At a ruled one (M) the learner succeeds when it does not slip now, and captured the rule before.
    Each of the n earlier tasks captured it with probability c (1 - s) / D, independently: it was about that
    place, the learner did not slip, and the review wrote the rule down. So

        E[success(n)] = P/D + (M/D) (1 - s) (1 - (1 - c (1 - s) / D)^n)

    which is a - (a - i) exp(-r n) with i = P/D, a = i + (M/D)(1 - s) and r = -ln(1 - c (1 - s) / D). It holds
    for rounds of any size where n counts the tasks before the library was frozen.
    """
    known = 1.0 - (1.0 - capture * (1.0 - slip) / spec.places) ** n
    return spec.plain / spec.places + spec.ruled / spec.places * (1.0 - slip) * known


class _View(NamedTuple):
    """A conversation as the policy sees it. A request is a user turn that does not carry tool results."""

    skills: dict[str, str]
    """Descriptions by name, from the index that ends the system prompt."""
    requests: tuple[str, ...]
    """The task first, then feedback or a review's request."""
    results: tuple[ToolResult, ...]
    """Of the tools called since the last request."""

    @property
    def task(self) -> str:
        return self.requests[0]

    @property
    def desk(self) -> str:
        match = _FILE.search(self.task)
        return match["desk"] if match else ""

    @property
    def hint(self) -> Hint | None:
        """The rule that the owner told in this episode."""
        return next((hint for text in self.requests if (hint := read_hint(text))), None)

    @property
    def skill(self) -> str:
        """The name of the listed skill that is about the task's desk; empty where there is none."""
        about = re.compile(rf"\b{self.desk or 'no desk'}\b")
        return next((name for name, text in self.skills.items() if about.search(f"{name} {text}")), "")


@dataclass(frozen=True)
class _Clerk:
    """The policy behind `learner` and `demonstrator`. `stumble` is the rate of mistyped commands where a
    skill is used.
    """

    capture: float = 1.0
    slip: float = 0.0
    stumble: float = 0.0
    varied: bool = False
    seed: int = 0

    def __call__(self, messages: Sequence[Message]) -> Message:
        view = _read(messages)
        if REVIEW_REQUEST in view.requests[-1]:
            return self._review(view)
        if len(view.requests) > 1:
            return self._retry(view)
        if view.skill and not self._happens("slip", view):
            return self._use_skill(view)
        return self._run(view, ADDING, sum_command(f"{view.desk}.csv"))

    def _use_skill(self, view: _View) -> Message:
        """View, run, and run once more where the first command was mistyped."""
        if not view.results:
            return self._call(view, VIEWING, "skill_view", {"name": view.skill})
        right = _template(view.results[0]) or sum_command(f"{view.desk}.csv")
        commands = [self._mistyped(view, right), right] if self._happens("stumble", view) else [right]
        ran = len(view.results) - 1
        if ran == len(commands):
            return self._say(view, DONE)
        return self._call(view, MENDING if ran else FOLLOWING, "terminal", {"command": commands[ran]})

    def _mistyped(self, view: _View, command: str) -> str:
        """A command that the tool refuses."""
        old, new = self._draws("mistake", view).choice(MISTAKES)
        return command.replace(old, new, 1)

    def _retry(self, view: _View) -> Message:
        return self._run(view, RETRYING, sum_command(f"{view.desk}.csv", view.hint.flags if view.hint else ""))

    def _review(self, view: _View) -> Message:
        if view.results:
            return self._say(view, SAVED)
        if not view.hint or view.skill or self._happens("slip", view) or not self._happens("capture", view):
            return self._say(view, NOTHING)
        sentence = view.hint.clause[0].upper() + view.hint.clause[1:]
        return self._call(
            view,
            SAVING,
            "skill_manage",
            {
                "action": "create",
                "name": f"{view.desk}-totals",
                "description": f"How the {view.desk} desk's totals are made",
                "content": f"{sentence}.\n\nRun: {sum_command(f'{view.desk}.csv', view.hint.flags)}",
            },
        )

    def _run(self, view: _View, thoughts: Sequence[str], command: str) -> Message:
        if view.results:
            return self._say(view, DONE)
        return self._call(view, thoughts, "terminal", {"command": command})

    def _happens(self, what: str, view: _View) -> bool:
        """The same for every turn of an episode, and independent between the tasks' texts."""
        rate: float = getattr(self, what)
        return self._draws(what, view).chance() < rate

    def _draws(self, what: str, view: _View) -> Draws:
        return Draws("learner", self.seed, what, view.task)

    def _say(self, view: _View, texts: Sequence[str]) -> Message:
        return Message(role="assistant", content=self._word(view, texts))

    def _call(self, view: _View, thoughts: Sequence[str], name: str, arguments: dict[str, Any]) -> Message:
        call = ToolCall(id=f"call_{len(view.results) + 1}", name=name, arguments=arguments)
        return Message(role="assistant", content=self._word(view, thoughts), tool_calls=(call,))

    def _word(self, view: _View, texts: Sequence[str]) -> str:
        if not self.varied:
            return texts[0]
        return self._draws(f"words/{len(view.requests)}/{len(view.results)}", view).choice(texts)


def _read(messages: Sequence[Message]) -> _View:
    requests: list[str] = []
    results: list[ToolResult] = []
    skills: dict[str, str] = {}
    for message in messages:
        if message.role == "system":
            index = _INDEX.search(message.content)
            skills = {m["name"]: m["description"] for m in _ENTRY.finditer(index["lines"])} if index else {}
        elif message.role == "user" and not message.results:
            requests.append(message.content)
            results = []
        results.extend(message.results)
    return _View(skills, tuple(requests), tuple(results))


def _template(result: ToolResult) -> str:
    """The command line in a viewed skill; empty where there is none, or no skill was found."""
    try:
        content = json.loads(result.content)
    except ValueError:
        content = result.content
    texts = content.values() if isinstance(content, dict) else (content,)
    found = (_COMMAND.search(text) for text in texts if isinstance(text, str))
    return next((match[0].strip() for match in found if match), "")
