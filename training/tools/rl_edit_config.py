"""Edits unlocked fields of a proposal."""

from typing import Any

from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="rl")
def rl_edit_config(ctx: ToolContext, field: str, value: Any) -> dict[str, Any]:
    """Set one field of the proposal. Hyperparameters are locked: only a person can change them, with a new lock.

    Args:
        field: {compact: A field that can be edited, such as name or data.} {full: A field that can be edited.}
        value: Its new value.
    """
    from hermes_lab.training.choices import Choice
    from hermes_lab.training.tools.answers import told

    with told():
        choice = ctx.state(Choice)
        choice.edit(field, value)
        return {"edited": field, "config": choice.content()}
