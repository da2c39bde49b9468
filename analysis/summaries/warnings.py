"""Warnings about problems that invalidate a run's scores, each with its frequency and the field to change.

Functions of the numbers of `hermes_lab.analysis.summaries.summary` and the configuration in `run.json`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hermes_lab.analysis.skill_effects.treatment import Treatment, setting
from hermes_lab.lane import SKILL_ARMS

SHARE = 0.05
"""Share of finished episodes from which truncated, unparsed, filtered, empty, repeated or overlong replies are warned
about: they shift a rate by more than most effects."""
BUDGET_SHARE = 0.2
"""The same for episodes that ran out of a budget, which is meant to stop some."""
FIRST_CALL_SHARE = 0.2
"""The same for first calls that did not run; weak models make some."""
FAR_BELOW = 0.8
"""A reply truncated below this share of the limit was not truncated by it."""
EARLY = 10
"""Episodes after which to warn if none of them produced an answer."""

PLAIN: Mapping[str, str] = {
    "answered": "answered",
    "length": "reply cut",
    "unparsed": "tool call not parsed",
    "empty": "no answer",
    "filtered": "filtered",
    "refused": "refused",
    "context_full": "context full",
    "repeated": "repeated the same call",
    "ended": "program ended",
    "max_iterations": "out of iterations",
    "max_seconds": "out of time",
    "max_tokens": "out of tokens",
    "max_cost": "out of cost budget",
    "failed": "failed",
}
"""Display names of stop reasons, in display order."""

BUDGETS = ("max_iterations", "max_seconds", "max_tokens", "max_cost")
LOST_REVIEWS = ("length", "unparsed", "filtered", "refused", "empty", "context_full", "repeated", "failed")
"""Stop reasons of a review without a result."""
_VLLM_NAMES: Mapping[str, str] = {
    "deepseek_v3_1": "deepseek_v31",
    "llama": "llama3_json",
    "qwen": "hermes",
}
"""vLLM's parser names, where they differ from ours."""

Summary = Mapping[str, Any]
Config = Mapping[str, Any]


class Seen(NamedTuple):
    """Evidence from last replies (`hermes_lab.analysis.summaries.unread`): the `formats` of unparsed tool calls, and
    the tokens of the longest truncated reply, 0 if unknown."""

    formats: Sequence[str] = ()
    longest_cut: int = 0


UNSEEN = Seen()


def warnings_of(summary: Summary, config: Config, seen: Seen = UNSEEN) -> list[str]:
    """All warnings."""
    return [*error_warnings(summary), *score_warnings(summary, config, seen)]


def error_warnings(summary: Summary) -> Iterator[str]:
    """Errored episodes, with the most frequent message."""
    if not summary["errored"]:
        return
    kind, error = max(summary["errors"].items(), key=lambda item: item[1]["count"])
    how = _of(summary["errored"], summary["finished"] + summary["errored"])
    yield f"{how} errored and have no score; most often: {kind}: {error['message']}"


def score_warnings(summary: Summary, config: Config, seen: Seen = UNSEEN) -> Iterator[str]:
    """Problems in finished episodes, of the whole run or of a group if only that has a large share."""
    warned = set()
    for reason in PLAIN:
        if _is_large(summary, reason):
            warned.add(reason)
            yield _ended(summary, reason, config, seen)
    for group in summary["groups"] if len(summary["groups"]) > 1 else ():
        for reason in PLAIN:
            if reason not in warned and _is_large(group, reason):
                yield f"arm {_group_name(group)}: {_ended(group, reason, config, seen)}"
    if "length" not in warned:
        yield from _cut_replies(summary, config)
    yield from _first_calls(summary, config, unread_is_told="unparsed" in warned)
    yield from _reviews(summary, config)
    yield from _samples(config)
    yield from _treatments(summary, config)


def early_warning(reasons: Mapping[str, int], last_error: str) -> str:
    """Warns that none of a run's first episodes produced an answer, with how they ended and the fields to check.
    `reasons` counts stop reasons, and `errored`."""
    count = sum(reasons.values())
    parts = [f"{number} {PLAIN.get(reason, reason)}" for reason, number in reasons.items()]
    fields = [_LOOK_AT[reason] for reason in reasons if reason in _LOOK_AT]
    fields += [f"the last error ({last_error})"] if last_error and "errored" in reasons else []
    return (
        f"none of the first {count} episodes produced an answer ({', '.join(parts)}): check {'; '.join(fields)}. "
        "Ctrl-C stops the run and keeps finished episodes"
    )


EARLY_REASONS = ("length", "unparsed", "errored")
"""Endings without an answer, for `early_warning`."""
_LOOK_AT = {"length": "model.sampling.max_tokens", "unparsed": "model.tool_parser and agent.tool_format"}


