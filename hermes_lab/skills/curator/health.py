"""Health of the skills of a library: one verdict per skill, with a reason."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.skills.compiled.security import Problem
from hermes_lab.skills.learning.stats import SkillStats, needs_rewrite
from hermes_lab.skills.library import Library

Verdict = Literal["broken", "failing", "unused", "unproven", "healthy"]
"""`broken`: it cannot work as written. `failing`: its outcomes call for a rewrite. `unused`: never loaded. `unproven`:
not enough outcomes. `healthy`: its success rate is significantly above the failing threshold."""


class SkillHealth(Struct, frozen=True):
    """The verdict on one skill, and the reason in one sentence."""

    name: str
    verdict: Verdict
    reason: str


def health(
    library: Library,
    stats: Mapping[str, SkillStats],
    problems: Mapping[str, Sequence[Problem]],
    config: SkillsConfig,
) -> list[SkillHealth]:
    """Returns a verdict for every skill, by name.

    `stats` count the uses since a skill's last write. `problems` are the results of `check_skill`, by skill name.
    """
    return [SkillHealth(name, *_verdict(stats.get(name), problems.get(name, ()), config)) for name in library.skills]


def _verdict(stats: SkillStats | None, problems: Sequence[Problem], config: SkillsConfig) -> tuple[Verdict, str]:
    """Returns the first verdict that applies; a broken skill is broken regardless of its outcomes."""
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return "broken", f"{errors[0]}{more}"
    if stats is None or not stats.uses:
        return "unused", "not loaded since its last write"
    if not stats.judged:
        return "unproven", f"loaded {_times(stats.uses)}, but no outcome was judged"
    rate = f"{stats.solved} of {stats.judged} uses solved, posterior {100 * stats.low:.0f}-{100 * stats.high:.0f} %"
    below = f"{100 * config.rewrite_below:g} %"
    if needs_rewrite(stats, config):
        return "failing", f"{rate}: below {below}"
    if stats.low >= config.rewrite_below:
        return "healthy", f"{rate}: not below {below}"
    few = f" (fewer than {config.rewrite_uses})" if stats.high < config.rewrite_below else ""
    return "unproven", f"{rate}: too few uses to tell{few}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
