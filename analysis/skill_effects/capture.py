"""Capture: which hidden rules a library tells, and which of what it tells is not so.

Only a suite knows its rules, so it is asked (`hermes_lab.runners.experiments.ground_truth`); here its answers are
counted. The answers are about *texts*: a rule counts as told where a skill's own words tell it, whatever the skill was
learnt from."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from hermes_lab.analysis.stats.intervals import Rate


class LibraryClaims(Struct, frozen=True, kw_only=True):
    """A library at the beginning of a round, and what is true there.

    `rules` are the ids of the hidden rules in force in the lane's worlds; `met` those of them that a task of the lane
    has had so far. `claims` are by skill what it tells: the id of a rule in force, or "" for a rule that is not.
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
    """Precision and recall of one library, each a count out of a count.

    precision = claims that are true / claims
    recall = rules in force that some skill tells / rules in force, of all worlds of the lane
    recall_met = the same of those rules alone that the lane's tasks had so far
    `silent` counts the skills that tell no rule that the suite knows: a paraphrase is one of them, so recall is a lower
    bound, and precision is of what was understood.
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
    """Skills that tell a rule that is not so."""

    def report(self) -> dict[str, Any]:
        """For JSON."""
        names = ("lane", "arm", "round", "experience", "skills", "silent", "untrue")
        rates = {name: getattr(self, name).report() for name in ("precision", "recall", "recall_met")}
        return {name: getattr(self, name) for name in names} | rates


def captures(told: Iterable[LibraryClaims]) -> list[Capture]:
    """One for each library, in their order."""
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
