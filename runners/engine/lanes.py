"""Learning in a lane: computes the knowledge at the start of a round from the episodes before it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hermes_lab.config.schema import Arm, MemoryConfig, RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.knowledge import Knowledge
from hermes_lab.memory.notes import Notes, merge_notes
from hermes_lab.protocols import Suite
from hermes_lab.runners.engine.episode_summary import EpisodeSummary
from hermes_lab.runners.engine.lane_history import Deprecated, MergedNotes, RoundMerge, record
from hermes_lab.skills.learning.refine import refine
from hermes_lab.skills.learning.stats import SkillStats, Use, stats
from hermes_lab.skills.library import Library, merge
from hermes_lab.skills.placebo import placebo, placebo_notes
from hermes_lab.suites import OracleSuite
from hermes_lab.types import MemoryWrite, SkillWrite


@dataclass(frozen=True)
class LaneState:
    """The knowledge at the start of a round, and the uses of each skill since it was last written."""

    knowledge: Knowledge
    uses: tuple[Use, ...] = ()


def initial_library(arm: Arm, library: Library, suite: Suite, *, split: str, world: int) -> Library:
    """The initial skills of a lane; `library` is the configured one.

    Raises `ConfigError` for the arm `oracle` if the suite cannot state its rules, and for `frozen` without skills.
    """
    if arm == "frozen" and not library.skills:
        raise ConfigError(
            "learning.arms: `frozen` needs a skill, and skills.library has none: for the skills of the Hermes home "
            "(`+home`) see `hermes-lab skills list`; to try it out take those of a run, such as "
            "skills.library=runs/one-rule:on-r0-w0"
        )
    if arm == "off":
        return Library()
    if arm == "placebo":
        return placebo(library)
    if arm == "oracle":
        if not isinstance(suite, OracleSuite):
            raise ConfigError(
                f"learning.arms: `oracle` starts with the suite's rules, and {suite.name} has no method `known_skills` "
                "that states them (docs/howto/suite.md); add it, or leave `oracle` out"
            )
        return suite.known_skills(split=split, world=world)
    return library


def after_round(
    state: LaneState, arm: Arm, finished: Sequence[EpisodeSummary], config: RunConfig
) -> tuple[LaneState, RoundMerge]:
    """Merges a round: returns the lane's new state and the record of the merge. `finished` are the round's episodes in
    task order.

    A pure function, so that resume needs only the log. Failing skills are removed from prompts. Writing a skill resets
    its uses, since they refer to the earlier text.
    """
    before = state.knowledge
    kept, dropped = _resolve_conflicts(finished)
    written = {write.name for write in kept}
    uses = tuple(use for use in (*state.uses, *_uses(finished)) if use.name not in written)
    skill_stats = stats(uses, alpha=config.skills.ema_alpha)
    merged = merge(before.library, kept)
    refined = refine(merged, skill_stats, config.skills)
    library = placebo(refined) if arm == "placebo" else refined
    notes, counts = _merge_notes(
        before.notes, [write for episode in finished for write in episode.notes], config.memory
    )
    if arm == "placebo":
        notes = placebo_notes(notes)
    last = finished[-1].program
    knowledge = replace(
        before,
        library=library,
        notes=notes,
        idle=_idle(before, finished),
        state=last.state_after if last else "",
        learnt_from=before.learnt(kept),
    )
    round_merge = RoundMerge(
        round=finished[0].round,
        before=before.library.snapshot,
        after=library.snapshot,
        merged=tuple(map(record, kept)),
        dropped=tuple(record(write, won) for write, won in dropped),
        deprecated=_deprecated(merged, refined, skill_stats),
        emptied=library.snapshot != refined.snapshot,
        notes=MergedNotes(before.notes_snapshot, knowledge.notes_snapshot, *counts),
    )
    return LaneState(knowledge, uses), round_merge


def _uses(finished: Iterable[EpisodeSummary]) -> list[Use]:
    return [Use(name, episode.success, episode.started_at) for episode in finished for name in episode.skills.loaded]


def _idle(before: Knowledge, finished: Sequence[EpisodeSummary]) -> int:
    if any(episode.review for episode in finished):
        return 0
    return before.idle + sum(int(episode.metrics.get("iterations", 0)) for episode in finished)


def _resolve_conflicts(finished: Iterable[EpisodeSummary]) -> tuple[list[SkillWrite], list[tuple[SkillWrite, str]]]:
    """Returns the writes to keep, and those to drop, each with the key of the episode that takes precedence.

    All writes of a round are against the same snapshot, so the first episode that writes a skill wins.
    """
    owners: dict[str, str] = {}
    kept, dropped = [], []
    for episode in finished:
        for write in episode.writes:
            owner = owners.setdefault(write.name, episode.key)
            if owner == episode.key:
                kept.append(write)
            else:
                dropped.append((write, owner))
    return kept, dropped


def _deprecated(merged: Library, refined: Library, by_name: Mapping[str, SkillStats]) -> tuple[Deprecated, ...]:
    changed = [(name, by_name[name]) for name, skill in refined.skills.items() if skill != merged.skills[name]]
    return tuple(Deprecated(name, each.judged, each.solved, each.low, each.high) for name, each in changed)


def _merge_notes(notes: Notes, writes: Sequence[MemoryWrite], config: MemoryConfig) -> tuple[Notes, tuple[int, int]]:
    """Like `merge_notes`; also returns how many writes were merged and how many dropped."""
    merged = 0
    for write in writes:
        after = merge_notes(notes, [[write]], config)
        merged += after != notes
        notes = after
    return notes, (merged, len(writes) - merged)
