"""`summary`: what a run did."""

from typing import Any

import typer

from runners.commands import options


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("summary", help="What a run did, over all of its starts.\n\nhermes-lab summary runs/demo --json")(
        summary
    )


def summary(run: options.Run, json: options.Json = False) -> None:
    """`hermes-lab summary`."""
    from analysis.summary import summarize

    show_summary(summarize(run), json=json)


def show_summary(content: dict[str, Any], *, json: bool) -> None:
    """Prints a summary, as a table or as one JSON object."""
    if json:
        options.print_json(content)
        return
    typer.echo(
        f"{content['finished']} of {content['wanted']} episodes finished, {content['errored']} errored, "
        f"{content['scored']} scored, {content['solved']} solved at the first submission; {_tokens(content['tokens'])}"
    )
    for group in content["groups"]:
        weights = group["adapter"] or group["model"]
        typer.echo(f"\n  arm {group['arm']}, {weights}")
        for name, label in _RATES.items():
            typer.echo(f"    {label:<30} {_rate(_learnt(group)[name])}")
        if heldout := group["phases"].get("heldout"):
            typer.echo(f"    {'solved of held-out, all checks':<30} {_rate(heldout['success'])}")
        dropped = f", {group['skills_dropped']} dropped at a round's border" if group["skills_dropped"] else ""
        typer.echo(f"    {'skills written':<30} {group['skills_written']}{dropped}")
        if group["reviews"]:
            failed = f", {group['reviews_failed']} failed" if group["reviews_failed"] else ""
            spent = f"{_tokens(group['review_tokens'])}, {group['review_seconds']:.0f} s"
            typer.echo(f"    {'reviews':<30} {group['reviews']}{failed}; {spent}")


_RATES = {
    "first_call_ok": "parsed first calls",
    "success": "solved at the first submission",
    "accepted": "solved at any submission",
    "reused": "loaded a skill",
}


def _learnt(group: dict[str, Any]) -> dict[str, Any]:
    """The part of a group that has its rates: held-out tasks are shown apart, where there are others."""
    learnt: dict[str, Any] = group["phases"].get("learn", group)
    return learnt


def _tokens(count: int) -> str:
    return f"{count:,} tokens" if count else "no tokens reported"


def _rate(rate: dict[str, Any]) -> str:
    if rate["rate"] is None:
        return "-"
    low, high = 100 * rate["low"], 100 * rate["high"]
    return f"{rate['count']}/{rate['of']} = {100 * rate['rate']:.0f} % (95 % interval {low:.0f}-{high:.0f} %)"
