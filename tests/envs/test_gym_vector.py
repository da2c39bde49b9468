"""Many environments at once, and Gymnasium's own wrappers around them; nothing is left when they are closed."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics

import hermes_lab.envs  # noqa: F401  (makes the ids known)

CALL = '<tool_call>\n{"name": "terminal", "arguments": {"command": "echo hé; sleep 1000 &"}}\n</tool_call>'


def processes() -> set[int]:
    """Every process that descends from this one, and whichever it is a sandbox of."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


@pytest.fixture
def _nothing_is_left() -> Iterator[None]:
    before = processes()
    yield
    deadline = time.monotonic() + 20
    while (left := processes() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    # the resource tracker of `multiprocessing` lives as long as its interpreter
    assert not {pid for pid in left if "resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_text()}


@pytest.mark.usefixtures("_nothing_is_left")
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("actions", ["text", "structured"])
def test_vector_environments_work_side_by_side_and_close(mode: str, actions: str) -> None:
    vector = gymnasium.make_vec("HermesLab/ledger-v0", num_envs=4, vectorization_mode=mode, actions=actions)
    act: Any = (CALL, CALL, "Done.", "Done.")
    if actions == "structured":
        arguments = json.dumps({"command": "echo hé; sleep 1000 &"})
        act = {
            "tool": ("terminal", "terminal", "", ""),
            "arguments": (arguments, arguments, "", ""),
            "content": ("", "", "Done.", "Done."),
        }
    try:
        first, info = vector.reset(seed=[1, 2, 3, 1])
        assert len(set(info["task_id"])) == 3
        assert first["task"][0] == first["task"][3] != first["task"][1]
        observation, reward, terminated, _, _ = vector.step(act)
        assert "hé" in json.loads(observation["conversation"][1])[-1]["content"]
        assert not any(terminated)
        assert len(json.loads(first["conversation"][1])) == 2  # what was seen before stays as it was
        _, reward, terminated, truncated, info = vector.step(act)
        assert (list(terminated), list(reward)) == ([False, False, True, True], [0.0] * 4)
        assert not any(truncated)
        assert list(info["terms"]["_score"]) == [False, False, True, True]
        observation, *_ = vector.step(vector.action_space.sample())
        assert len(json.loads(observation["conversation"][2])) == 2  # begun again
    finally:
        vector.close()


@pytest.mark.usefixtures("_nothing_is_left")
def test_gymnasiums_wrappers_work() -> None:
    env = RecordEpisodeStatistics(gymnasium.make("HermesLab/ledger-v0", max_episode_steps=3))
    env.reset(seed=0)
    for truncates in (False, False, True):
        _, _, terminated, truncated, info = env.step(CALL)
        assert (terminated, truncated) == (False, truncates)
    assert info["episode"]["l"] == 3
    env.reset(seed=1)
    env.step("Done.")
    _, _, terminated, _, info = env.step("I cannot do better.")
    assert (terminated, info["episode"]["r"], info["terms"]) == (True, 0.0, {"score": 0.0})
    env.close()
