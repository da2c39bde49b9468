"""Shows a run in the terminal: plan, progress, summary and exit code."""

from typing import Any, Protocol

from hermes_lab.runners import output
from hermes_lab.runners.commands.summary import say_warnings, show_summary
from hermes_lab.runners.engine.execute import Interrupted, RunPlan, RunResult
from hermes_lab.runners.listener import ShownListener
from hermes_lab.runners.tracking import execute_tracked


class Show(Protocol):
    """Prints a summary, as text or as one JSON object."""

    def __call__(self, content: dict[str, Any], *, json: bool) -> None: ...


def run_plan(plan: RunPlan, *, resume: bool, quiet: bool, json: bool, show: Show = show_summary) -> int:
    """Runs the plan and prints its summary with `show`; returns the exit code."""
    try:
        result = execute_tracked(plan, resume=resume, listener=ShownListener(quiet=quiet or json))
    except Interrupted as stop:
        _show(stop.result, show, quiet=quiet, json=json)
        output.say(f"{stop}; continue with --resume")
        return 130
    _show(result, show, quiet=quiet, json=json)
    if result.stopped and not quiet:
        output.say(f"{result.stopped}; {result.finished:,} of {result.wanted:,} episodes were run")
    if unfinished := explain_unfinished(result):
        output.say(unfinished)
        return 3
    return 0


def explain_unfinished(result: RunResult) -> str:
    """Why episodes are missing and what to do about it; empty for a complete run."""
    if result.complete:
        return ""
    if result.spent:
        kept = f"{result.finished:,} of {result.wanted:,} episodes are kept"
        failed = f"; {result.errored:,} errored ({result.last_error})" if result.errored and result.last_error else ""
        return f"{result.spent}: {kept}{failed}; {result.remedy} and use --resume"
    may_differ = "the configuration may differ then, as none has finished"
    if result.finished:
        may_differ = "only how the model is reached (model.base_url, api_key_env, timeout) may differ then"
    left = result.wanted - result.finished
    never = left - result.errored
    parts = f": {result.errored:,} errored, {never:,} never started" if never > 0 else ""
    return (
        f"{left} of {result.wanted} episodes did not finish{parts} ({result.last_error}); --resume "
        f"retries them; {may_differ}"
    )


def _show(result: RunResult, show: Show, *, quiet: bool, json: bool) -> None:
    show(result.summary, json=json)
    if not (json or quiet):
        say_warnings(result.summary)
