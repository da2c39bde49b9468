"""Why a turn has no answer, for the user."""

from hermes_lab.chat.conversation import Turn

_WHY = {
    "empty": "the model's reply was empty",
    "length": "the reply was cut off at its token limit (model.sampling.max_tokens)",
    "context_full": "the conversation no longer fits the context window; /compress it, or start a /new session",
    "max_iterations": "the turn reached its limit of model calls (agent.max_iterations)",
    "max_seconds": "the turn reached its time limit (agent.max_seconds)",
    "max_tokens": "the turn reached its token limit (agent.max_tokens)",
    "max_cost": "the turn reached its cost limit (agent.max_cost)",
    "repeated": "the same call kept giving the same result (agent.max_repeats)",
}


def why_no_answer(turn: Turn) -> str:
    """One line, or "" for an answered turn."""
    why = _WHY.get(turn.stop, "")
    return f"no answer: {why}" if why and turn.answer is None else why
