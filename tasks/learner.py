"""The calibrated learner: a scripted policy that captures rules at a known rate.

It runs in the real agent loop with the real tools, reviews and skills, so that the whole lab can be tested against a
known learning curve (`tasks/expected.py`).
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from hermes_lab.errors import ConfigError
from hermes_lab.models.scripted import Policy, TaskAwarePolicy
from hermes_lab.skills import format as skill_format
from hermes_lab.tasks.browsing import browsing
from hermes_lab.tasks.conversation import Conversation, Script, go_on, text_of
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Rule
from hermes_lab.tasks.feedback import PLAIN
from hermes_lab.tasks.subtasks import Subtask, known_skill, subtasks_of
from hermes_lab.tasks.worlds import Site
from hermes_lab.types import Message, Task, ToolResult

Steps = Generator[Action, ToolResult, None]
Words = Mapping[str, Sequence[str]]

NOTHING_SPECIAL = "There is no special rule for {place}: the standard way is right."
"""The body of a skill whose rule no longer holds."""

WORDS: Words = MappingProxyType(
    {
        "view": ("There is a skill for this.",),
        "plain": ("No skill covers this.",),
        "first": ("There are no skills yet.",),
        "follow": ("I follow it.",),
        "silent": ("It says nothing about this.",),
        "retry": ("I redo it as the feedback says.",),
        "misled": ("The skill was wrong; I redo it as the feedback says.",),
        "unruled": ("The skill was wrong; I redo it the standard way.",),
        "ordinary": ("I redo it the standard way.",),
        "unclear": ("I try the standard way.",),
        "done": ("Done.",),
        "create": ("I save the rule.",),
        "patch": ("I correct the skill.",),
        "saved": ("Saved.",),
        "kept": ("Nothing to save.",),
        "nothing": ("Nothing to save.",),
    }
)
"""The texts for each moment of an episode, as format strings over `{place}` and `{outputs}`, and `{skill}` and `{rule}`
where they are known."""


def learner(capture: float = 1.0, slip: float = 0.0, seed: int = 0, browser: bool = False) -> TaskAwarePolicy:
    """A policy whose success rate is `expected_success`.

    If there is a skill about a site, it views the skill and follows it; otherwise it uses the naive solution. After a
    rejection it follows the rule that the rejection states, and its review writes each such rule down with probability
    `capture`. With probability `slip` it ignores skills and learns nothing in an episode. Random draws depend only on
    task and seed: they are the same in every arm, and independent between tasks. With `browser` it reads the web with
    the toolset `browser` in place of `web`. Raises `ConfigError` for a rate outside of [0, 1].
    """
    check_rates(capture=capture, slip=slip)
    return TaskAwarePolicy(lambda task: Learner(task, capture=capture, slip=slip, seed=seed, browser=browser))


def check_rates(**rates: float) -> None:
    """Raises `ConfigError` for the first rate that is not a probability."""
    for name, rate in rates.items():
        if not isinstance(rate, int | float) or not 0 <= rate <= 1:
            raise ConfigError(f"model.options: {name} must be a probability from 0 to 1, not {rate!r}")


def noop() -> Policy:
    """A policy that answers at once without doing anything."""
    return lambda _: Message(role="assistant", content="Done.")


class Lesson(NamedTuple):
    """What a rejection says about a site: the rule that holds, or that none does."""

    rule: Rule | None


@dataclass(frozen=True)
class Learner:
    """The policy for one task. Its draws and texts are the same at every turn of an episode."""

    task: Task
    capture: float = 1.0
    slip: float = 0.0
    seed: int = 0
    browser: bool = False
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
        """The task's subtasks; empty for other kinds of suites."""
        return subtasks_of(self.task.truth)

    def work(self, seen: Conversation) -> Script:
        """Solves one subtask after the other, with a skill if there is one."""
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
        """Redoes rejected subtasks as the last feedback says; uses the naive solution if it does not say how."""
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
        """Reviews the episode: writes down the rules that rejections stated."""
        lessons = [] if self.happens("slip", self.slip) else list(self.lessons(seen))
        for subtask, lesson in lessons:
            yield from self.write_down(subtask, lesson, seen)
        viewed = any(seen.viewed(skill) for skill in seen.skills)
        return self.say("saved" if lessons else "kept" if viewed else "nothing")

    def do(self, subtask: Subtask, rule: Rule | None, thought: str) -> Steps:
        """The tool calls that solve a subtask under `rule`."""
        actions = thinking(thought, subtask.solve(rule))
        yield from browsing(actions) if self.browser else actions

    def redo(self, subtask: Subtask, rule: Rule | None, thought: str) -> Steps:
        """The tool calls after a rejection."""
        yield from Learner.do(self, subtask, rule, thought)

    def lessons(self, seen: Conversation) -> Iterator[tuple[Subtask, Lesson]]:
        """The lessons that it captures. "Nothing special holds" is only a lesson if a skill was misleading."""
        told = "\n".join(seen.feedback)
        for subtask in self.subtasks:
            lesson = learnt(subtask, lines_about(subtask, told))
            if lesson and lesson.rule is None and not seen.viewed(seen.skill_about(subtask.site)):
                continue
            if lesson and self.happens("capture", self.capture, subtask):
                yield subtask, lesson

    def write_down(self, subtask: Subtask, lesson: Lesson, seen: Conversation) -> Steps:
        """Patches the misleading skill, or creates one; edits an existing skill that was not listed."""
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
        """One of the `words` for a moment, with placeholders filled."""
        site = subtask.site if subtask else None
        draws = self.draws("say", moment, site.entity.name if site else "")
        called = site.entity.called(site.family.noun) if site else ""
        outputs = [subtask.path(path) for subtask in self.subtasks for path in subtask.instance.outputs[:2]]
        said = draws.choice(self.words[moment]).format(place=called, outputs=" and ".join(outputs), **given)
        return said[0].upper() + said[1:]

    def happens(self, what: str, rate: float, subtask: Subtask | None = None) -> bool:
        """Whether an event with probability `rate` happens. The result is the same throughout an episode."""
        return self.draws(what, subtask.site.entity.name if subtask else "").chance() < rate

    def draws(self, *what: str) -> Draws:
        """An independent random stream for each thing that is drawn in the task."""
        return Draws("learner", self.seed, self.task.suite, self.task.id, *what)


