"""Computes the columns of `hermes_lab.analysis.data.rows.EpisodeRow`, decoding only the fields they need."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.analysis.data.line import Line, read_last
from hermes_lab.errors import ConfigError
from hermes_lab.lane import lane_key
from hermes_lab.manifest import read_manifest
from hermes_lab.text.suggest import did_you_mean
from hermes_lab.types import Usage

_place = functools.lru_cache(maxsize=None)(lane_key)


class _Column(NamedTuple):
    """Computes `value` from a line, and the fields it `needs`."""

    needs: str
    value: Callable[[Line], Any]


def _plain(path: str) -> _Column:
    """A field of the line, possibly nested."""
    return _Column(path.partition(".")[0], attrgetter(path))


def _judged(line: Line) -> bool:
    return line.status == "ok" and line.success is not None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _arm(line: Line) -> str:
    return place.arm if (place := _place(line.lane)) else line.lane


def _world(line: Line, first: int = 0, blocks: int = 1) -> int:
    """The first world of the line's lane, whose number counts the lanes of its run."""
    return first + place.world * blocks if (place := _place(line.lane)) else line.task.world


def _censored(line: Line) -> bool:
    stop = line.trajectory.stop_reason if line.trajectory else ""
    return stop.startswith("max_") or stop == "context_full"


def _usage(line: Line) -> Usage:
    return line.trajectory.usage if line.trajectory else Usage()


def _first_line(message: str) -> str:
    return message.strip().partition("\n")[0]


def _count(number: float | None) -> int | None:
    return None if number is None else int(number)


def _review_usage(line: Line) -> Usage:
    return line.review.trajectory.usage if line.review and line.review.trajectory else Usage()


def _review_stop(line: Line) -> str:
    return line.review.trajectory.stop_reason if line.review and line.review.trajectory else ""


def _review_calls(line: Line) -> int:
    return len(line.review.trajectory.steps) if line.review and line.review.trajectory else 0


def _judge_votes(line: Line) -> int:
    return sum(len(judgement.votes) for judgement in line.judgements)


def _judge_tokens(line: Line) -> int:
    usages = [vote.usage for judgement in line.judgements for vote in judgement.votes]
    return sum(usage.prompt_tokens + usage.completion_tokens for usage in usages)


def _judge_cost(line: Line) -> float:
    return sum(vote.cost for judgement in line.judgements for vote in judgement.votes)


def _uncounted_votes(line: Line) -> int:
    return sum(vote.usage.uncounted for judgement in line.judgements for vote in judgement.votes)


def _first_call_ok(line: Line) -> bool | None:
    ok = line.metrics.first_call_ok
    return None if ok is None or _first_call(line) is False or line.status == "errored" else bool(ok)


def _first_call(line: Line) -> bool | None:
    metrics = line.metrics
    if line.status == "errored" or metrics.first_call_ok is None:
        return None
    if metrics.first_call is not None:
        return bool(metrics.first_call)
    # Older records: infer it from whether a call ran or nothing was called.
    return True if metrics.first_call_ok else None if metrics.tool_calls else False


def _followed(line: Line) -> int | None:
    told = [trace.followed for trace in line.skills.traces if trace.followed is not None]
    return None if line.skills.loaded and not told else sum(told)


