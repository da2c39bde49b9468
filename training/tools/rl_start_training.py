"""Proposes a training without starting it."""

from typing import Any

from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="rl")
def rl_start_training(ctx: ToolContext, reason: str) -> dict[str, Any]:
    """Propose the configured training to a person, who decides whether to start it. Returns the command that the
    person runs.

    Args:
        reason: Why this training, in one sentence for the person.
    """
    from hermes_lab.training.choices import Choice
    from hermes_lab.training.proposals import write_proposal
    from hermes_lab.training.tools.answers import told

    with told():
        choice = ctx.state(Choice)
        proposal = write_proposal(choice.method, choice.config(), reason[:1_000])
        return {
            "status": "proposed, not started: only a person starts a training",
            "proposal": proposal.name,
            "file": str(proposal.path),
            "command": proposal.command,
        }
