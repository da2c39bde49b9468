"""Open-ended tasks: stories with subtasks of several families, of which all but one must be right."""

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
    """A scenario that needs work of several families."""

    name: str
    summary: str
    families: tuple[str, ...]
    """One subtask of each."""
    openings: Mapping[str, Sequence[str]]
    """The first sentences of the prompt, by split: format strings over `count` and `needed`. Splits share none."""

    @property
    def needed(self) -> int:
        """The number of right subtasks required for success: all but one."""
        return len(self.families) - 1


def read_story(module_file: str, name: str) -> Story:
    """The story in `NAME.yaml` in the folder of `module_file`."""
    return msgspec.convert({"name": name, **read_words(module_file, name)}, Story)


class StorySuite(WorldSuite):
    """Tasks of one story, or of several that share a world. The score is the share of right subtasks.

    Raises `ConfigError` if there are fewer sites than families, or for options that do not apply to stories.
    """

    def __init__(self, name: str, stories: tuple[Story, ...], families: tuple[AnyFamily, ...], spec: WorldSpec) -> None:
        super().__init__(name, families, spec)
        self.domain = "open_ended"
        self.stories = stories
        if spec.sites < len(families):
            raise ConfigError(
                f"suite.options: {name} needs a site for each of its {len(families)} families; raise ruled"
            )
        if spec.pieces != 1:
            raise ConfigError(f"suite.options.pieces: a story sets its own number of pieces; leave it out for {name}")
        if spec.frequencies != "uniform":
            raise ConfigError("suite.options.frequencies: the sites of a story are equally likely; leave it out")

    def _choose(self, sites: Sequence[Site], draws: Draws) -> list[Site]:
        story = draws.choice(self.stories)
        return [draws.choice([site for site in sites if site.family.name == family]) for family in story.families]

    def _ask(self, subtasks: Sequence[Subtask], draws: Draws) -> str:
        story = self._story(subtasks)
        opening = draws.choice(story.openings[subtasks[0].site.entity.split])
        return "\n".join((opening.format(count=len(subtasks), needed=story.needed), *requests(subtasks)))

    def _grade(self, right: Sequence[bool]) -> tuple[float, bool]:
        return sum(right) / len(right), sum(right) >= len(right) - 1

    def _story(self, subtasks: Sequence[Subtask]) -> Story:
        """The story of a task, identified by its families."""
        families = tuple(subtask.site.family.name for subtask in subtasks)
        return next(story for story in self.stories if story.families == families)
