"""What a run did, in one small object."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from analysis.intervals import Rate
from analysis.rows import EpisodeRow, read_rows
from analysis.run_file import read_run_file


def summarize(run: Path) -> dict[str, Any]:
    """The whole run's totals, and under `groups` the same for each (arm, model, adapter), ready for JSON.

    `finished` episodes have status ok, `scored` ones also a verdict, `solved` ones a right first submission. Rates are
    null where nothing was tried. Tokens and seconds are sums over episodes, without their reviews.

    Raises `ConfigError` where `run` is no run folder.
    """
    wanted = read_run_file(run).wanted
    rows = list(read_rows(run))
    groups: defaultdict[tuple[str, str, str, str], list[EpisodeRow]] = defaultdict(list)
    for row in rows:
        groups[row.arm, row.model, row.adapter, row.adapter_digest].append(row)
    return {
        "wanted": wanted,
        **_totals(rows),
        "groups": [
            {"arm": arm, "model": model, "adapter": adapter, "adapter_digest": digest}
            | _totals(group)
            | _rates(group)
            for (arm, model, adapter, digest), group in sorted(groups.items())
        ],
    }


def _totals(rows: list[EpisodeRow]) -> dict[str, Any]:
    success = _rate(row.success for row in rows)
    return {
        "finished": sum(row.status == "ok" for row in rows),
        "errored": sum(row.status == "errored" for row in rows),
        "scored": success.trials,
        "solved": success.successes,
        "success_rate": success.value if success.trials else None,
        "api_calls": sum(row.api_calls for row in rows),
        "tool_calls": sum(row.tool_calls for row in rows),
        "tokens": sum(row.prompt_tokens + row.completion_tokens for row in rows),
        "review_tokens": sum(row.review_tokens for row in rows),
        "seconds": sum(row.seconds for row in rows),
        "skills_written": sum(row.skills_written for row in rows),
    }


def _rates(rows: list[EpisodeRow]) -> dict[str, Any]:
    finished = [row for row in rows if row.status == "ok"]
    return {
        "success": _report(_rate(row.success for row in rows)),
        "accepted": _report(_rate(row.accepted for row in rows)),
        "first_call_ok": _report(_rate(row.first_call_ok for row in rows)),
        "reused": _report(_rate(row.reused for row in finished)),
    }


def _rate(outcomes: Iterable[bool | None]) -> Rate:
    known = [outcome for outcome in outcomes if outcome is not None]
    return Rate(sum(known), len(known))


def _report(rate: Rate) -> dict[str, Any]:
    low, high = rate.interval
    value = rate.value if rate.trials else None
    return {"count": rate.successes, "of": rate.trials, "rate": value, "low": low, "high": high}
