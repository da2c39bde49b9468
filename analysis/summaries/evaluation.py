"""The evaluation of a plain run: success by task, domain, family and stop reason, its cost, and what failed first."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from hermes_lab.analysis.stats.rates import mean_interval, pass_all, pass_at

COLUMNS = (
    *("key", "suite", "task_id", "domain", "family", "status", "stop_reason", "score", "success"),
    *("seconds", "prompt_tokens", "completion_tokens", "uncounted_calls"),
)
"""The columns of `EpisodeRow` that an evaluation needs."""
FAILURES = 5
"""Failed tasks to name."""


class Evaluation:
    """Collects the evaluation of a run from its rows, in any order."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], _Part] = {}
        self._domains: dict[str, _Part] = {}
        self._families: dict[str, _Part] = {}
        self._suites: dict[str, _Part] = {}
        self._amounts: Counter[str] = Counter()
        self._seconds: Counter[float] = Counter()
        self._failed: dict[tuple[str, str], tuple[bool, str, str]] = {}

    def add(self, row: Any) -> None:
        """Counts a row with `COLUMNS`. An errored episode has no outcome, and only its time counts."""
        task = (row.suite, row.task_id)
        parts = (
            self._tasks.setdefault(task, _Part()),
            self._suites.setdefault(row.suite, _Part()),
            self._domains.setdefault(row.domain, _Part()),
            self._families.setdefault(row.family, _Part()),
        )
        for part in parts:
            part.add(row)
        self._seconds[row.seconds] += 1
        for name in ("prompt_tokens", "completion_tokens", "uncounted_calls"):
            self._amounts[name] += getattr(row, name)
        if row.status == "ok" and row.success is False:
            failure = (row.stop_reason != "answered", row.key, row.stop_reason)
            self._failed[task] = min(self._failed.get(task, failure), failure)

    def to_dict(self, price: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """For JSON. `tasks` counts tasks by how many of their judged samples were solved; `by_task` has all of them;
        `by_suite`, `by_domain` and `by_family` are empty unless there are several. `pass` has, for k = 2, 4, 8, ... up
        to the number of samples that every judged task has, `at` (pass@k) and `all` (pass^k): the mean over tasks with
        its 95 % interval. `failures` are tasks to look at first: those that no sample solved, and of these those that
        ended with an answer. `cost` is by `price` (`model.price`, per million tokens); null without one, if cached
        tokens have a price of their own, which rows do not count, and if the tokens of a call are unknown."""
        counts = Counter(part.standing() for part in self._tasks.values())
        standings = {name: counts[name] for name in ("solved", "partly", "not_solved", "not_judged")}
        return {
            "tasks": {"all": len(self._tasks), **standings},
            "by_task": [
                {"suite": suite, "task": task, **part.to_dict()} for (suite, task), part in sorted(self._tasks.items())
            ],
            "pass": self._passes(),
            "by_suite": _several("suite", self._suites),
            "by_domain": _several("domain", self._domains),
            "by_family": _several("family", self._families),
            "failures": self._first_failures(),
            "prompt_tokens": self._amounts["prompt_tokens"],
            "completion_tokens": self._amounts["completion_tokens"],
            "seconds": math.fsum(seconds * count for seconds, count in self._seconds.items()),
            "cost": self._cost(price),
        }

    def _passes(self) -> list[dict[str, Any]]:
        counts = [(part.solved, part.judged) for part in self._tasks.values() if part.judged]
        least, samples = min((judged for _, judged in counts), default=0), sum(judged for _, judged in counts)
        found = []
        for k in sorted({*(2**power for power in range(1, 20) if 2**power <= least), least} - {0, 1}):
            row: dict[str, Any] = {"k": k}
            for name, estimate in (("at", pass_at), ("all", pass_all)):
                values = [estimate(k, solved, judged) for solved, judged in counts]
                low, high = mean_interval(values, samples)
                row[name] = {"value": math.fsum(values) / len(values), "low": low, "high": high}
            found.append(row)
        return found

    def _first_failures(self) -> list[dict[str, Any]]:
        rates = {task: self._tasks[task].rate or 0.0 for task in self._failed}
        first = sorted(self._failed, key=lambda task: (rates[task], self._failed[task]))
        return [
            {"suite": task[0], "task": task[1], "episode": key, "stop_reason": stop, **self._tasks[task].to_dict()}
            for task in first[:FAILURES]
            for _, key, stop in (self._failed[task],)
        ]

    def _cost(self, price: Mapping[str, Any] | None) -> float | None:
        if (prices := plain_price(price or {})) is None or self._amounts["uncounted_calls"]:
            return None
        names = ("prompt_tokens", "completion_tokens")
        return float(sum(self._amounts[name] * each for name, each in zip(names, prices, strict=True))) / 1e6


def plain_price(price: Mapping[str, Any]) -> tuple[float, float] | None:
    """The prices of `model.price` for prompt and completion tokens; None without one, and if cached tokens have a price
    of their own, which rows do not count."""
    if price.get("cached") is not None or price.get("cache_write") is not None:
        return None
    prompt, completion = (price.get(name) or 0.0 for name in ("prompt", "completion"))
    return (prompt, completion) if prompt or completion else None


class _Part:
    """Outcomes of a part of the episodes."""

    def __init__(self) -> None:
        self.solved = 0
        self.judged = 0
        self._scores: Counter[float] = Counter()

    def add(self, row: Any) -> None:
        self.judged += row.success is not None
        self.solved += row.success is True
        if row.score is not None:
            self._scores[row.score] += 1

    @property
    def rate(self) -> float | None:
        """Solved samples of the judged ones; without an interval, since samples of a task depend on each other."""
        return self.solved / self.judged if self.judged else None

    def standing(self) -> str:
        if not self.judged:
            return "not_judged"
        return "solved" if self.solved == self.judged else "partly" if self.solved else "not_solved"

    def to_dict(self) -> dict[str, Any]:
        """Exact mean, independent of the order in which episodes finished."""
        total = math.fsum(score * count for score, count in self._scores.items())
        mean = total / self._scores.total() if self._scores else None
        return {"count": self.solved, "of": self.judged, "rate": self.rate, "mean_score": mean}


def _several(name: str, parts: Mapping[str, _Part]) -> list[dict[str, Any]]:
    return [{name: key, **parts[key].to_dict()} for key in sorted(parts)] if len(parts) > 1 else []
