"""A suite of one or several families: endless tasks in worlds of hidden rules."""

from collections.abc import Sequence

from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Workspace
from hermes_lab.skills.library import Library
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Move, Rule
from hermes_lab.tasks.feedback import write_feedback
from hermes_lab.tasks.pieces import Piece, known_skill, pieces_of
from hermes_lab.tasks.telling import Telling
from hermes_lab.tasks.worlds import SPLITS, AnyFamily, Place, WorldSpec, draw_places, draw_world, task_id
from hermes_lab.types import Skill, Task, Verdict

FRAMES = {
    "train": ("Please do these {count} things.", "There are {count} jobs for you today."),
    "validation": ("A list of {count} errands:",),
    "heldout": ("Could you take care of {count} matters?", "{count} requests came in."),
}
"""How a task of several pieces begins."""


class WorldSuite:
    """Task n of a (split, world, seed) is the same however many are loaded."""

    splits = SPLITS

    def __init__(self, name: str, families: tuple[AnyFamily, ...], spec: WorldSpec) -> None:
        self.name = name
        self.families = families
        self.spec = spec
        self.domain = families[0].domain
        self._tellings: dict[tuple[str, int, int], Telling] = {}

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """`count` tasks about places of the world. Raises `ConfigError` for an unknown split or a count of 0."""
        if split not in self.splits:
            raise ConfigError(f"suite.split: {self.name} has no split {split!r}; there are: {', '.join(self.splits)}")
        if count < 1:
            raise ConfigError(f"suite.count: {self.name} is endless; say how many tasks, at least 1")
        return [self._task(split, world, seed, number) for number in range(count)]

    def places(self, *, split: str, world: int, number: int = 0) -> tuple[Place, ...]:
        """The places of a world as task `number` meets them."""
        epoch = int(bool(self.spec.drift_at) and number >= self.spec.drift_at)
        return draw_world(self.name, self.families, split, world, self.spec, epoch)

    def _task(self, split: str, world: int, seed: int, number: int) -> Task:
        draws = Draws(self.name, split, world, seed, number)
        chosen = self._choose(self.places(split=split, world=world, number=number), draws)
        pieces = tuple(
            # A stream of its own for each piece, so that no piece tells of another.
            _piece(
                place,
                Draws(self.name, split, world, seed, number, place.site.name),
                n if len(chosen) > 1 else 0,
                self._candidates(place, split, world),
            )
            for n, place in enumerate(chosen, 1)
        )
        return Task(
            id=task_id(split, world, seed, number),
            suite=self.name,
            prompt=self._ask(pieces, draws),
            domain=self.domain,
            split=split,
            world=world,
            files={path: text for piece in pieces for path, text in piece.files.items()},
            setup=tuple(command for piece in pieces for command in piece.setup),
            pages=tuple(page for piece in pieces for page in piece.scene.pages),
            triggers=tuple(place.trigger for place in chosen if place.ruled),
            attempts=2 + self.spec.discovery,
            truth={"pieces": pieces},
            metadata={
                "family": "+".join(place.family.name for place in chosen),
                "place": "+".join(place.site.name for place in chosen),
                "rule_type": "+".join(place.drawn.type for place in chosen if place.ruled),
                "seen": not any(place.ruled and place.drawn.unseen for place in chosen),
                "epoch": chosen[0].epoch,
            },
        )

    def _candidates(self, place: Place, split: str, world: int) -> tuple[Rule, ...]:
        if not self.spec.drift_at:
            return (place.drawn,)
        epochs = (self.places(split=split, world=world, number=number) for number in (0, self.spec.drift_at))
        drawn = [each.drawn for places in epochs for each in places if each.site == place.site]
        return tuple({rule.recipe: rule for rule in drawn}.values())

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        """Judges every piece by the workspace, never by the prose of `answer`."""
        pieces = pieces_of(task.truth)
        judged = [await piece.judge(workspace, answer) for piece in pieces]
        named = {
            f"{piece.folder}.{each.name}" if piece.folder else each.name: each
            for piece, criteria in zip(pieces, judged, strict=True)
            for each in criteria
        }
        score, success = self._grade([all(each.score == 1.0 for each in criteria) for criteria in judged])
        draws = Draws(self.name, task.id, "feedback", attempt)
        return Verdict(
            score=score,
            success=success,
            criteria={name: each.score for name, each in named.items()},
            feedback="" if score == 1.0 else write_feedback(pieces, judged, self.spec, attempt, draws),
            reasons={name: each.reason for name, each in named.items() if each.score < 1.0},
        )

    def oracle(self, task: Task) -> tuple[Move, ...]:
        """The tool calls of someone who knows the rules."""
        return tuple(move for piece in pieces_of(task.truth) for move in piece.moves(piece.place.rule))

    def naive(self, task: Task) -> tuple[Move, ...]:
        """The tool calls of someone who does the obvious thing."""
        return tuple(move for piece in pieces_of(task.truth) for move in piece.moves(None))

    def known_skills(self, *, split: str, world: int) -> Library:
        """A skill for each rule that a world begins with, as someone would write it who was told."""
        places = self.places(split=split, world=world)
        return Library(known_skill(place, place.drawn) for place in places if place.ruled)

    def rules(self, *, split: str, world: int, number: int = 0) -> frozenset[str]:
        """The ids of the rules in force as task `number` meets them."""
        return self._telling(split, world, number).rules

    def told(self, skill: Skill, *, split: str, world: int, number: int = 0) -> tuple[str, ...]:
        """Which of them a skill tells, by its words; "" for a rule that is not in force."""
        return self._telling(split, world, number).told(skill)

    def _telling(self, split: str, world: int, number: int) -> Telling:
        first = self.places(split=split, world=world)
        now = self.places(split=split, world=world, number=number)
        key = (split, world, now[0].epoch)
        if key not in self._tellings:
            self._tellings[key] = Telling(now, past=first)
        return self._tellings[key]

    def _choose(self, places: Sequence[Place], draws: Draws) -> list[Place]:
        """The places that a task is about."""
        return draw_places(places, self.spec, draws)

    def _ask(self, pieces: Sequence[Piece], draws: Draws) -> str:
        """The prompt."""
        if len(pieces) == 1:
            return pieces[0].scene.request
        opening = draws.choice(FRAMES[pieces[0].place.site.split]).format(count=len(pieces))
        return "\n".join((opening, *requests(pieces)))

    def _grade(self, right: Sequence[bool]) -> tuple[float, bool]:
        """Score and success of pieces that are right or not.

        A part earns nothing: a score in between would pay for the way that leaves the rule to chance.
        """
        return float(all(right)), all(right)


def requests(pieces: Sequence[Piece]) -> list[str]:
    """What is asked of each of several pieces, a line each."""
    return [f"{n}. In the folder {piece.folder}: {piece.scene.request}" for n, piece in enumerate(pieces, 1)]


def _piece(place: Place, draws: Draws, number: int, candidates: tuple[Rule, ...]) -> Piece:
    """A piece of a task; `number` is its place among several, or 0."""
    folder = place.site.slug(f"part{number}") if number else ""
    return Piece(place, place.family.scene(place.site, place.shape, draws), folder, candidates)
