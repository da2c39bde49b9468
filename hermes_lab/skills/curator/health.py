"""How every skill of a library is: one verdict each, and why."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.skills.compiled.security import Problem
from hermes_lab.skills.learning.stats import SkillStats, needs_rewrite
from hermes_lab.skills.library import Library

Verdict = Literal["broken", "failing", "unused", "unproven", "healthy"]
"""`broken`: it cannot work as it is written. `failing`: its outcomes ask for a rewrite. `unused`: nobody loaded it.
`unproven`: its outcomes do not tell yet. `healthy`: it surely does better than the rate under which it would fail."""


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
    """A verdict for every skill, by name. `stats` count the uses since a skill's last write, and `problems` are those
    that `check_skill` found, by the skill's name."""
    return [SkillHealth(name, *_verdict(stats.get(name), problems.get(name, ()), config)) for name in library.skills]


def _verdict(stats: SkillStats | None, problems: Sequence[Problem], config: SkillsConfig) -> tuple[Verdict, str]:
    """The first that holds: what cannot work is broken, however it fared."""
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return "broken", f"{errors[0]}{more}"
    if stats is None or not stats.uses:
        return "unused", "it was not loaded since its last write"
    if not stats.judged:
        return "unproven", f"it was loaded {_times(stats.uses)}, and nothing judged the outcome"
    rate = f"{stats.solved} of {stats.judged} uses solved, posterior {100 * stats.low:.0f}-{100 * stats.high:.0f} %"
    below = f"{100 * config.rewrite_below:g} %"
    if needs_rewrite(stats, config):
        return "failing", f"{rate}: under {below}"
    if stats.low >= config.rewrite_below:
        return "healthy", f"{rate}: not under {below}"
    few = f", and fewer than {config.rewrite_uses} are too few" if stats.high < config.rewrite_below else ""
    return "unproven", f"{rate}: on which side of {below} is open{few}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
