"""`preference`: the best and the worst sample of a task, in TRL's conversational preference format."""

from collections.abc import Iterator
from typing import Any

import msgspec

from hermes_lab.records import read_episodes
from hermes_lab.runners.export.chat import chat, sent_tools
from hermes_lab.runners.export.metadata import metadata
from hermes_lab.runners.export.source import Source
from hermes_lab.types import Episode, Trajectory

Messages = list[dict[str, Any]]


def rows(source: Source) -> Iterator[dict[str, Any]]:
    """`{"prompt", "chosen", "rejected", "tools", "metadata"}`, at most one pair per prompt.

    Reads the log twice, to keep only incomplete pairs in memory.
    """
    from hermes_lab.training.pairs import find_pairs, join_pairs

    keys = find_pairs(source.finished(), source.left_out, consent=True)  # the source leaves out the others
    for chosen, rejected in join_pairs(keys, read_episodes(source.run)):
        yield _row(chosen, rejected)


def _row(chosen: Episode, rejected: Episode) -> dict[str, Any]:
    better, worse = chosen.trajectory, rejected.trajectory
    if better is None or worse is None:
        raise ValueError(f"{chosen.key}: changed while it was read")
    prompt, good = _halves(better)
    return {
        "prompt": prompt,
        "chosen": good,
        "rejected": _halves(worse)[1],
        "tools": sent_tools(better),
        "metadata": {"chosen": metadata(chosen, better), "rejected": metadata(rejected, worse)},
    }


def _halves(trajectory: Trajectory) -> tuple[Messages, Messages]:
    """The messages before the first reply, and those from it to the last reply.

    Chat templates expect a call's arguments as an object; requests have them as text.
    """
    from hermes_lab.training.pairs import first_reply

    first = first_reply(trajectory)
    last = max(index for index, message in enumerate(trajectory.messages) if message.role == "assistant")
    messages = chat(trajectory)
    for message in messages:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = msgspec.json.decode(call["function"]["arguments"])
    return messages[:first], messages[first : last + 1]
