"""`summary`: summarises a run."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import typer

from hermes_lab.lane import LEARNING_ARMS
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.evaluation import evaluation_lines, rate_text
from hermes_lab.text.counted import counted
from hermes_lab.text.printable import printable
from hermes_lab.types.episode import CHAT


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("summary", help="Summarise a run, across all resumes.\n\nhermes-lab summary runs/demo --json")(summary)


def summary(run: options.Run, json: options.Json = False) -> None:
    """`hermes-lab summary`."""
    from hermes_lab.analysis.summaries.summary import summarize

    content = summarize(run)
    show_summary(content, json=json)
    if not json:
        say_warnings(content)


def say_warnings(content: dict[str, Any]) -> None:
    """Prints the warnings of a summary, one per line. In JSON they are under `warnings`."""
    for warning in content["warnings"]:
        output.say(f"warning: {warning}")


def say_warnings_of(*runs: Path, told: str = "", arms: Collection[str] = ()) -> None:
    """Prints the warnings of several runs, or of some of their arms, each with the run's folder."""
    for run, warning in warnings_of_runs(*runs, told=told, arms=arms):
        output.say(f"warning: {run}: {warning}")


def warnings_of_runs(*runs: Path, told: str = "", arms: Collection[str] = ()) -> Iterator[tuple[Path, str]]:
    """The warnings of several runs, or of some of their arms, each with its run; not those that the verdicts `told`
    state already."""
    from hermes_lab.analysis.summaries.summary import summarize
    from hermes_lab.analysis.summaries.warnings import repeated_warnings
    from hermes_lab.manifest import read_manifest

    for run in runs:
        content = summarize(run, arms)
        shown = repeated_warnings(content, read_manifest(run).config, told) if told else ()
        yield from ((run, warning) for warning in content["warnings"] if warning not in shown)


def show_summary(content: dict[str, Any], *, json: bool) -> None:
    """Prints a summary, as a table or as one JSON object."""
    if json:
        output.print_json(content)
        return
    typer.echo(
        f"{content['finished']} of {content['wanted']} episodes finished, {content['errored']} errored, "
        f"{content['scored']} scored, {content['solved']} {_solved(content)}{_mean_score(content)}; "
        f"{_tokens(content['tokens'])}"
    )
    if content["stopped"]:
        typer.echo(f"  {'ended early':<32} {content['stopped']}")
    for label, what in _troubles(content):
        typer.echo(f"  {label:<32} {what}")
    if content["judge_votes"]:
        cost = f", cost {content['judge_cost']:,.4g}" if content["judge_cost"] else ""
        unknown = f", {counted(content['uncounted_votes'], 'vote')} without usage" if content["uncounted_votes"] else ""
        spent = f"{counted(content['judge_votes'], 'vote')}; {_tokens(content['judge_tokens'])}{cost}{unknown}"
        typer.echo(f"  {'judge, not counted above':<32} {spent}")
    if made := content["rescored"]:
        typer.echo(f"  {'rescored from':<32} {made['from']}, verifier {made['verifier'][:8]}")
        for why, count in made["not_possible"].items():
            typer.echo(f"  {'not rescored, without a score':<32} {count:,}: {printable(why)}")
    for kind, error in content["errors"].items():
        typer.echo(f"  {f'errored: {kind}':<32} {error['count']}, most often: {printable(error['message'])}")
    program = " ".join(filter(None, map((content["program"] or {}).get, ("name", "version"))))
    for group in content["groups"]:
        arm = "" if content["evaluation"] else f"arm {group['arm']}"
        typer.echo(f"\n  {', '.join(filter(None, (arm, program, group['adapter'] or group['model'])))}")
        for name, label in _rates_of(content, group):
            more = _without_call(group) if name == "first_call_ok" else ""
            typer.echo(f"    {label:<30} {rate_text(_learnt(group)[name])}{more}")
        if len(content["groups"]) > 1:
            for label, what in _troubles(group):
                typer.echo(f"    {label:<30} {what}")
        if heldout := group["phases"].get("heldout"):
            typer.echo(f"    {'solved of held-out, all checks':<30} {rate_text(heldout['success'])}")
        for label, what in _given(group):
            typer.echo(f"    {label:<30} {what}")
        if group["reviews"]:
            failed = f", {group['reviews_failed']} failed" if group["reviews_failed"] else ""
            spent = f"{_tokens(group['review_tokens'])}, {group['review_seconds']:.0f} s"
            typer.echo(f"    {'reviews':<30} {group['reviews']}{failed}; {spent}")
    for line in _unfollowed(content):
        typer.echo(f"\n  {line}")
    if content["evaluation"]:
        for line in evaluation_lines(content):
            typer.echo(line)