def endings_text(stop_reasons: Mapping[str, int]) -> str:
    """`3 answered, 7 reply cut (length)`; recorded stop reasons in parentheses."""
    known = [reason for reason in PLAIN if reason in stop_reasons]
    ordered = known + [reason for reason in stop_reasons if reason not in PLAIN]
    return ", ".join(f"{stop_reasons[reason]:,} {ending(reason)}" for reason in ordered)


def ending(reason: str) -> str:
    """`reply cut (length)`."""
    plain = PLAIN.get(reason, reason)
    return plain if plain == reason else f"{plain} ({reason})"


def _is_large(summary: Summary, reason: str) -> bool:
    if reason in ("answered", "failed"):
        return False
    count, finished = summary["stop_reasons"].get(reason, 0), summary["finished"]
    return bool(count) and count >= (BUDGET_SHARE if reason in BUDGETS else SHARE) * finished


def _ended(summary: Summary, reason: str, config: Config, seen: Seen) -> str:
    """How many episodes ended this way, how they were scored, and what to change."""
    how, change = _words(reason, config, seen)
    count = _of(summary["stop_reasons"][reason], summary["finished"])
    judged = summary["solved_by_stop_reason"][reason]
    lost = judged["of"] - judged["count"]
    told = [f"{lost:,} of the {judged['of']:,} judged ones count as not solved"] if judged["of"] else []
    if reason not in (*BUDGETS, "repeated"):  # after these the agent is asked for an answer
        told.insert(0, "they have no answer")
    return f"{count} {how}: {', and '.join(told)}{'; ' if told else ''}{change}"


def _words(reason: str, config: Config, seen: Seen) -> tuple[str, str]:
    """What happened, and what to change."""
    limit = _field(config, "model.sampling.max_tokens", null="the endpoint's own limit")
    if reason == "length":
        most = setting(config, "model.sampling.max_tokens")
        if most and 0 < seen.longest_cut < FAR_BELOW * most:
            how = f"ended with a reply that the server cut after at most {seen.longest_cut:,} tokens, far below {limit}"
            return how, "check the server's own limit and context length"
        return f"ended with a reply truncated at {limit}", f"raise it (reasoning counts too){_window(config)}"
    if reason == "unparsed":
        return f"ended with an unparsed tool call in the text{_looks_like(seen.formats)}", _parser(config, seen.formats)
    if reason == "filtered":
        return (
            "were blocked or truncated by the endpoint's content filter",
            "no field changes that; use another endpoint",
        )
    if reason == "refused":
        return "ended with a reply that the endpoint marked as a refusal", "see the replies with `hermes-lab show`"
    if reason == "empty":
        return (
            "gave no answer (empty reply, or only reasoning)",
            f"a reasoning model may have used up its limit: raise {limit}",
        )
    if reason == "context_full":
        room = _field(config, "agent.context_tokens", zero="not told")
        share = _field(config, "agent.compress_at", zero="never")
        if setting(config, "agent.context_tokens") and setting(config, "agent.compress_at"):
            return "had a prompt that did not fit the model", f"compression was not enough; check {room} and {share}"
        return "had a prompt that did not fit the model", f"set {room} to its context length, and {share} above 0"
    if reason == "ended":
        return "ended because the program stopped before it had an answer", "see why with `hermes-lab show`"
    if reason == "repeated":
        most = _field(config, "agent.max_repeats", null="6 with agent.prompt=full")
        return f"ended in a loop of identical calls ({most})", "see the call with `hermes-lab show`"
    return f"ended at {_field(config, f'agent.{reason}')}", "they were judged in their state at that point; raise it"


def _window(config: Config) -> str:
    if setting(config, "model.provider") != "vllm":
        return ""
    return f", and {_field(config, 'model.server.max_model_len')}, which prompt and reply share"


def _looks_like(formats: Sequence[str]) -> str:
    known = [family for family in formats if family != "other"]
    if formats and not known:
        return " (in a format without a parser here)"
    return f" (it looks like {' or '.join(known)})" if known else ""


def _parser(config: Config, formats: Sequence[str]) -> str:
    """How to get the calls parsed, given the endpoint and the current fields."""
    family = formats[0] if formats else ""
    if family == "other":
        return "let the server parse the calls (vLLM: --enable-auto-tool-choice --tool-call-parser NAME)"
    in_text = " or agent.tool_format=hermes" if family in ("", "hermes") else ""
    if setting(config, "agent.tool_format") == "hermes":
        known = family or "the model's family"
        return f"agent.tool_format=hermes parses only that format: set it to native, with model.tool_parser={known}"
    if setting(config, "model.provider") not in ("openai", "vllm", None):  # providers whose text we do not parse
        return "set agent.tool_format=hermes" if in_text else "use an endpoint that parses this model's calls"
    present = setting(config, "model.tool_parser")
    other = f" instead of {present}" if present and present != family else ""
    server = f"vLLM: --enable-auto-tool-choice --tool-call-parser {_VLLM_NAMES.get(family, family or 'hermes')}"
    return f"set model.tool_parser={family or 'hermes'}{other} ({server}){in_text}"


