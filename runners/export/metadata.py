"""The metadata of an episode, the same in every format."""

from typing import Any

import msgspec

from hermes_lab.types import Episode, Trajectory


def metadata(episode: Episode, trajectory: Trajectory) -> dict[str, Any]:
    """The same keys in every row, null if missing, so that tables have one schema.

    `score` and `success` are of the first submission, `accepted` is of the last one. Compressed conversations still
    have all messages in order: each entry of `compressions` tells which of them the model no longer saw."""
    return {
        "episode": episode.key,
        "suite": episode.suite,
        "task_id": episode.task_id,
        "lane": episode.lane,
        "round": episode.round,
        "sample": episode.sample,
        "experience": episode.experience,
        "domain": episode.task.domain,
        "split": episode.task.split,
        "world": episode.task.world,
        "status": episode.status,
        "score": episode.score,
        "success": episode.success,
        "reward": episode.reward.value if episode.reward else None,
        "accepted": episode.verdicts[-1].success if episode.verdicts else None,
        "submissions": len(episode.verdicts),
        "stop_reason": trajectory.stop_reason,
        "provider": episode.model.provider,
        "model": episode.model.name,
        "adapter": episode.model.adapter,
        "adapter_digest": episode.model.adapter_digest,
        "program": episode.program.shown if episode.program else "",
        "snapshot": episode.skills.snapshot,
        "skills_loaded": list(episode.skills.loaded),
        "config_digest": episode.config_digest,
        "lab": episode.lab,
        "tool_format": trajectory.tool_format,
        "api_calls": len(trajectory.steps),
        "prompt_tokens": trajectory.usage.prompt_tokens,
        "completion_tokens": trajectory.usage.completion_tokens,
        "started_at": episode.started_at,
        "seconds": episode.seconds,
        "compressions": [
            {"at": one.at, "start": one.start, "end": one.end, **msgspec.to_builtins(one.usage)}
            for one in trajectory.compressions
        ],
    }