_RATES = {
    "first_call_ok": "parsed first calls",
    "success": "solved at the first submission",
    "accepted": "solved at any submission",
    "reused": "loaded a skill",
}


def _rates_of(content: dict[str, Any], group: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The rates to show. A plain run has those only that say something: first calls if any failed, any submission if
    that differs from the first, and loaded skills if there were some."""
    for name, label in _RATES.items():
        rate = group[name]
        if name == "reused" and not group["treatment"]:
            continue
        if content["evaluation"] and name == "first_call_ok" and rate["count"] == rate["of"]:
            continue
        if content["evaluation"] and name == "accepted" and rate["count"] == group["success"]["count"]:
            continue
        yield name, _solved(content) if name == "success" else label


def _solved(content: dict[str, Any]) -> str:
    """What a success is called."""
    return "judged good by a person" if content["command"] == CHAT else _RATES["success"]


def _mean_score(content: dict[str, Any]) -> str:
    """The mean score, if it differs from the success rate (partial credit)."""
    mean, rate = content["mean_score"], content["success_rate"]
    return "" if mean is None or abs(mean - rate) < 1e-9 else f", mean score {mean:.2f}"


def _troubles(amounts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Stop reasons, truncated replies, refused tool calls and calls of unknown tokens; nothing where there are none."""
    from hermes_lab.analysis.summaries.warnings import LOST_REVIEWS, endings_text

    if set(amounts["stop_reasons"]) - {"answered"}:
        yield "episodes ended", endings_text(amounts["stop_reasons"])
    if amounts["cut_replies"]:
        yield "replies truncated", f"{amounts['cut_replies']:,} of {amounts['api_calls']:,}"
    if refused := amounts["refused_calls"]:
        unparsed = f", {amounts['unparsed_calls']:,} of them not parsed" if amounts["unparsed_calls"] else ""
        yield "tool calls that never ran", f"{refused:,} of {amounts['tool_calls']:,}{unparsed}"
    if set(amounts["review_stop_reasons"]) & set(LOST_REVIEWS):
        yield "reviews ended", endings_text(amounts["review_stop_reasons"])
    reviews = amounts["uncounted_review_calls"]
    if uncounted := amounts["uncounted_calls"] + reviews:
        of_reviews = f", {reviews:,} of them in reviews" if reviews else ""
        yield "model calls without usage", f"{uncounted:,}{of_reviews}; no sum of tokens or cost includes them"


def _given(group: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Skills that were written and used; nothing where there were none, unless the arm should have given them."""
    from hermes_lab.analysis.skill_effects.treatment import Treatment

    treatment = group["treatment"]
    if not treatment:
        return
    if group["skills_written"] or group["arm"] in LEARNING_ARMS:
        dropped = f", {group['skills_dropped']} dropped in merges" if group["skills_dropped"] else ""
        yield "skills written", f"{group['skills_written']}{dropped}"
    notes = f"; notes in {treatment['noted']:,}" if treatment["noted"] else ""
    uses = f"listed in {treatment['listed']:,} of {treatment['episodes']:,} episodes, loaded in "
    yield "skills given", f"{uses}{treatment['loaded']:,}, {Treatment.of(treatment).uses}{notes}"


def _unfollowed(content: dict[str, Any]) -> Iterator[str]:
    """Why groups have no count of followed skills."""
    from hermes_lab.analysis.skill_effects.treatment import Treatment, unfollowed

    return unfollowed(Treatment.of(group["treatment"]) for group in content["groups"] if group["treatment"])


def _without_call(group: dict[str, Any]) -> str:
    """How many episodes started without a tool call, so that there was none to parse."""
    learnt = _learnt(group)
    count = learnt["finished"] - learnt["first_call_ok"]["of"]
    return f"; {count:,} started without a call" if count else ""


def _learnt(group: dict[str, Any]) -> dict[str, Any]:
    """The part of a group without held-out tasks, which are shown separately."""
    learnt: dict[str, Any] = group["phases"].get("learn", group)
    return learnt


def _tokens(count: int) -> str:
    return f"{count:,} tokens" if count else "no tokens reported"
