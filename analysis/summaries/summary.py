"""The summary of a run."""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.analysis.data.columns import read_columns
from hermes_lab.analysis.data.runs import ended_early
from hermes_lab.analysis.skill_effects.timeline import read_merges
from hermes_lab.analysis.skill_effects.treatment import TreatmentTally, merges_of
from hermes_lab.analysis.stats.rates import Place, rate_over
from hermes_lab.analysis.summaries.evaluation import Evaluation
from hermes_lab.analysis.summaries.unread import longest_cut, unread_formats
from hermes_lab.analysis.summaries.warnings import Seen, warnings_of
from hermes_lab.lane import SKILL_ARMS
from hermes_lab.manifest import read_manifest
from hermes_lab.types.episode import CHAT


def summarize(run: Path, arms: Collection[str] = ()) -> dict[str, Any]:
    """Totals of the run, and under `groups` the same for each (arm, model, adapter), ready for JSON. With `arms`, of
    these arms alone.

    `command` is that of the manifest, `chat` for turns of chats, where a person's verdict is the only score.

    `program` has the name, version and digest of the program that worked; null for the lab's own loop.

    `uncounted_calls`, `uncounted_review_calls` and `uncounted_votes` count the model calls whose tokens the server did
    not report: no sum of tokens or costs includes them.

    `finished` episodes have status ok, `scored` ones also a verdict, `solved` ones a correct first submission;
    `success_rate` and `mean_score` are null if nothing was scored. Tokens and seconds are sums over episodes without
    reviews. `skills_dropped` are those of `skills_written` that the merge after the round discarded, because another
    episode wrote the same skill first. `judge_votes`, `judge_tokens` and `judge_cost` are those of a model as a judge,
    errored episodes included, and in no other sum. `rescored` is null unless `hermes-lab rescore` wrote the run: `from`
    is the run it read, `verifier` a digest, and `not_possible` counts the reasons of episodes without a new verdict.

    `stop_reasons` counts finished episodes by `StopReason`; some have keys of their own:
    `truncated` (stop reason `length`: the last reply was cut), `unparsed`, `refused`, `filtered`, `empty`, `repeated`
    and `context_full`. `solved_by_stop_reason` has `count` solved `of` scored ones for each. `review_stop_reasons` is
    of the reviews. `cut_replies` counts `api_calls` with a truncated reply, `refused_calls` the `tool_calls` that never
    ran, `unparsed_calls` those of them that could not be parsed; null if no record has the count. `errors` has for each
    kind its `count` and most frequent `message`. `warnings` lists problems that invalidate scores
    (`hermes_lab.analysis.summaries.warnings`), of the whole run and of groups.

    `stopped` is the decision by which a stopping rule (`learning.stop`) ended the run early, or "".

    `evaluation` is null except for a plain `run` and for chats (`hermes_lab.analysis.summaries.evaluation`): success by
    task, domain and family, tokens, time and cost, and the failures to look at first.

    A group also has rates with 95 % intervals, clustered by world or task (`hermes_lab.analysis.stats.rates`):
    `success`, `accepted`, `first_call_ok` and `reused`.
    `first_call_ok` is over the episodes whose first reply asked for a tool. Held-out episodes are included; `phases`
    has the same values for `learn` and `heldout` separately. `treatment` counts the reviews, and the skills that were
    written, merged, listed, loaded and followed (`hermes_lab.analysis.skill_effects.treatment`); null where nothing
    was written or given, unless the arm should have given it. `followed` in it is null if no loaded skill has code.

    Raises `ConfigError` if `run` is no run folder.
    """
    manifest = read_manifest(run)
    program = manifest.program
    total = _Tally()
    groups: dict[tuple[str, str, str, str], _Group] = {}
    dropped = _dropped(run)
    evaluation = Evaluation() if manifest.command in ("run", CHAT) else None
    for row in itertools.starmap(_Row, read_columns(run, _Row._fields)):
        if arms and row.arm not in arms:
            continue
        group = groups.setdefault((row.arm, row.model, row.adapter, row.adapter_digest), _Group())
        for tally in (total, group.whole, group.phases.setdefault(row.phase, _Tally())):
            tally.add(row, dropped[row.key])
        if evaluation:
            evaluation.add(row)
        group.treatment.add_lesson(row)
        group.treatment.add_use(row)
    made = manifest.rescored
    merged = merges_of(run)
    content = {
        "command": manifest.command,
        "wanted": manifest.wanted_of(arms) or total.episodes,
        "program": program and {"name": program.name, "version": program.version, "digest": program.digest},
        "stopped": ended_early(run),
        **total.amounts(),
        "rescored": made and {"from": made.run, "verifier": made.verifier, "not_possible": total.rescore_problems()},
        "evaluation": evaluation and evaluation.to_dict(manifest.config.get("model", {}).get("price")),
        "groups": [
            {"arm": arm, "model": model, "adapter": adapter, "adapter_digest": digest}
            | groups[arm, model, adapter, digest].to_dict(arm, merged, run)
            for arm, model, adapter, digest in sorted(groups)
        ],
    }
    formats = unread_formats(run) if content["unparsed"] else []
    seen = Seen(formats, longest_cut(run) if content["truncated"] else 0)
    return content | {"warnings": warnings_of(content, manifest.config, seen)}


