"""Open-ended tasks: several kinds of work in one story, of which most must come out right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.subtasks import Subtask
from hermes_lab.tasks.suite import WorldSuite, requests
from hermes_lab.tasks.words import read_words
from hermes_lab.tasks.worlds import AnyFamily, Site, WorldSpec


@dataclass(frozen=True)
class Story:
    """An occasion on which work of several families is due at once."""

    name: str
    summary: str
    families: tuple[str, ...]
    """One piece of each."""
    openings: Mapping[str, Sequence[str]]
    """How the prompt begins, by split; a format string over `count` and `needed`. No two splits share one."""

    @property
    def needed(self) -> int:
        """How many pieces must be right for a success: all but one."""
        return len(self.families) - 1


def read_story(module_file: str, name: str) -> Story:
    """The story in `NAME.yaml`, in the folder of a module, which passes its `__file__`."""
    return msgspec.convert({"name": name, **read_words(module_file, name)}, Story)


class StorySuite(WorldSuite):
    """Tasks of one story, or of several that share a world. The score is the share of pieces that are right.

    Raises `ConfigError` where a family would be left without a place, or tasks shall have another number of pieces.
    """

    def __init__(self, name: str, stories: tuple[Story, ...], families: tuple[AnyFamily, ...], spec: WorldSpec) -> None:
        super().__init__(name, families, spec)
        self.domain = "open_ended"
        self.stories = stories
        if spec.sites < len(families):
            raise ConfigError(
                f"suite.options: {name} needs a place for each of {len(families)} kinds of work; raise ruled"
            )
        if spec.pieces != 1:
            raise ConfigError(f"suite.options.pieces: a story has its own number of pieces; leave it out for {name}")
        if spec.frequencies != "uniform":
            raise ConfigError("suite.options.frequencies: the places of a story are equally likely; leave it out")

    def _choose(self, sites: Sequence[Site], draws: Draws) -> list[Site]:
        story = draws.choice(self.stories)
        return [draws.choice([p for p in sites if p.family.name == family]) for family in story.families]

    def _ask(self, subtasks: Sequence[Subtask], draws: Draws) -> str:
        story = self._story(subtasks)
        opening = draws.choice(story.openings[subtasks[0].site.entity.split])
        return "\n".join((opening.format(count=len(subtasks), needed=story.needed), *requests(subtasks)))

    def _grade(self, right: Sequence[bool]) -> tuple[float, bool]:
        return sum(right) / len(right), sum(right) >= len(right) - 1

    def _story(self, subtasks: Sequence[Subtask]) -> Story:
        """The story of a task, which its families tell."""
        families = tuple(subtask.site.family.name for subtask in subtasks)
        return next(story for story in self.stories if story.families == families)
