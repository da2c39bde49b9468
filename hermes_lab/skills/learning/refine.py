"""What outcomes do to a library: skills that fail are taken out of prompts until somebody rewrites them."""

from collections.abc import Mapping

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.stats import SkillStats, Use, needs_rewrite
from hermes_lab.skills.library import Library
from hermes_lab.types import Episode
from hermes_lab.types.skill import BY_AGENTS


def refine(library: Library, stats: Mapping[str, SkillStats], config: SkillsConfig) -> Library:
    """The library with its failing skills marked `deprecated`. One that is pinned, or that a person wrote or installed,
    stays as it is.

    A deprecated skill can still be loaded, and `skill_manage` makes it active again when it is edited or patched. So
    `stats` must count the uses of a skill since its last write alone: those before were of another text.
    """
    for name in failing(library, stats, config):
        skill = library.skills[name]
        if not skill_format.pinned(skill) and skill_format.origin(skill) in BY_AGENTS:
            library = library.with_skill(skill_format.marked(skill, state="deprecated"))
    return library


def failing(library: Library, stats: Mapping[str, SkillStats], config: SkillsConfig) -> tuple[str, ...]:
    """The skills in prompts whose outcomes ask for a rewrite. Of one that is a person's they can only be
    told."""
    return tuple(name for name in library.listed if name in stats and needs_rewrite(stats[name], config))


def uses_of(episode: Episode) -> list[Use]:
    """What an episode says of the skills that it loaded. An errored one says nothing: the agent was stopped."""
    if episode.status == "errored":
        return []
    return [Use(name, episode.success, episode.started_at) for name in episode.skills.loaded]
