"""`hermes`: the trajectory row of Hermes Agent, `{"conversations": [{"from", "value"}], ...}`, and its reader."""

from collections.abc import Iterator, Mapping
from typing import Any

from hermes_lab.runners.export.hermes_turns import read_turns, thoughts, write_turns
from hermes_lab.runners.export.metadata import metadata
from hermes_lab.runners.export.source import Source
from hermes_lab.tools.registry import known_tools
from hermes_lab.types import Episode, Message, Trajectory


def rows(source: Source) -> Iterator[dict[str, Any]]:
    """Every finished episode, without the review after it."""
    for episode, trajectory in source.finished():
        yield row(episode, trajectory)


def row(episode: Episode, trajectory: Trajectory) -> dict[str, Any]:
    """One row. `completed`: the agent answered; `partial`: the episode ended otherwise. `prompt_index` is the task's
    position in its lane."""
    stats = _tool_stats(trajectory)
    answered = trajectory.stop_reason == "answered"
    return {
        "prompt_index": episode.experience + episode.place,
        "conversations": [{"from": speaker, "value": value} for speaker, value in write_turns(trajectory)],
        "metadata": metadata(episode, trajectory)
        | {
            "batch_num": episode.round,
            "timestamp": episode.started_at,
            "think": thoughts(trajectory),
        },
        "completed": answered,
        "partial": not answered,
        "api_calls": len(trajectory.steps),
        "toolsets_used": _toolsets(trajectory),
        "tool_stats": stats,
        "tool_error_counts": {name: counts["failure"] for name, counts in stats.items()},
    }


def parse_row(row: Mapping[str, Any]) -> list[Message]:
    """The messages of a row of ours or of upstream. Results have only id, name, content and whether they failed.

    Raises `ValueError` or `KeyError` for an invalid row.
    """
    meta = row["metadata"]
    turns = [(turn["from"], turn["value"]) for turn in row["conversations"]]
    native = meta.get("tool_format", "native") == "native"
    return read_turns(turns, native=native, thoughts=meta.get("think") or ["apart"] * len(turns))


def _tool_stats(trajectory: Trajectory) -> dict[str, dict[str, int]]:
    """Counts per offered tool; calls of other tools are counted as `unknown`."""
    offered = [tool["function"]["name"] for tool in trajectory.tools]
    stats = {name: {"count": 0, "success": 0, "failure": 0} for name in [*offered, "unknown"]}
    for message in trajectory.messages:
        for result in message.results:
            counts = stats[result.name if result.name in offered else "unknown"]
            counts["count"] += 1
            counts["success" if result.ok else "failure"] += 1
    return stats


def _toolsets(trajectory: Trajectory) -> list[str]:
    tools = known_tools()
    offered = [tool["function"]["name"] for tool in trajectory.tools]
    return list(dict.fromkeys(tools[name].toolset for name in offered if name in tools))