def thinking(thought: str, actions: Iterable[Action]) -> Steps:
    """Yields `actions`, with `thought` added before the first one's own."""
    for action in actions:
        yield Action(action.tool, action.arguments, f"{thought} {action.thought}".strip())
        thought = ""


def sought(site: Site) -> str:
    """The first word of the name that a skill about the site would have; what the site does if prompts do not name
    it."""
    return f"for {site.entity.called(site.family.noun)}" if site.entity.wording == "far" else site.entity.name


def believed(subtask: Subtask, text: str) -> Rule | None:
    """The rule of the site that a skill's text states, if any."""
    site, text = subtask.site, text.lower()
    ways: tuple[Callable[[Rule], bool], ...] = (
        lambda rule: site.family.skill_body(site.entity, site.site_config, rule).lower() in text,
        lambda rule: rule.instruction.lower() in text,
        lambda rule: rule.stated_in(text),  # the weakest: rules of one type may share a paraphrase
    )
    return next((rule for tells in ways for rule in subtask.candidates if tells(rule)), None)


def lines_about(subtask: Subtask, feedback: str) -> str:
    """The lines of feedback that reject a subtask; "" if none does."""
    called = subtask.site.called.lower()
    return "\n".join(line for line in feedback.splitlines() if called in line.lower())


def learnt(subtask: Subtask, lines: str) -> Lesson | None:
    """The lesson in those lines, which is always about the current rule; None if they only say what is wrong."""
    if subtask.site.drawn.stated_in(lines):
        return Lesson(subtask.site.drawn)
    return Lesson(None) if PLAIN.format(place=subtask.site.called) in lines else None


def worded(rule: Rule | None, text: str) -> str:
    """The words by which `text` states the rule, preferably its instruction."""
    forms = (rule.instruction, *rule.paraphrases) if rule else ()
    return next((words for words in forms if words.lower() in text.lower()), "")
