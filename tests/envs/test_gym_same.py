"""Whoever plays an environment meets what a model meets in the runner, and is paid the same."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from hermes_lab.config.digest import config_digest
from hermes_lab.envs.gym import HermesLabEnv
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.hermes_format import render_calls
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.rollout import RolloutContext, RolloutSpec, run_episode
from hermes_lab.sandbox import open_sandbox
from hermes_lab.skills.library import Library
from hermes_lab.tasks import load_suite
from hermes_lab.types import Episode, Message, Task, ToolCall

Turns = list[dict[str, str]]


class Player:
    """Shows every conversation that it saw. It plays `moves`, and then answers."""

    def __init__(self, moves: Sequence[tuple[str, dict[str, Any]]]) -> None:
        self.moves = moves
        self.saw: list[Turns] = []

    def turn(self, conversation: Turns) -> tuple[str, dict[str, Any]] | None:
        """The next call, or None to answer."""
        self.saw.append(conversation)
        done = sum(turn["role"] == "assistant" for turn in conversation)
        return self.moves[done] if done < len(self.moves) else None

    def __call__(self, messages: Sequence[Message]) -> Message:
        move = self.turn([{"role": message.role, "content": message.content} for message in messages])
        if move is None:
            return Message(role="assistant", content="Done.")
        return Message(role="assistant", content="", tool_calls=(ToolCall("c", *move),))


def run(env: HermesLabEnv, task: Task, player: Player) -> Episode:
    model = ScriptedModel(player, tool_format="hermes")
    lab = RolloutContext(
        env.config,
        config_digest(env.config),
        load_suite(env.config.suite),
        model,
        partial(open_sandbox, env.config.sandbox),
    )
    job = RolloutSpec(task, lane="main", round=0, sample=0, experience=0, place=0, review="never")
    return anyio.run(run_episode, lab, job, Knowledge(Library()))


def said(episode: Episode) -> list[Message]:
    """The trajectory's messages, but for how long the tools took."""
    assert episode.trajectory is not None
    timeless = [
        replace(message, results=tuple(replace(result, seconds=0.0) for result in message.results))
        for message in episode.trajectory.messages
    ]
    assert any(message.results for message in timeless)
    return timeless


def play(env: HermesLabEnv, player: Player, actions: str, observation: dict[str, str]) -> tuple[float, dict[str, Any]]:
    while True:
        tool, arguments = player.turn(json.loads(observation["conversation"])) or ("", {})
        action: Any = {"tool": tool, "arguments": json.dumps(arguments), "content": "" if tool else "Done."}
        if actions == "text":
            action = render_calls("", [ToolCall("c", tool, arguments)]) if tool else "Done."
        observation, reward, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return reward, info


@pytest.mark.parametrize("actions", ["text", "structured"])
@pytest.mark.parametrize("solves", [True, False])
@pytest.mark.parametrize("suite", ["ledger", "joins"])
def test_the_conversation_and_the_reward_are_those_of_the_runner(suite: str, solves: bool, actions: Any) -> None:
    env = HermesLabEnv(suite, actions=actions, config=["reward.tool_calls=-0.125"])
    try:
        observation, info = env.reset(seed=5)
        name = info["task_id"]
        seed = int(name.split("-s")[1].split("-")[0])
        (task,) = load_suite(env.config.suite).load(split="train", count=1, seed=seed, world=0)
        assert task.id == name
        moves: list[tuple[str, dict[str, Any]]] = [("terminal", {"command": "ls -a; echo 'é\\n'"})]
        moves += [("read_file", {"path": "none"}), ("no_such_tool", {})]
        if solves:
            moves += [(move.tool, dict(move.arguments)) for move in load_suite(env.config.suite).oracle(task)]  # type: ignore[attr-defined]
        in_runner, in_env = Player(moves), Player(moves)
        recorded = run(env, task, in_runner)
        reward, last = play(env, in_env, actions, observation)
    finally:
        env.close()
    assert recorded.error is None
    assert in_env.saw == in_runner.saw
    assert env.episode is not None
    assert said(env.episode) == said(recorded)
    assert env.episode.reward == recorded.reward
    assert (reward, last["score"]) == (recorded.reward.value if recorded.reward else None, float(solves))
    assert last["terms"] == {"score": float(solves), "tool_calls": -0.125 * len(moves)}