def _cut_replies(summary: Summary, config: Config) -> Iterator[str]:
    """Truncated replies before the last one, which may have contained calls."""
    cut, calls = summary["cut_replies"] or 0, summary["api_calls"]
    if cut and cut >= SHARE * calls:
        limit = _field(config, "model.sampling.max_tokens", null="the endpoint's own limit")
        yield f"{_of(cut, calls, 'replies')} were truncated at {limit}: calls and answers are incomplete; raise it"


def _first_calls(summary: Summary, config: Config, *, unread_is_told: bool) -> Iterator[str]:
    calls = sum(group["first_call_ok"]["of"] for group in summary["groups"])
    bad = calls - sum(group["first_call_ok"]["count"] for group in summary["groups"])
    new = bad - summary["unparsed"] if unread_is_told else bad
    if new > 0 and new >= FIRST_CALL_SHARE * calls:
        fields = f"{_field(config, 'model.tool_parser', empty='none')} and {_field(config, 'agent.tool_format')}"
        yield (
            f"{_of(bad, calls, 'first calls')} could not be parsed, or had an unknown tool or invalid arguments: "
            f"check {fields}; see the replies with `hermes-lab show`"
        )


def _reviews(summary: Summary, config: Config) -> Iterator[str]:
    stops, reviews = summary["review_stop_reasons"], summary["reviews"]
    lost = {reason: stops[reason] for reason in LOST_REVIEWS if stops.get(reason)}
    if lost and sum(lost.values()) >= SHARE * reviews:
        limit = _field(config, "model.sampling.max_tokens", null="the endpoint's own limit")
        yield (
            f"{_of(sum(lost.values()), reviews, 'reviews')} ended without a result ({endings_text(lost)}): skills "
            f"may be missing{f'; raise {limit}' if 'length' in lost else ''}"
        )


def _samples(config: Config) -> Iterator[str]:
    """Samples of a task that may be identical."""
    samples = setting(config, "run.samples") or 1
    if samples < 2 or setting(config, "model.provider") in ("scripted", "replay"):
        return
    if setting(config, "model.sampling.temperature") == 0:
        why, change = "model.sampling.temperature (0)", "raise it"
    elif (seed := setting(config, "model.sampling.seed")) is not None:
        why, change = f"a fixed model.sampling.seed ({seed})", "set it to null"
    else:
        return
    yield f"run.samples is {samples:,} with {why}: the samples of a task may all be identical; {change}"


def _treatments(summary: Summary, config: Config) -> Iterator[str]:
    """Arms whose treatment did not happen, or only in part."""
    return (warning for _, warning in _treatment_warnings(summary, config))


def repeated_warnings(summary: Summary, config: Config, verdicts: str) -> set[str]:
    """Those of the warnings about treatments whose statement the text of the `verdicts` contains."""
    return {warning for statement, warning in _treatment_warnings(summary, config) if statement in verdicts}


def _treatment_warnings(summary: Summary, config: Config) -> Iterator[tuple[str, str]]:
    """What `Treatment` states, as a verdict does, and the warning made of it."""
    repeated = Counter(group["arm"] for group in summary["groups"])
    for group in summary["groups"]:
        if group["arm"] not in SKILL_ARMS:
            continue
        found = Treatment.of(group["treatment"])
        where = f"{_group_name(group)}: " if repeated[group["arm"]] > 1 else ""
        so_far = "" if summary["finished"] >= summary["wanted"] or summary["stopped"] else ", so far"
        if missing := found.absence(config):
            effect = "its results are those of an agent without skills, and measure no effect"
            yield missing, f"{where}{missing}{so_far}: {effect}"
        elif part := found.unread() or found.caveat():
            yield part, f"{where}{part}{so_far}"


def _group_name(group: Summary) -> str:
    weights = group["adapter"] or group["model"]
    return f"{group['arm']}, {weights}" if weights else str(group["arm"])


def _of(count: int, whole: int, what: str = "episodes") -> str:
    """`7 of 10 episodes (70 %)`."""
    return f"{count:,} of {whole:,} {what} ({100 * count / whole:.0f} %)"


def _field(config: Config, path: str, *, null: str = "", zero: str = "", empty: str = "") -> str:
    """A field with its value: `model.sampling.max_tokens (1,024)`. `null`, `zero` and `empty` explain such values."""
    value = setting(config, path)
    if value is None:
        return f"{path} (null: {null})" if null else path
    shown = f"{value:,}" if isinstance(value, int | float) else str(value)
    meaning = zero if value == 0 else ""
    if value == "":
        return f"{path} ({empty})" if empty else path
    return f"{path} ({shown}{f': {meaning}' if meaning else ''})"