class _Row(NamedTuple):
    """The columns of `EpisodeRow` that a summary needs; all columns of a long run would take too much memory."""

    key: str
    suite: str
    task_id: str
    world: int
    replicate: int
    domain: str
    family: str
    lane: str
    arm: str
    model: str
    adapter: str
    adapter_digest: str
    phase: str
    status: str
    error_kind: str
    error_message: str
    stop_reason: str
    seconds: float
    iterations: int
    api_calls: int
    tool_calls: int
    cut_replies: int | None
    unparsed_calls: int | None
    refused_calls: int | None
    prompt_tokens: int
    completion_tokens: int
    uncounted_calls: int
    reviewed: bool
    review_error: str
    review_stop_reason: str
    review_tokens: int
    uncounted_review_calls: int
    review_seconds: float
    skills_written: int
    notes_written: int
    skills_listed: int
    skills_usable: int
    skills_loaded: int
    skills_followed: int | None
    noted: bool
    judge_votes: int
    judge_tokens: int
    judge_cost: float
    uncounted_votes: int
    rescore_problem: str
    score: float | None
    success: bool | None
    accepted: bool | None
    first_call_ok: bool | None
    reused: bool


_NAMED = {"truncated": "length"} | {
    reason: reason for reason in ("unparsed", "refused", "filtered", "empty", "repeated", "context_full")
}
"""Stop reasons that always have a key in a summary."""
_TOLD = ("cut_replies", "unparsed_calls", "refused_calls")
"""Columns that older records lack."""
_SUMMED = (
    *("api_calls", "tool_calls", "uncounted_calls", "review_tokens", "uncounted_review_calls", "skills_written"),
    *("judge_votes", "judge_tokens", "uncounted_votes"),
)
_MESSAGE = 300
"""Characters kept of an error message, to bound memory."""


def _most_frequent(messages: Counter[str]) -> str:
    """The most frequent message; ties are broken alphabetically, so that the order of finishing does not matter."""
    return min(messages, key=lambda message: (-messages[message], message))


def _dropped(run: Path) -> Counter[str]:
    """The number of dropped skill writes by episode."""
    return Counter(write.episode for _, merge in read_merges(run) for write in merge.dropped)


