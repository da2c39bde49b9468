"""Deprecates failing skills: prompts no longer list them until they are rewritten."""

from collections.abc import Mapping

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.stats import SkillStats, needs_rewrite
from hermes_lab.skills.library import Library
from hermes_lab.types.skill import BY_AGENTS


def refine(library: Library, stats: Mapping[str, SkillStats], config: SkillsConfig) -> Library:
    """Returns the library with its failing skills marked `deprecated`, except those that are pinned, installed or
    written by the user.

    A deprecated skill can still be loaded, and becomes active again when it is edited or patched with `skill_manage`.
    So `stats` must only count uses since a skill's last write, since earlier ones were of a different text.
    """
    for name in failing(library, stats, config):
        skill = library.skills[name]
        if not skill_format.pinned(skill) and skill_format.origin(skill) in BY_AGENTS:
            library = library.with_skill(skill_format.marked(skill, state="deprecated"))
    return library


def failing(library: Library, stats: Mapping[str, SkillStats], config: SkillsConfig) -> tuple[str, ...]:
    """Returns the listed skills whose outcomes call for a rewrite, including those that `refine` may not change."""
    return tuple(name for name in library.listed if name in stats and needs_rewrite(stats[name], config))
