"""What a run did, in one small object."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from analysis.columns import read_columns
from analysis.intervals import Rate
from analysis.timeline import read_borders
from hermes_lab.manifest import read_manifest


def summarize(run: Path) -> dict[str, Any]:
    """The whole run's totals, and under `groups` the same for each (arm, model, adapter), ready for JSON.

    `finished` episodes have status ok, `scored` ones also a verdict, `solved` ones a right first submission;
    `success_rate` is null where nothing was scored. Tokens and seconds are sums over episodes, without their
    reviews. `skills_dropped` are those of the `skills_written` that a round's border left out, another episode having
    written the skill first. A group has in addition its rates with Wilson 95 % intervals: `success`, `accepted`,
    `first_call_ok` and `reused`. Held-out episodes count among all others; a group's `phases` tell the same amounts
    and rates of `learn` and of `heldout` alone, as far as there are any.

    Raises `ConfigError` where `run` is no run folder.
    """
    wanted = read_manifest(run).wanted
    total = _Tally()
    groups: dict[tuple[str, str, str, str], _Group] = {}
    dropped = _dropped(run)
    for row in itertools.starmap(_Row, read_columns(run, _Row._fields)):
        group = groups.setdefault((row.arm, row.model, row.adapter, row.adapter_digest), _Group())
        for tally in (total, group.whole, group.phases.setdefault(row.phase, _Tally())):
            tally.add(row, dropped[row.key])
    return {
        "wanted": wanted,
        **total.amounts(),
        "groups": [
            {"arm": arm, "model": model, "adapter": adapter, "adapter_digest": digest}
            | groups[arm, model, adapter, digest].report()
            for arm, model, adapter, digest in sorted(groups)
        ],
    }


class _Row(NamedTuple):
    """The columns of `EpisodeRow` that a summary is made of: all of them, for a long run, would fill the memory."""

    key: str
    arm: str
    model: str
    adapter: str
    adapter_digest: str
    phase: str
    status: str
    seconds: float
    api_calls: int
    tool_calls: int
    prompt_tokens: int
    completion_tokens: int
    reviewed: bool
    review_error: str
    review_tokens: int
    review_seconds: float
    skills_written: int
    success: bool | None
    accepted: bool | None
    first_call_ok: bool | None
    reused: bool


def _dropped(run: Path) -> Counter[str]:
    """By episode, how many of its writes to skills were dropped."""
    return Counter(write.episode for _, border in read_borders(run) for write in border.dropped)


class _Tally:
    """Sums over rows, and how many of them had each outcome."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._seconds = 0.0
        self._review_seconds = 0.0
        self._hits: Counter[str] = Counter()
        self._tries: Counter[str] = Counter()

    def add(self, row: _Row, dropped: int) -> None:
        finished = row.status == "ok"
        self._seconds += row.seconds
        self._sums["finished"] += finished
        self._sums["errored"] += not finished
        for name in ("api_calls", "tool_calls", "review_tokens", "skills_written"):
            self._sums[name] += getattr(row, name)
        self._sums["skills_dropped"] += dropped
        self._sums["reviews"] += row.reviewed
        self._sums["reviews_failed"] += bool(row.review_error)
        self._review_seconds += row.review_seconds
        self._sums["tokens"] += row.prompt_tokens + row.completion_tokens
        for name, outcome in (
            ("success", row.success),
            ("accepted", row.accepted),
            ("first_call_ok", row.first_call_ok),
            ("reused", row.reused if finished else None),
        ):
            self._tries[name] += outcome is not None
            self._hits[name] += outcome is True

    def amounts(self) -> dict[str, Any]:
        scored, solved = self._tries["success"], self._hits["success"]
        return {
            "finished": self._sums["finished"],
            "errored": self._sums["errored"],
            "scored": scored,
            "solved": solved,
            "success_rate": solved / scored if scored else None,
            "api_calls": self._sums["api_calls"],
            "tool_calls": self._sums["tool_calls"],
            "tokens": self._sums["tokens"],
            "reviews": self._sums["reviews"],
            "reviews_failed": self._sums["reviews_failed"],
            "review_tokens": self._sums["review_tokens"],
            "review_seconds": self._review_seconds,
            "seconds": self._seconds,
            "skills_written": self._sums["skills_written"],
            "skills_dropped": self._sums["skills_dropped"],
        }

    def rates(self) -> dict[str, Any]:
        return {name: Rate(self._hits[name], tries).report() for name, tries in self._tries.items()}


class _Group:
    """The tallies of one arm under one set of weights."""

    def __init__(self) -> None:
        self.whole = _Tally()
        self.phases: dict[str, _Tally] = {}

    def report(self) -> dict[str, Any]:
        phases = {
            phase: tally.amounts() | tally.rates()
            for phase in ("learn", "heldout")
            if (tally := self.phases.get(phase))
        }
        return self.whole.amounts() | self.whole.rates() | {"phases": phases}