class _Tally:
    """Sums and outcome counts over rows."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._seconds = 0.0
        self._review_seconds = 0.0
        self._judge_cost = 0.0
        self._rescore_problems: Counter[str] = Counter()
        self._outcomes: dict[str, list[tuple[Place, bool]]] = {}
        self._scores: Counter[float] = Counter()
        self._stops: Counter[str] = Counter()
        self._scored_stops: Counter[str] = Counter()
        self._solved_stops: Counter[str] = Counter()
        self._review_stops: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self._errors: dict[str, Counter[str]] = {}

    @property
    def episodes(self) -> int:
        """The number of rows."""
        return self._sums["finished"] + self._sums["errored"]

    def add(self, row: _Row, dropped: int) -> None:
        finished = row.status == "ok"
        self._seconds += row.seconds
        self._sums["finished"] += finished
        self._sums["errored"] += not finished
        for name in _SUMMED:
            self._sums[name] += getattr(row, name)
        self._sums["skills_dropped"] += dropped
        self._sums["reviews"] += row.reviewed
        self._sums["reviews_failed"] += bool(row.review_error)
        self._review_seconds += row.review_seconds
        self._judge_cost += row.judge_cost
        self._rescore_problems[row.rescore_problem] += bool(row.rescore_problem)
        self._sums["tokens"] += row.prompt_tokens + row.completion_tokens
        self._add_ends(row)
        place = Place(row.world, (row.world, row.replicate), (row.world, row.suite, row.task_id))
        for name, outcome in (
            ("success", row.success),
            ("accepted", row.accepted),
            ("first_call_ok", row.first_call_ok),
            ("reused", row.reused if finished else None),
        ):
            outcomes = self._outcomes.setdefault(name, [])
            if outcome is not None:
                outcomes.append((place, outcome))

    def _add_ends(self, row: _Row) -> None:
        """Counts how the episode and its review ended, success by stop reason, and call failures."""
        if row.status != "ok":
            self._errors.setdefault(row.error_kind, Counter())[row.error_message[:_MESSAGE]] += 1
        elif row.stop_reason:
            self._stops[row.stop_reason] += 1
            self._scored_stops[row.stop_reason] += row.success is not None
            self._solved_stops[row.stop_reason] += row.success is True
        if row.review_stop_reason:
            self._review_stops[row.review_stop_reason] += 1
        if row.score is not None:
            self._scores[row.score] += 1
        for name in _TOLD:
            if (count := getattr(row, name)) is not None:
                self._told[name] += 1
                self._sums[name] += count

    def amounts(self) -> dict[str, Any]:
        success = [outcome for _, outcome in self._outcomes.get("success", ())]
        scored, solved = len(success), sum(success)
        return {
            "finished": self._sums["finished"],
            "errored": self._sums["errored"],
            "scored": scored,
            "solved": solved,
            "success_rate": solved / scored if scored else None,
            "mean_score": self._mean_score(),
            "stop_reasons": dict(sorted(self._stops.items())),
            "solved_by_stop_reason": {
                reason: {"count": self._solved_stops[reason], "of": self._scored_stops[reason]}
                for reason in sorted(self._stops)
            },
            **{name: self._stops[reason] for name, reason in _NAMED.items()},
            "errors": {
                kind: {"count": messages.total(), "message": _most_frequent(messages)}
                for kind, messages in sorted(self._errors.items())
            },
            "api_calls": self._sums["api_calls"],
            "tool_calls": self._sums["tool_calls"],
            **{name: self._sums[name] if self._told[name] else None for name in _TOLD},
            "tokens": self._sums["tokens"],
            "uncounted_calls": self._sums["uncounted_calls"],
            "reviews": self._sums["reviews"],
            "reviews_failed": self._sums["reviews_failed"],
            "review_stop_reasons": dict(sorted(self._review_stops.items())),
            "review_tokens": self._sums["review_tokens"],
            "uncounted_review_calls": self._sums["uncounted_review_calls"],
            "review_seconds": self._review_seconds,
            "judge_votes": self._sums["judge_votes"],
            "judge_tokens": self._sums["judge_tokens"],
            "judge_cost": self._judge_cost,
            "uncounted_votes": self._sums["uncounted_votes"],
            "seconds": self._seconds,
            "skills_written": self._sums["skills_written"],
            "skills_dropped": self._sums["skills_dropped"],
        }

    def rescore_problems(self) -> dict[str, int]:
        return {why: count for why, count in sorted(self._rescore_problems.items()) if count}

    def _mean_score(self) -> float | None:
        # Exact sum, independent of the order in which episodes finished.
        total = math.fsum(score * count for score, count in self._scores.items())
        return total / self._scores.total() if self._scores else None

    def rates(self) -> dict[str, Any]:
        return {
            name: rate_over([outcome for _, outcome in found], [place for place, _ in found]).to_dict()
            for name, found in self._outcomes.items()
        }


class _Group:
    """The tallies of one arm under one set of weights."""

    def __init__(self) -> None:
        self.whole = _Tally()
        self.phases: dict[str, _Tally] = {}
        self.treatment = TreatmentTally()

    def to_dict(self, arm: str, merged: Mapping[str, int], run: Path) -> dict[str, Any]:
        phases = {
            phase: tally.amounts() | tally.rates()
            for phase in ("learn", "heldout")
            if (tally := self.phases.get(phase))
        }
        found = self.treatment.treatment(arm, merged, [run])
        treatment = found.to_dict() if arm in SKILL_ARMS or found.given or found.learned else None
        return self.whole.amounts() | self.whole.rates() | {"phases": phases, "treatment": treatment}
