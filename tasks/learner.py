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
from hermes_lab.tasks.family import Move, Rule
from hermes_lab.tasks.feedback import PLAIN
from hermes_lab.tasks.pieces import Piece, known_skill, pieces_of
from hermes_lab.tasks.worlds import Place
from hermes_lab.types import Message, Task, ToolResult

Steps = Generator[Move, ToolResult, None]
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
"""What is said at each moment, over `{place}` and `{outputs}`, and where they are known `{skill}` and `{rule}`."""


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
    def pieces(self) -> tuple[Piece, ...]:
        """What the task asks for; nothing in a suite of another kind."""
        return pieces_of(self.task.truth)

    def work(self, seen: Conversation) -> Script:
        """Piece after piece, by the skill where there is one."""
        for piece in self.pieces:
            skill = "" if self.happens("slip", self.slip) else seen.skill_about(piece.place)
            if not skill:
                thought = self.say("plain" if seen.skills else "first", piece, about=sought(piece.place))
                yield from self.do(piece, None, thought)
                continue
            viewed = text_of((yield Move("skill_view", {"name": skill}, self.say("view", piece, skill=skill))))
            rule = believed(piece, viewed)
            thought = self.say("follow" if rule else "silent", piece, skill=skill, rule=worded(rule, viewed))
            yield from self.do(piece, rule, thought)
        return self.say("done")

    def mend(self, seen: Conversation) -> Script:
        """What was rejected, as the last feedback tells it; the plain way where that tells nothing."""
        for piece in self.pieces:
            if lines := lines_about(piece, seen.feedback[-1]):
                lesson = learnt(piece, lines)
                rule, skill = lesson.rule if lesson else None, seen.skill_about(piece.place)
                misled = bool(seen.viewed(skill))
                told = ("misled" if misled else "retry") if rule else ("unruled" if misled else "ordinary")
                thought = self.say(told if lesson else "unclear", piece, skill=skill, rule=worded(rule, lines))
                yield from self.redo(piece, rule, thought)
        return self.say("done")

    def look_back(self, seen: Conversation) -> Script:
        """Writes down what was told."""
        lessons = [] if self.happens("slip", self.slip) else list(self.lessons(seen))
        for piece, lesson in lessons:
            yield from self.write_down(piece, lesson, seen)
        viewed = any(seen.viewed(skill) for skill in seen.skills)
        return self.say("saved" if lessons else "kept" if viewed else "nothing")

    def do(self, piece: Piece, rule: Rule | None, thought: str) -> Steps:
        """The moves of someone who believes that rule."""
        yield from thinking(thought, piece.moves(rule))

    def redo(self, piece: Piece, rule: Rule | None, thought: str) -> Steps:
        """The moves after a rejection."""
        yield from thinking(thought, piece.moves(rule))

    def lessons(self, seen: Conversation) -> Iterator[tuple[Piece, Lesson]]:
        """What it was told and captures. That nothing special holds is a lesson where a skill misled alone."""
        told = "\n".join(seen.feedback)
        for piece in self.pieces:
            lesson = learnt(piece, lines_about(piece, told))
            if lesson and lesson.rule is None and not seen.viewed(seen.skill_about(piece.place)):
                continue
            if lesson and self.happens("capture", self.capture, piece):
                yield piece, lesson

    def write_down(self, piece: Piece, lesson: Lesson, seen: Conversation) -> Steps:
        """Patches the skill that misled, or creates one; one that is there and was not listed is edited."""
        skill = known_skill(piece.place, lesson.rule or piece.place.drawn)
        body = skill_format.body(skill) if lesson.rule else NOTHING_SPECIAL.format(place=piece.place.called)
        name = seen.skill_about(piece.place) or skill.name
        if viewed := seen.viewed(name):
            change = {"old_string": skill_format.body(skill_format.parse(viewed)), "new_string": body}
            thought = self.say("patch", piece, skill=name)
            yield Move("skill_manage", {"action": "patch", "name": name, **change}, thought)
            return
        whole = {"name": name, "description": skill.description, "content": body}
        created = yield Move("skill_manage", {"action": "create", **whole}, self.say("create", piece, skill=name))
        if not created.ok:
            yield Move("skill_manage", {"action": "edit", **whole}, self.say("patch", piece, skill=name))

    def say(self, moment: str, piece: Piece | None = None, **given: str) -> str:
        """Some of the `words` of the moment."""
        place = piece.place if piece else None
        draws = self.draws("say", moment, place.site.name if place else "")
        called = place.site.called(place.family.noun) if place else ""
        outputs = [piece.path(path) for piece in self.pieces for path in piece.scene.outputs[:2]]
        said = draws.choice(self.words[moment]).format(place=called, outputs=" and ".join(outputs), **given)
        return said[0].upper() + said[1:]

    def happens(self, what: str, rate: float, piece: Piece | None = None) -> bool:
        """Whether something of that rate happens: the same whenever it is asked in an episode."""
        return self.draws(what, piece.place.site.name if piece else "").chance() < rate

    def draws(self, *what: str) -> Draws:
        """Draws of their own for everything that is drawn in the task."""
        return Draws("learner", self.seed, self.task.suite, self.task.id, *what)


def thinking(thought: str, moves: Iterable[Move]) -> Steps:
    """The moves, the first of them with a thought before its own."""
    for move in moves:
        yield Move(move.tool, move.arguments, f"{thought} {move.thought}".strip())
        thought = ""


def sought(place: Place) -> str:
    """The word that the name of a skill about it would begin with; what it does, where the prompt tells no name."""
    return f"for {place.site.called(place.family.noun)}" if place.site.wording == "far" else place.site.name


def believed(piece: Piece, text: str) -> Rule | None:
    """The rule of the place that a skill's text tells; None where it tells none."""
    place, text = piece.place, text.lower()
    ways: tuple[Callable[[Rule], bool], ...] = (
        lambda rule: place.family.howto(place.site, place.shape, rule).lower() in text,
        lambda rule: rule.recipe.lower() in text,
        lambda rule: rule.told_in(text),  # the weakest: rules of one type may share a clause
    )
    return next((rule for tells in ways for rule in piece.candidates if tells(rule)), None)


def lines_about(piece: Piece, feedback: str) -> str:
    """The lines of feedback that reject a piece; empty where none does."""
    called = piece.place.called.lower()
    return "\n".join(line for line in feedback.splitlines() if called in line.lower())


def learnt(piece: Piece, lines: str) -> Lesson | None:
    """What those lines tell, which is always what holds now; None where they tell only what is wrong."""
    if piece.place.drawn.told_in(lines):
        return Lesson(piece.place.drawn)
    return Lesson(None) if PLAIN.format(place=piece.place.called) in lines else None


def worded(rule: Rule | None, text: str) -> str:
    """How `text` tells the rule: what to do about it, if it says that."""
    told = (rule.recipe, *rule.clauses) if rule else ()
    return next((words for words in told if words.lower() in text.lower()), "")
