"""The demonstrator: a scripted policy that acts like a good agent, to generate SFT data for small models.

`hermes-lab experiment -c configs/demonstrations.yaml` runs it through the real system, so that its episodes contain
what a model will encounter: helpful, irrelevant and outdated skills; the policy's own mistakes and how it recovers;
reviews that create a skill, patch one, or correctly write nothing."""

import posixpath
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from hermes_lab.models.scripted import TaskAwarePolicy
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Rule, shell
from hermes_lab.tasks.learner import Learner, Steps, Words, check_rates, thinking
from hermes_lab.tasks.subtasks import Subtask
from hermes_lab.types import ToolResult

_SHELL = re.compile(r"[|;&<>`$\n]")
"""Shell syntax in a command. Such a command may succeed even if its first program is mistyped."""

# Small models are good at copying, and at decisions that depend on a single token. So a thought starts with the name
# that the skill would have, and the next tokens say whether that skill is listed. A review first repeats its request,
# then names the skill in the request's words for the site. After such a decision the wording is fixed, since small
# models confuse variants there.
DEMONSTRATED: Words = MappingProxyType(
    {
        "view": ('Skill "{skill}" is listed, so I read it first.',),
        "plain": ('Skill "{about}" is not listed, so I do {place} the standard way.',),
        "first": ('Skill "{about}" is not listed, and {place} is new.',),
        "follow": ("It says: {rule}.",),
        "silent": ("It has no special rule, so I do it the standard way.",),
        "retry": ("Now I know: {rule}.",),
        "misled": ('So "{skill}" is out of date. The rule is now: {rule}.',),
        "unruled": ('So "{skill}" is out of date: {place} has no special rule now.',),
        "ordinary": ("That was my mistake: {place} has no special rule. I redo it the standard way.",),
        "unclear": ("The feedback does not say why. I try the standard way.",),
        "mistyped": (
            "I mistyped {wrong}. What is it called?",
            "There is no {wrong}. I check what exists.",
            "I got the name wrong: {wrong}. Let me look it up.",
        ),
        "mended": (
            "It is {right}.",
            "It is called {right}.",
            "The right name is {right}.",
        ),
        "reading": ("First I read {path}.", "What is in {path}?", "Let me look at {path}."),
        "done": (
            "Done: see {outputs}.",
            "Done. The result is in {outputs}.",
            "I have finished; {outputs} has the result.",
            "It is finished and saved in {outputs}.",
        ),
        "create": ('Accepted after a rejection, and {place} will need this again: I save it as "{skill}".',),
        "patch": ('Accepted after a rejection, so "{skill}" is out of date: I patch it.',),
        "saved": ("Saved.",),
        "kept": ("Accepted on the first try: the skill was right, so there is nothing to save.",),
        "nothing": ("Accepted on the first try: the standard way was right, so there is nothing to save.",),
    }
)


def demonstrator(seed: int = 0, stumble: float = 0.12, look: bool = True) -> TaskAwarePolicy:
    """A learner that captures every rule.

    With `look` it explores the workspace first, so that it never overwrites files that it has not seen; set it to False
    for tasks that overwrite nothing, and for small models. In a share `stumble` of the tasks it mistypes a name, reads
    the error, looks the name up and corrects it. It never repeats a failed call."""
    check_rates(stumble=stumble)
    return TaskAwarePolicy(lambda task: Demonstrator(task, seed=seed, stumble=stumble, look=look))


@dataclass(frozen=True)
class Demonstrator(Learner):
    """The policy of one task."""

    stumble: float = 0.12
    look: bool = True
    words: ClassVar[Words] = DEMONSTRATED

    def do(self, subtask: Subtask, rule: Rule | None, thought: str) -> Steps:
        """Explores, unless the solution starts with the same call; may mistype a name; then solves the subtask."""
        actions = subtask.solve(rule)
        explore = [look for look in subtask.explore() if self.look and not _same_call(look, actions[0])]
        yield from thinking(thought, explore)
        thought = "" if explore else thought
        if self.happens("stumble", self.stumble, subtask):
            thought = yield from self._stumble(subtask, actions, thought)
        yield from thinking(thought, actions)

    def _stumble(self, subtask: Subtask, actions: Sequence[Action], thought: str) -> Generator[Action, ToolResult, str]:
        """Mistypes the name of the first action's program, of a page or of a file, and then looks it up. Returns the
        next thought."""
        draws, first = self.draws("mistype", subtask.site.entity.name), actions[0]
        command = str(first.arguments.get("command", ""))
        program = command.split(" ", 1)[0]
        if program.startswith("./") and not _SHELL.search(command):
            wrong = mistyped(program, draws)
            yield from thinking(thought, [_changed(first, command.replace(program, wrong, 1))])
            yield _changed(first, f"ls {posixpath.dirname(program)}", self.say("mistyped", subtask, wrong=wrong))
            return self.say("mended", subtask, right=program)
        urls = [url for action in actions if action.tool == "web_extract" for url in action.arguments["urls"]]
        if urls and first.tool == "web_search":
            wrong = mistyped(draws.choice(urls), draws)
            yield Action("web_extract", {"urls": [wrong]}, thought)
            return self.say("mistyped", subtask, wrong=wrong)
        if not subtask.instance.inputs:
            return thought
        path = draws.choice(subtask.instance.inputs)
        wrong = mistyped(path, draws)
        for action in (
            shell(f"head -n 5 {wrong}", f"{thought} {self.say('reading', subtask, path=path)}".strip()),
            shell(f"ls {posixpath.dirname(path) or '.'}", self.say("mistyped", subtask, wrong=wrong)),
            shell(f"head -n 5 {path}", self.say("mended", subtask, right=path)),
        ):
            yield subtask.inside(action)
        return ""


def mistyped(path: str, draws: Draws) -> str:
    """A path with two adjacent letters of its name swapped."""
    folder, name = posixpath.split(path)
    positions = [n for n in range(len(name) - 1) if name[n : n + 2].isalpha() and name[n] != name[n + 1]]
    if not positions:
        return f"{path}x"
    n = draws.choice(positions)
    return posixpath.join(folder, name[:n] + name[n + 1] + name[n] + name[n + 2 :])


def _same_call(one: Action, other: Action) -> bool:
    return (one.tool, one.arguments) == (other.tool, other.arguments)


def _changed(action: Action, command: str, thought: str = "") -> Action:
    """The action with another command."""
    return Action(action.tool, {**action.arguments, "command": command}, thought or action.thought)
