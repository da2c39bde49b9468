"""One piece of a task: what a place asks for, how it is judged, and how the shipped policies do it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermes_lab.protocols import Workspace
from hermes_lab.skills.format import parse, render
from hermes_lab.tasks.evidence import Rooted
from hermes_lab.tasks.family import Criterion, Move, Rule, Scene
from hermes_lab.tasks.worlds import Place
from hermes_lab.types import Skill


@dataclass(frozen=True)
class Piece:
    """A scene at a place. `folder` is where it lies in the workspace: empty for a task of one piece."""

    place: Place
    scene: Scene
    folder: str = ""
    candidates: tuple[Rule, ...] = ()
    """What may be believed of the place: the rules drawn for it before and after a drift, whether in force or not."""

    def path(self, path: str) -> str:
        """A path of the scene, in the workspace."""
        return f"{self.folder}/{path}" if self.folder else path

    @property
    def files(self) -> dict[str, str]:
        """The files of the scene, in the workspace."""
        return {self.path(path): text for path, text in self.scene.files.items()}

    @property
    def setup(self) -> tuple[str, ...]:
        """Its setup commands, in the workspace."""
        return tuple(f"cd {self.folder} && {{ {c}\n}}" if self.folder else c for c in self.scene.setup)

    async def judge(self, workspace: Workspace, answer: str | None) -> Sequence[Criterion]:
        """Judges it by the rule in force."""
        inside = Rooted(workspace, self.folder) if self.folder else workspace
        return await self.place.family.judge(self.scene, self.place.rule, inside, answer)

    def moves(self, rule: Rule | None) -> tuple[Move, ...]:
        """The tool calls of someone who believes that `rule` holds here, or that nothing special does."""
        return tuple(self.inside(move) for move in self.place.family.moves(self.scene, rule))

    def looks(self) -> tuple[Move, ...]:
        """How somebody looks around first."""
        return tuple(self.inside(move) for move in self.place.family.looks(self.scene))

    def inside(self, move: Move) -> Move:
        """A move in the folder of the piece."""
        if not self.folder:
            return move
        arguments = dict(move.arguments)
        if move.tool == "terminal":
            arguments["workdir"] = self.folder
        elif "path" in arguments:
            arguments["path"] = self.path(arguments["path"])
        return Move(move.tool, arguments, move.thought)


def known_skill(place: Place, rule: Rule) -> Skill:
    """The skill that tells a place's rule, as someone would write it who was told."""
    description = place.family.subject.format(place=place.called)
    body = place.family.howto(place.site, place.shape, rule)
    return parse(render(place.skill_name, f"{description[0].upper()}{description[1:]}", body))


def pieces_of(truth: Mapping[str, Any]) -> tuple[Piece, ...]:
    """The pieces of a task, from `Task.truth`; none for a task of another kind of suite."""
    pieces: tuple[Piece, ...] = truth.get("pieces", ())
    return pieces
