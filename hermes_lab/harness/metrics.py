"""Numbers of one episode."""

from itertools import pairwise

from hermes_lab.agent.review import tool_iterations
from hermes_lab.models.finish import ending_of
from hermes_lab.types import Trajectory


def episode_metrics(trajectory: Trajectory, submissions: int, since: int = 0) -> dict[str, int | float]:
    """Per-episode numbers that are aggregated over a run, from message index `since` on.

    `cut_replies`: replies truncated at a limit. `refused_calls`: tool calls refused before execution; `unparsed_calls`:
    those of them that could not be parsed, so none of a last reply that got no answer. `first_call`: whether the first
    reply attempted a tool call in any format, readable or not; `first_call_ok`: whether that call was executed.
    """
    messages = trajectory.messages[since:]
    replies = [m for m in messages if m.role == "assistant"]
    results = [r for m in messages for r in m.results]
    # A program may begin with assistant messages that no model has written.
    first_reply = trajectory.messages[trajectory.steps[0].message] if trajectory.steps else None
    # Results are in the order of the calls, so the first result belongs to the first call.
    well_formed = first_reply is not None and bool(first_reply.tool_calls and results and results[0].executed)
    unread = trajectory.stop_reason == "unparsed" and len(replies) == 1
    return {
        "api_calls": len(trajectory.steps),
        "iterations": tool_iterations(messages),
        "tool_calls": len(results),
        "tool_errors": sum(not r.ok for r in results),
        "cut_replies": sum(ending_of(step.finish_reason) == "length" for step in trajectory.steps),
        "unparsed_calls": sum(
            bool(call.error)
            for reply, answer in pairwise(messages)
            if reply.role == "assistant" and answer.results
            for call in reply.tool_calls
        ),
        "refused_calls": sum(not r.executed and _BUDGET_USED_UP not in r.content for r in results),
        "first_call": float(first_reply is not None and (bool(first_reply.tool_calls) or unread)),
        "first_call_ok": float(well_formed),
        "submissions": submissions,
    }


_BUDGET_USED_UP = "not run: the budget is used up"
"""Marks the result of a valid call that was skipped for lack of budget; it does not count as refused."""
