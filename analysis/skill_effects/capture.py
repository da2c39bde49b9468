"""Rule capture: precision and recall of the hidden rules stated in a skill library.

Only a suite knows its rules; `hermes_lab.runners.experiments.ground_truth` queries it and this module counts. Only the
text matters: a rule counts as stated if a skill's wording states it, whatever the skill was learned from."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from hermes_lab.analysis.stats.intervals import Rate


class LibraryClaims(Struct, frozen=True, kw_only=True):
    """The rules stated by a library at the start of a round, with the ground truth.

    `rules` are the ids of the hidden rules in force in the lane's worlds; `met` are those that a task of the lane has
    had so far. `claims` maps each skill to the rules it states: ids of rules in force, or "" for a false one.
    `experience` is the number of tasks before the round.
    """

    lane: str
    arm: str
    round: int
    experience: int
    rules: frozenset[str]
    met: frozenset[str]
    claims: dict[str, tuple[str, ...]]


class Capture(Struct, frozen=True, kw_only=True):
    """Precision and recall of one library, as counts.

    precision = true claims / claims
    recall = rules in force stated by some skill / rules in force, in all worlds of the lane
    recall_met = the same, for rules that the lane's tasks have had so far
    `silent` counts skills that state no recognised rule. A paraphrase may go unrecognised, so recall is a lower bound
    and precision covers recognised claims only.
    """

    lane: str
    arm: str
    round: int
    experience: int
    skills: int
    silent: int
    precision: Rate
    recall: Rate
    recall_met: Rate
    untrue: tuple[str, ...]
    """Skills that state a false rule."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("lane", "arm", "round", "experience", "skills", "silent", "untrue")
        rates = {name: getattr(self, name).to_dict() for name in ("precision", "recall", "recall_met")}
        return {name: getattr(self, name) for name in names} | rates


def captures(told: Iterable[LibraryClaims]) -> list[Capture]:
    """One capture per library, in order."""
    return [_capture(each) for each in told]


def _capture(told: LibraryClaims) -> Capture:
    claims = [claim for skill in told.claims.values() for claim in skill]
    true = {claim for claim in claims if claim in told.rules}
    return Capture(
        lane=told.lane,
        arm=told.arm,
        round=told.round,
        experience=told.experience,
        skills=len(told.claims),
        silent=sum(not skill for skill in told.claims.values()),
        precision=Rate(sum(claim in told.rules for claim in claims), len(claims)),
        recall=Rate(len(true), len(told.rules)),
        recall_met=Rate(len(true & told.met), len(told.met)),
        untrue=tuple(sorted(name for name, skill in told.claims.items() if any(c not in told.rules for c in skill))),
    )
