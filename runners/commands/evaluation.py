"""The lines of a plain run's summary: success by task, domain, family and stop reason, and its cost."""

import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hermes_lab.analysis.summaries.warnings import PLAIN, ending
from hermes_lab.text.printable import printable
from hermes_lab.types.episode import CHAT

MOST = 20
"""Tasks, domains or families to list; `--json` has all."""

_ORDER = {reason: place for place, reason in enumerate(PLAIN)}


def evaluation_lines(content: dict[str, Any]) -> Iterator[str]:
    """The evaluation of a summary as text."""
    found, episodes = content["evaluation"], content["finished"] + content["errored"]
    if content["command"] != CHAT:  # its samples are turns, which are not tries at one task
        yield from _rates(content, found, episodes)
    if content["tokens"]:
        split = f"{found['prompt_tokens']:,} in prompts, {found['completion_tokens']:,} in completions"
        cost = f"; cost {found['cost']:,.4g}" if found["cost"] is not None else ""
        yield f"    {'tokens':<30} {split}{_each(content['tokens'], episodes)}{cost}"
    if episodes:
        yield f"    {'time':<30} {found['seconds'] / episodes:,.1f} s per episode"
    if found["failures"] and content["command"] != CHAT:
        yield "\n  failures to look at first (hermes-lab show RUN --episode ID)"
        tasks = Counter(row["task"] for row in found["by_task"])
        for failure in found["failures"]:
            once = failure["of"] == 1 and tasks[failure["task"]] == 1
            yield f"    {shlex.quote(failure['task'] if once else failure['episode'])}{_how(failure, once=once)}"


def _rates(content: dict[str, Any], found: dict[str, Any], episodes: int) -> Iterator[str]:
    yield f"    {'tasks':<30} {_standings(found['tasks'])}"
    for row in found["pass"]:
        k = row["k"]
        yield f"    {f'pass@{k}':<30} {_chance(row['at'])}; pass^{k}, all right: {_chance(row['all'])}"
    stops = content["solved_by_stop_reason"]
    if len(stops) > 1:
        for reason in sorted(stops, key=lambda reason: _ORDER.get(reason, len(_ORDER))):
            yield f"      {ending(reason):<28} {_plain_rate(stops[reason])}"
    for name in ("suite", "domain", "family"):
        yield from _parts(found[f"by_{name}"], name)
    if 1 < found["tasks"]["all"] <= MOST and episodes > found["tasks"]["all"]:
        yield from _parts(found["by_task"], "task")


def rate_text(rate: dict[str, Any]) -> str:
    """`7/10 = 70 % (95 % interval 40-89 %)`; a dash without trials."""
    if rate["rate"] is None:
        return "-"
    low, high = 100 * rate["low"], 100 * rate["high"]
    return f"{rate['count']}/{rate['of']} = {100 * rate['rate']:.0f} % (95 % interval {low:.0f}-{high:.0f} %)"


def _chance(estimate: dict[str, float]) -> str:
    value, low, high = (f"{100 * estimate[name]:.0f}" for name in ("value", "low", "high"))
    return f"{value} % ({low}-{high} %)"


def _standings(tasks: dict[str, int]) -> str:
    parts = [
        f"{tasks['solved']:,} solved",
        f"{tasks['partly']:,} solved in some samples" if tasks["partly"] else "",
        f"{tasks['not_solved']:,} not solved",
        f"{tasks['not_judged']:,} not judged" if tasks["not_judged"] else "",
    ]
    return f"{tasks['all']:,}: {', '.join(filter(None, parts))}"


def _parts(parts: list[dict[str, Any]], name: str) -> Iterator[str]:
    for part in parts[:MOST]:
        score = part["mean_score"]
        partial = score is not None and abs(score - (part["rate"] or 0)) > 1e-9
        more = f", mean score {score:.2f}" if partial else ""
        yield f"    {f'{name} {printable(part[name])}':<30} {_plain_rate(part)}{more}"
    if len(parts) > MOST:
        yield f"    {len(parts) - MOST:,} more: see --json, evaluation.by_{name}"


def _plain_rate(rate: dict[str, Any]) -> str:
    share = f" ({100 * rate['count'] / rate['of']:.0f} %)" if rate["of"] else ""
    return f"{rate['count']:,} of {rate['of']:,} solved{share}"


def _each(tokens: int, episodes: int) -> str:
    return f"; {tokens / episodes:,.0f} per episode" if episodes else ""


def _how(failure: dict[str, Any], *, once: bool) -> str:
    score = failure["mean_score"]
    parts = ["" if once else f"{failure['count']} of {failure['of']} samples solved"]
    parts += [f"score {score:.2f}"] if score else []
    parts += [ending(failure["stop_reason"])] if failure["stop_reason"] != "answered" else []
    told = ", ".join(filter(None, parts))
    return f"  ({told})" if told else ""
