"""The curator: proposes and applies maintenance of a library.

It changes only skills written by agents, and deletes nothing: every step sets a state in a skill's frontmatter or is a
reversible merge (`hermes_lab.skills.curator.merged_skill`), and the previous snapshot is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.compiled.security import Problem
from hermes_lab.skills.curator.duplicates import cluster, likeness
from hermes_lab.skills.curator.health import health
from hermes_lab.skills.curator.merged_skill import absorb, apart_from, merged_groups, own
from hermes_lab.skills.learning.stats import SkillStats
from hermes_lab.skills.library import Library
from hermes_lab.types import Skill
from hermes_lab.types.skill import BY_AGENTS

if TYPE_CHECKING:
    import numpy as np

Step = Literal["merge", "deprecate", "stale", "reactivate", "archive", "note"]
_STATES = {"deprecate": "deprecated", "stale": "stale", "reactivate": "", "archive": "archived"}


class Proposal(Struct, frozen=True):
    """A proposed change to a library, with its reason in one sentence.

    `names` are the affected skills; for a `merge` the merged skill comes first. A `note` asks the user to decide and is
    never applied.
    """

    action: Step
    names: tuple[str, ...]
    why: str


def plan(
    library: Library,
    stats: Mapping[str, SkillStats],
    now: datetime,
    config: SkillsConfig,
    *,
    last_changed: Mapping[str, str],
    problems: Mapping[str, Sequence[Problem]] = MappingProxyType({}),
    merge: bool = True,
) -> list[Proposal]:
    """Returns all proposals: merges first, then state changes, by name. After applying them, only notes remain.

    With `merge=False` only state changes are proposed, and no text is embedded.

    `stats` count the uses of a skill since its last write, and `last_changed` is the ISO time of that write; the
    curator's own changes and pinning are not writes. A skill without a known time does not age.
    """
    unhealthy = {
        verdict.name: f"{verdict.verdict}: {verdict.reason}"
        for verdict in health(library, stats, problems, config)
        if verdict.verdict in ("broken", "failing") and _may_change(library.skills[verdict.name])
    }
    merges = _merges(library, unhealthy, stats, config) if merge else []
    merged = carry_out(library, merges)
    absorbed = merged_groups(merged)
    proposals = list(merges)
    for skill in filter(_may_change, merged.skills.values()):
        last = _last_active(_absorbed_family(absorbed, skill.name), stats, last_changed)
        days = None if last is None else (now - last) / timedelta(days=1)
        if step := _next_step(skill_format.state(skill), unhealthy.get(skill.name, ""), days, config):
            proposals.append(Proposal(step[0], (skill.name,), step[1]))
    return proposals


def carry_out(library: Library, proposals: Iterable[Proposal]) -> Library:
    """Applies `proposals`, except those about missing or protected skills."""
    for proposal in proposals:
        if proposal.action == "note" or not all(
            name in library.skills and _may_change(library.skills[name]) for name in proposal.names
        ):
            continue
        merged_skill, *others = proposal.names
        if proposal.action == "merge":
            library = absorb(library, merged_skill, others)
        else:
            state = _STATES[proposal.action]
            library = library.with_skill(skill_format.marked(library.skills[merged_skill], state=state))
    return library


def _may_change(skill: Skill) -> bool:
    return skill_format.origin(skill) in BY_AGENTS and not skill_format.pinned(skill)


def _next_step(
    state: skill_format.State, unhealthy: str, days: float | None, config: SkillsConfig
) -> tuple[Step, str] | None:
    if state == "archived":
        return None
    idle = -1.0 if days is None else days
    if idle >= config.archive_days:
        return "archive", f"unused for {idle:.0f} days (limit {config.archive_days:g})"
    if state != "deprecated" and unhealthy:
        return "deprecate", unhealthy
    if state == "active" and idle >= config.stale_days:
        return "stale", f"unused for {idle:.0f} days (limit {config.stale_days:g})"
    if state == "stale" and days is not None and idle < config.stale_days:
        return "reactivate", f"used or changed {max(idle, 0):.0f} days ago"
    return None


def _merges(
    library: Library, unhealthy: Mapping[str, str], stats: Mapping[str, SkillStats], config: SkillsConfig
) -> list[Proposal]:
    """Proposes merges of duplicates among listed skills.

    Absorbed skills count as part of the skill they were merged into, so that clusters cannot grow by chaining. Compiled
    skills are tools and are never merged.
    """
    absorbed = merged_groups(library)
    heads = [
        skill for name, skill in library.listed.items() if name not in unhealthy and not skill_format.compiled(skill)
    ]
    names = [_absorbed_family(absorbed, head.name) for head in heads]
    skills = [library.skills[name] for group in names for name in group]
    similarity = likeness([own(skill, absorbed.get(skill.name, [])) for skill in skills], config.merge_similarity)
    _keep_apart(similarity, skills)
    ends = list(accumulate((len(group) for group in names), initial=0))
    groups = [range(start, end) for start, end in pairwise(ends)]
    listed = {skill.name for skill in heads}
    proposals = []
    for found in cluster(similarity, groups, config.merge_similarity):
        duplicates = [skills[index].name for index in found.members if skills[index].name in listed]
        if proposal := _merge(library, duplicates, found.likeness, stats, config):
            proposals.append(proposal)
    return sorted(proposals, key=lambda proposal: proposal.names)


def _merge(
    library: Library,
    names: list[str],
    likeness: float,
    stats: Mapping[str, SkillStats],
    config: SkillsConfig,
) -> Proposal | None:
    """Proposes to merge a cluster into its best-proven skill, or adds a note if that is not possible."""
    reason = f"similarity at least {likeness:.2f} (threshold {config.merge_similarity:g})"
    protected = [name for name in names if not _may_change(library.skills[name])]
    if len(protected) == len(names):
        return None
    if protected:
        return Proposal("note", tuple(sorted(names)), f"{reason}, but only you may change {', '.join(protected)}")
    best, *others = sorted(names, key=lambda name: _rank(name, stats.get(name)))
    try:
        absorb(library, best, others)
    except ToolError as error:
        return Proposal("note", (best, *others), f"{reason}, but they cannot be merged: {error}")
    return Proposal("merge", (best, *others), f"{reason}; {_proof(best, stats.get(best))}")


def _rank(name: str, stats: SkillStats | None) -> tuple[float, int, str]:
    """Sort key, best-proven skill first. An unused skill has a posterior mean success rate of 0.5."""
    return (-stats.mean, -stats.uses, name) if stats else (-0.5, 0, name)


def _proof(name: str, stats: SkillStats | None) -> str:
    if stats is None or not stats.judged:
        return f"no skill is proven better than {name}"
    return f"{name} is best proven: {stats.solved} of {stats.judged} uses solved, posterior mean {stats.mean:.2f}"


def _keep_apart(similarity: np.ndarray, skills: Sequence[Skill]) -> None:
    """Sets the similarity of pairs that the user separated to zero."""
    indices = {skill.name: index for index, skill in enumerate(skills)}
    for index, skill in enumerate(skills):
        for other in apart_from(skill) & indices.keys():
            similarity[index, indices[other]] = similarity[indices[other], index] = 0.0


def _last_active(
    names: Iterable[str], stats: Mapping[str, SkillStats], last_changed: Mapping[str, str]
) -> datetime | None:
    """Returns when any of the skills was last used or written; None if unknown."""
    times = [at for name in names for at in (stats[name].last_used if name in stats else "", last_changed.get(name))]
    return max((_time(at) for at in times if at), default=None)


def _time(at: str) -> datetime:
    time = datetime.fromisoformat(at)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _absorbed_family(absorbed: Mapping[str, Sequence[Skill]], name: str) -> list[str]:
    """Returns a skill and everything it absorbed, transitively."""
    found = [name]
    for each in found:
        found += [skill.name for skill in absorbed.get(each, ()) if skill.name not in found]
    return found
