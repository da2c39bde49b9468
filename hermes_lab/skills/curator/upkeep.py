"""Curator proposals for a library on disk, based on its history; and the daily maintenance."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.compiled.security import Problem
from hermes_lab.skills.compiled.validate import check_skill
from hermes_lab.skills.curator import curate
from hermes_lab.skills.learning.stats import Use, stats
from hermes_lab.skills.library import Library
from hermes_lab.skills.storage.history import Change
from hermes_lab.skills.storage.index import current_uses, last_touched
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types.skill import BY_AGENTS

_DAY = 24 * 60 * 60


def proposals(
    library: Library,
    uses: Iterable[Use],
    changes: Sequence[Change],
    problems: Mapping[str, Sequence[Problem]],
    config: SkillsConfig,
    *,
    merge: bool = True,
) -> list[curate.Proposal]:
    """Returns the current proposals of `curate.plan`. A skill last written by the user counts as the user's own."""
    return curate.plan(
        library.with_changes(
            {name: skill_format.marked(library.skills[name], origin="") for name in _by_hand(library, changes)}
        ),
        stats(current_uses(uses, changes), alpha=config.ema_alpha),
        datetime.now(UTC),
        config,
        last_changed=last_touched(changes),
        problems=problems,
        merge=merge,
    )


def tend(store: SkillStore, config: SkillsConfig) -> list[curate.Proposal]:
    """Applies due state changes, at most once a day, and returns them. Merges are only made at the user's request.

    If the last run was less than a day ago, this only reads the time of one file.
    """
    ours = store.root / ".hermes"
    checked = ours / "checked"
    # A time in the future, from a clock that was wrong, counts as none.
    if not ours.is_dir() or (checked.exists() and 0 <= time.time() - checked.stat().st_mtime < _DAY):
        return []
    checked.touch()
    seen = store.load().skills
    problems = {name: check_skill(skill) for name, skill in seen.items() if skill_format.origin(skill) in BY_AGENTS}
    done: list[curate.Proposal] = []

    def make(now: Library) -> Library:
        changes = list(store.history())
        same = {name: found for name, found in problems.items() if now.skills.get(name) == seen[name]}
        due = proposals(now, store.uses(), changes, same, config, merge=False)
        last = {name: change.origin for change in changes for name in change.changed}
        # Skills that the user reactivated are not deprecated again, even if broken.
        done.extend(step for step in due if step.action != "deprecate" or last.get(step.names[0]) != "user")
        return curate.carry_out(now, done)

    store.change(make, origin="curator", reason="the daily round")
    return done


def _by_hand(library: Library, changes: Iterable[Change]) -> list[str]:
    """Returns the skills last written by the user; marks such as a pin are not writes."""
    wrote = {change.name: change.origin for change in changes if change.action is not None}
    return [name for name in library.skills if wrote.get(name) == "user"]