_JUDGED = "status success"
_COLUMNS: Mapping[str, _Column] = {
    "key": _Column("", attrgetter("key")),
    "suite": _plain("suite"),
    "task_id": _plain("task_id"),
    "domain": _plain("task.domain"),
    "split": _plain("task.split"),
    "family": _Column("task", lambda e: _text(e.task.metadata.family)),
    "rule_type": _Column("task", lambda e: _text(e.task.metadata.rule_type)),
    "seen": _Column("task", lambda e: seen if isinstance(seen := e.task.metadata.seen, bool) else None),
    "world": _Column("task", _world),
    "lane": _plain("lane"),
    "arm": _Column("", _arm),
    "replicate": _Column("", lambda e: place.replicate if (place := _place(e.lane)) else 0),
    "weights": _Column("", lambda e: place.weights if (place := _place(e.lane)) else 0),
    "round": _plain("round"),
    "sample": _plain("sample"),
    "experience": _plain("experience"),
    "place": _plain("place"),
    "phase": _plain("phase"),
    "block": _plain("block"),
    "status": _plain("status"),
    "error_kind": _Column("error", lambda e: e.error.kind if e.error else ""),
    "error_message": _Column("error", lambda e: _first_line(e.error.message) if e.error else ""),
    "score": _Column(f"{_JUDGED} score", lambda e: e.score if _judged(e) else None),
    "success": _Column(_JUDGED, lambda e: e.success if _judged(e) else None),
    "accepted": _Column(f"{_JUDGED} verdicts", lambda e: any(v.success for v in e.verdicts) if _judged(e) else None),
    "submissions": _Column("verdicts", lambda e: len(e.verdicts)),
    "triggered": _Column("task", lambda e: bool(e.task.triggers)),
    "stop_reason": _Column("trajectory", lambda e: e.trajectory.stop_reason if e.trajectory else ""),
    "censored": _Column("trajectory", _censored),
    "iterations": _Column("metrics", lambda e: int(e.metrics.iterations)),
    "api_calls": _Column("metrics", lambda e: int(e.metrics.api_calls)),
    "tool_calls": _Column("metrics", lambda e: int(e.metrics.tool_calls)),
    "tool_errors": _Column("metrics", lambda e: int(e.metrics.tool_errors)),
    "cut_replies": _Column("metrics", lambda e: _count(e.metrics.cut_replies)),
    "unparsed_calls": _Column("metrics", lambda e: _count(e.metrics.unparsed_calls)),
    "refused_calls": _Column("metrics", lambda e: _count(e.metrics.refused_calls)),
    "first_call": _Column("metrics status", _first_call),
    "first_call_ok": _Column("metrics status", _first_call_ok),
    "prompt_tokens": _Column("trajectory", lambda e: _usage(e).prompt_tokens),
    "completion_tokens": _Column("trajectory", lambda e: _usage(e).completion_tokens),
    "uncounted_calls": _Column("trajectory", lambda e: _usage(e).uncounted),
    "review_tokens": _Column("review", lambda e: _review_usage(e).prompt_tokens + _review_usage(e).completion_tokens),
    "review_completion_tokens": _Column("review", lambda e: _review_usage(e).completion_tokens),
    "review_calls": _Column("review", _review_calls),
    "uncounted_review_calls": _Column("review", lambda e: _review_usage(e).uncounted),
    "judge_votes": _Column("judgements", _judge_votes),
    "judge_tokens": _Column("judgements", _judge_tokens),
    "judge_cost": _Column("judgements", _judge_cost),
    "uncounted_votes": _Column("judgements", _uncounted_votes),
    "rescore_problem": _Column("rescored", lambda e: e.rescored.problem if e.rescored else ""),
    "started_at": _plain("started_at"),
    "seconds": _plain("seconds"),
    "skills_listed": _Column("skills", lambda e: len(e.skills.listed)),
    "skills_loaded": _Column("skills", lambda e: len(e.skills.loaded)),
    "reused": _Column("skills", lambda e: bool(e.skills.loaded)),
    "skills_written": _Column(
        "skills review", lambda e: len(e.skills.writes) + (len(e.review.writes) if e.review else 0)
    ),
    "notes_written": _Column(
        "memory review", lambda e: len(e.memory.writes) + (len(e.review.memory) if e.review else 0)
    ),
    "noted": _Column("memory", lambda e: bool(e.memory.snapshot)),
    "skills_eligible": _Column("skills", lambda e: sum(trace.eligible is True for trace in e.skills.traces)),
    "skills_usable": _Column(
        "skills", lambda e: sum(trace.listed and trace.eligible is not False for trace in e.skills.traces)
    ),
    "skills_followed": _Column("skills", _followed),
    "recovered": _Column("observation", lambda e: e.observation.recovered if e.observation else None),
    "learning_value": _Column("observation", lambda e: e.observation.value if e.observation else None),
    "reviewed": _Column("review", lambda e: e.review is not None),
    "review_error": _Column("review", lambda e: e.review.error.message if e.review and e.review.error else ""),
    "review_stop_reason": _Column("review", _review_stop),
    "review_seconds": _Column("review", lambda e: e.review.seconds if e.review else 0.0),
    "children": _Column("children", lambda e: len(e.children)),
    "provider": _plain("model.provider"),
    "model": _plain("model.name"),
    "adapter": _plain("model.adapter"),
    "adapter_digest": _plain("model.adapter_digest"),
    "snapshot": _plain("skills.snapshot"),
    "config_digest": _plain("config_digest"),
}


def read_columns(run: str | Path, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The values of these columns for the last record of each key, in the order they were written.

    One pass over the log that keeps only the values. A torn last line is skipped. Raises `ConfigError` if `run` is no
    run folder, a column is unknown, or a line is no episode or has a newer version. Fields that no column needs are
    only checked to be JSON.
    """
    check_columns(columns)
    folder = Path(run)
    made = [_column(folder, column) for column in columns]
    needed = [field for column in made for field in column.needs.split()]
    values = [column.value for column in made]
    return read_last(folder, needed, lambda line: tuple([value(line) for value in values]))


def _column(run: Path, column: str) -> _Column:
    """A column as it is in one run."""
    if column == "run":
        name = str(run)
        return _Column("", lambda _: name)
    if column == "world" and (run / "run.json").is_file() and (manifest := read_manifest(run)).command == "learn":
        suite, learning = (manifest.config.get(part, {}) for part in ("suite", "learning"))
        return _Column("task", functools.partial(_world, first=suite.get("world", 0), blocks=learning.get("blocks", 1)))
    return _COLUMNS[column]


def check_columns(columns: Iterable[str]) -> None:
    """Raises `ConfigError` for an unknown column, suggesting similar ones."""
    for column in columns:
        if column != "run" and column not in _COLUMNS:
            there = "see `EpisodeRow` in analysis/data/rows.py"
            hint = did_you_mean(column, ("run", *_COLUMNS), there, most=3, like=0.5)
            raise ConfigError(f"columns: unknown column {column!r}{hint}")
