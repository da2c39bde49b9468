"""Episodes made up for tests: real records with chosen outcomes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from fakes.episodes import record

from hermes_lab.lane import SKILL_ARMS
from hermes_lab.types import Episode, MemoryUse, MemoryWrite, ModelIdentity, TaskInfo, Trajectory, Usage, Verdict

NOTE = MemoryWrite("add", "memory", "review", "", "model-a", "", "after", "Check the totals.")

STARTED_AT = "2026-01-01T00:00:00Z"
WriteRun = Callable[..., Path]
"""Writes episodes as a run folder: the fixture `write_run`."""


def make_episode(
    success: bool | None, *, task: int = 0, lane: str = "main", first_call_ok: bool = True, **changes: Any
) -> Episode:
    """An episode that finished; `success` None is one that nothing judged. In arms with skills the treatment happened:
    notes were in the prompt, and more were written."""
    arm = lane.partition("-")[0]
    notes = MemoryUse(f"notes of {arm}", (NOTE,)) if arm in SKILL_ARMS else MemoryUse()
    usual = record(
        suite="demo",
        task_id=f"t{task}",
        lane=lane,
        round=task,
        experience=task,
        task=TaskInfo(domain="code", split="train"),
        model=ModelIdentity("scripted", "model-a"),
        config_digest="c0",
        started_at=STARTED_AT,
        seconds=2.0,
        score=None if success is None else float(success),
        success=success,
        verdicts=() if success is None else (Verdict(float(success), success),),
        trajectory=Trajectory((), (), "native", "answered", usage=Usage(10, 5)),
        memory=notes,
        metrics={"api_calls": 3, "tool_calls": 2, "tool_errors": 1, "first_call_ok": float(first_call_ok)},
    )
    return msgspec.structs.replace(usual, **changes)
