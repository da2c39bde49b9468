"""The calibrated learner: an agent without a model that captures rules at a known rate.

It works through the real loop, with the real tools, reviews and skills, so that a whole lab can be tested against a
learning curve that is known beforehand (`tasks/expected.py`).
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from hermes_lab.errors import ConfigError
from hermes_lab.models.scripted import Policy, TaskAwarePolicy
from hermes_lab.skills import format as skill_format
from hermes_lab.tasks.conversation import Conversation, Script, go_on, text_of
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Rule
from hermes_lab.tasks.feedback import PLAIN
from hermes_lab.tasks.subtasks import Subtask, known_skill, subtasks_of
from hermes_lab.tasks.worlds import Site
from hermes_lab.types import Message, Task, ToolResult

Steps = Generator[Action, ToolResult, None]
Words = Mapping[str, Sequence[str]]

NOTHING_SPECIAL = "Nothing special holds for {place}: the plain way is right."
"""What a skill says once its rule is known to hold no more."""

WORDS: Words = MappingProxyType(
    {
        "view": ("There is a skill.",),
        "plain": ("No skill is about it.",),
        "first": ("There is no skill yet.",),
        "follow": ("I follow it.",),
        "silent": ("It tells nothing about this.",),
        "retry": ("Again, as I was told.",),
        "misled": ("The skill was wrong; now as I was told.",),
        "unruled": ("So the plain way.",),
        "ordinary": ("Again, the plain way.",),
        "unclear": ("Then the plain way.",),
        "done": ("Done.",),
        "create": ("I save the rule.",),
        "patch": ("I put the skill right.",),
        "saved": ("Saved.",),
        "kept": ("Nothing to save.",),
        "nothing": ("Nothing to save.",),
    }
)
"""What is said at each moment, over `{site}` and `{outputs}`, and where they are known `{skill}` and `{rule}`."""


def learner(capture: float = 1.0, slip: float = 0.0, seed: int = 0) -> TaskAwarePolicy:
    """An agent whose success rate is `expected_success`.

    Where a skill is about a place, it views that and does what it says; else it goes the naive way. After a rejection
    it does what it is told, and its review writes that down with probability `capture` for each rule. With probability
    `slip` it neither looks for skills nor learns in an episode. All draws are of task and seed: the same in every arm,
    and independent between tasks. Raises `ConfigError` where a rate is none.
    """
    check_rates(capture=capture, slip=slip)
    return TaskAwarePolicy(lambda task: Learner(task, capture=capture, slip=slip, seed=seed))


def check_rates(**rates: float) -> None:
    """Raises `ConfigError` for the first that is no probability."""
    for name, rate in rates.items():
        if not isinstance(rate, int | float) or not 0 <= rate <= 1:
            raise ConfigError(f"model.options: {name} is a probability, from 0 to 1, not {rate!r}")


def noop() -> Policy:
    """Answers at once, without work."""
    return lambda _: Message(role="assistant", content="Done.")


class Lesson(NamedTuple):
    """What a rejection told of a place: the rule that holds, or that none does."""

    rule: Rule | None


@dataclass(frozen=True)
class Learner:
    """The policy of one task. What is drawn and said is the same at every turn of an episode."""

    task: Task
    capture: float = 1.0
    slip: float = 0.0
    seed: int = 0
    words: ClassVar[Words] = WORDS

    def __call__(self, messages: Sequence[Message]) -> Message:
        seen = Conversation.read(messages)
        if seen.in_review:
            script = self.look_back(seen)
        elif seen.feedback:
            script = self.mend(seen)
        else:
            script = self.work(seen)
        return go_on(script, seen.exchanges[-1].results)

    @cached_property
    def subtasks(self) -> tuple[Subtask, ...]:
        """What the task asks for; nothing in a suite of another kind."""
        return subtasks_of(self.task.truth)

    def work(self, seen: Conversation) -> Script:
        """Piece after piece, by the skill where there is one."""
        for subtask in self.subtasks:
            skill = "" if self.happens("slip", self.slip) else seen.skill_about(subtask.site)
            if not skill:
                thought = self.say("plain" if seen.skills else "first", subtask, about=sought(subtask.site))
                yield from self.do(subtask, None, thought)
                continue
            viewed = text_of((yield Action("skill_view", {"name": skill}, self.say("view", subtask, skill=skill))))
            rule = believed(subtask, viewed)
            thought = self.say("follow" if rule else "silent", subtask, skill=skill, rule=worded(rule, viewed))
            yield from self.do(subtask, rule, thought)
        return self.say("done")

    def mend(self, seen: Conversation) -> Script:
        """What was rejected, as the last feedback tells it; the plain way where that tells nothing."""
        for subtask in self.subtasks:
            if lines := lines_about(subtask, seen.feedback[-1]):
                lesson = learnt(subtask, lines)
                rule, skill = lesson.rule if lesson else None, seen.skill_about(subtask.site)
                misled = bool(seen.viewed(skill))
                told = ("misled" if misled else "retry") if rule else ("unruled" if misled else "ordinary")
                thought = self.say(told if lesson else "unclear", subtask, skill=skill, rule=worded(rule, lines))
                yield from self.redo(subtask, rule, thought)
        return self.say("done")

    def look_back(self, seen: Conversation) -> Script:
        """Writes down what was told."""
        lessons = [] if self.happens("slip", self.slip) else list(self.lessons(seen))
        for subtask, lesson in lessons:
            yield from self.write_down(subtask, lesson, seen)
        viewed = any(seen.viewed(skill) for skill in seen.skills)
        return self.say("saved" if lessons else "kept" if viewed else "nothing")

    def do(self, subtask: Subtask, rule: Rule | None, thought: str) -> Steps:
        """The moves of someone who believes that rule."""
        yield from thinking(thought, subtask.solve(rule))

    def redo(self, subtask: Subtask, rule: Rule | None, thought: str) -> Steps:
        """The moves after a rejection."""
        yield from thinking(thought, subtask.solve(rule))

    def lessons(self, seen: Conversation) -> Iterator[tuple[Subtask, Lesson]]:
        """What it was told and captures. That nothing special holds is a lesson where a skill misled alone."""
        told = "\n".join(seen.feedback)
        for subtask in self.subtasks:
            lesson = learnt(subtask, lines_about(subtask, told))
            if lesson and lesson.rule is None and not seen.viewed(seen.skill_about(subtask.site)):
                continue
            if lesson and self.happens("capture", self.capture, subtask):
                yield subtask, lesson

    def write_down(self, subtask: Subtask, lesson: Lesson, seen: Conversation) -> Steps:
        """Patches the skill that misled, or creates one; one that is there and was not listed is edited."""
        skill = known_skill(subtask.site, lesson.rule or subtask.site.drawn)
        body = skill_format.body(skill) if lesson.rule else NOTHING_SPECIAL.format(place=subtask.site.called)
        name = seen.skill_about(subtask.site) or skill.name
        if viewed := seen.viewed(name):
            change = {"old_string": skill_format.body(skill_format.parse(viewed)), "new_string": body}
            thought = self.say("patch", subtask, skill=name)
            yield Action("skill_manage", {"action": "patch", "name": name, **change}, thought)
            return
        whole = {"name": name, "description": skill.description, "content": body}
        created = yield Action("skill_manage", {"action": "create", **whole}, self.say("create", subtask, skill=name))
        if not created.ok:
            yield Action("skill_manage", {"action": "edit", **whole}, self.say("patch", subtask, skill=name))

    def say(self, moment: str, subtask: Subtask | None = None, **given: str) -> str:
        """Some of the `words` of the moment."""
        site = subtask.site if subtask else None
        draws = self.draws("say", moment, site.entity.name if site else "")
        called = site.entity.called(site.family.noun) if site else ""
        outputs = [subtask.path(path) for subtask in self.subtasks for path in subtask.instance.outputs[:2]]
        said = draws.choice(self.words[moment]).format(place=called, outputs=" and ".join(outputs), **given)
        return said[0].upper() + said[1:]

    def happens(self, what: str, rate: float, subtask: Subtask | None = None) -> bool:
        """Whether something of that rate happens: the same whenever it is asked in an episode."""
        return self.draws(what, subtask.site.entity.name if subtask else "").chance() < rate

    def draws(self, *what: str) -> Draws:
        """Draws of their own for everything that is drawn in the task."""
        return Draws("learner", self.seed, self.task.suite, self.task.id, *what)


def thinking(thought: str, actions: Iterable[Action]) -> Steps:
    """The moves, the first of them with a thought before its own."""
    for action in actions:
        yield Action(action.tool, action.arguments, f"{thought} {action.thought}".strip())
        thought = ""


def sought(site: Site) -> str:
    """The word that the name of a skill about it would begin with; what it does, where the prompt tells no name."""
    return f"for {site.entity.called(site.family.noun)}" if site.entity.wording == "far" else site.entity.name


def believed(subtask: Subtask, text: str) -> Rule | None:
    """The rule of the place that a skill's text tells; None where it tells none."""
    site, text = subtask.site, text.lower()
    ways: tuple[Callable[[Rule], bool], ...] = (
        lambda rule: site.family.skill_body(site.entity, site.site_config, rule).lower() in text,
        lambda rule: rule.instruction.lower() in text,
        lambda rule: rule.stated_in(text),  # the weakest: rules of one type may share a clause
    )
    return next((rule for tells in ways for rule in subtask.candidates if tells(rule)), None)


def lines_about(subtask: Subtask, feedback: str) -> str:
    """The lines of feedback that reject a piece; empty where none does."""
    called = subtask.site.called.lower()
    return "\n".join(line for line in feedback.splitlines() if called in line.lower())


def learnt(subtask: Subtask, lines: str) -> Lesson | None:
    """What those lines tell, which is always what holds now; None where they tell only what is wrong."""
    if subtask.site.drawn.stated_in(lines):
        return Lesson(subtask.site.drawn)
    return Lesson(None) if PLAIN.format(place=subtask.site.called) in lines else None


def worded(rule: Rule | None, text: str) -> str:
    """How `text` tells the rule: what to do about it, if it says that."""
    told = (rule.instruction, *rule.paraphrases) if rule else ()
    return next((words for words in told if words.lower() in text.lower()), "")
