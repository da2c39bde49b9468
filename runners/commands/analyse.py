"""`summary`, `fit` and `compare`: what a run says."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hermes_lab.errors import ConfigError
from runners.commands import options


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("summary", help="What a run did, over all of its starts.\n\nhermes-lab summary runs/demo --json")(
        summary
    )
    app.command(
        "fit",
        help="Fit learning curves and draw them into plots/ of the first run.\n\n"
        "hermes-lab fit runs/demo\n\nhermes-lab fit runs/base runs/tuned",
    )(fit)
    app.command(
        "compare",
        help="Did it get better? Two runs on the same tasks, paired; or two arms of one run.\n\n"
        "hermes-lab compare runs/base runs/tuned\n\nhermes-lab compare runs/demo\n\n"
        "hermes-lab compare runs/one-rule --arms placebo,on   (what the content of the skills is worth)",
    )(compare)


def summary(run: options.Run, json: options.Json = False) -> None:
    """`hermes-lab summary`."""
    from analysis.summary import summarize

    show_summary(summarize(run), json=json)


def show_summary(content: dict[str, Any], *, json: bool) -> None:
    """Prints a summary, as a table or as one JSON object."""
    if json:
        _print_json(content)
        return
    typer.echo(
        f"{content['finished']} of {content['wanted']} episodes finished, {content['errored']} errored, "
        f"{content['scored']} scored, {content['solved']} solved at the first submission; {content['tokens']:,} tokens"
    )
    for group in content["groups"]:
        weights = group["adapter"] or group["model"]
        typer.echo(f"\n  arm {group['arm']}, {weights}")
        for name, label in _RATES.items():
            typer.echo(f"    {label:<30} {_rate(group[name])}")
        dropped = f", {group['skills_dropped']} dropped at a round's border" if group["skills_dropped"] else ""
        typer.echo(f"    {'skills written':<30} {group['skills_written']}{dropped}")
        if group["reviews"]:
            failed = f", {group['reviews_failed']} failed" if group["reviews_failed"] else ""
            spent = f"{group['review_tokens']:,} tokens, {group['review_seconds']:.0f} s"
            typer.echo(f"    {'reviews':<30} {group['reviews']}{failed}; {spent}")


_RATES = {
    "first_call_ok": "parsed first calls",
    "success": "solved at the first submission",
    "accepted": "solved at any submission",
    "reused": "loaded a skill",
}


def _rate(rate: dict[str, Any]) -> str:
    if rate["rate"] is None:
        return "-"
    low, high = 100 * rate["low"], 100 * rate["high"]
    return f"{rate['count']}/{rate['of']} = {100 * rate['rate']:.0f} % (95 % interval {low:.0f}-{high:.0f} %)"


def fit(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.", show_default=False)],
    draws: Annotated[int, typer.Option(help="Bootstrap draws over runs.", min=0)] = 400,
    json: options.Json = False,
) -> None:
    """`hermes-lab fit`."""
    from analysis.fit import fit_series
    from analysis.load import load_episodes
    from analysis.plots import save_learning_curve

    frame = load_episodes(*runs)
    if not frame["success"].notna().any():
        raise ConfigError(
            f"{runs[0]}: no episode is scored, so there is no curve; give tasks something to be judged by"
        )
    fits = fit_series(frame, draws=draws)
    picture = save_learning_curve(runs[0], frame, fits)
    if json:
        _print_json({name: fitted.report() for name, fitted in fits.items()} | {"plot": str(picture)})
        return
    for name, fitted in fits.items():
        typer.echo(f"{name}: {fitted.sentence()}")
    for run in runs:
        if warning := _drift(run):
            typer.echo(f"{run}: {warning}")
    typer.echo(f"picture: {picture}")


def _drift(run: Path) -> str:
    """That the rules change in the middle of a run; empty where they do not."""
    from hermes_lab.manifest import read_manifest

    manifest = read_manifest(run)
    suite, learning = manifest.config["suite"], manifest.config["learning"]
    at = suite["options"].get("drift_at", 0)
    last = learning["rounds"] * learning["round_size"] if manifest.command == "learn" else suite["count"]
    inside = isinstance(at, int) and 0 < at < last
    return f"the rules change at task {at}: one curve does not describe this run" if inside else ""


def compare(
    before: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    after: Annotated[Path | None, typer.Argument(help="A second one, on the same tasks.", show_default=False)] = None,
    arms: Annotated[str, typer.Option(help="Of one run: the two arms, as BEFORE,AFTER.")] = "off,on",
    json: options.Json = False,
) -> None:
    """`hermes-lab compare`."""
    from analysis.compare import compare_arms, compare_runs

    first, comma, second = (part.strip() for part in arms.partition(","))
    if not comma or not first or not second or "," in second:
        raise ConfigError(f"--arms: give two arms, such as placebo,on, not {arms!r}")
    report = compare_runs(before, after) if after else compare_arms(before, first, second)
    if json:
        _print_json(report.report())
        return
    for line in report.lines():
        typer.echo(line)


def _print_json(content: Any) -> None:
    import msgspec

    typer.echo(msgspec.json.encode(content).decode())
