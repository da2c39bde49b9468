"""`HermesLab/<suite>-v0`: the agent's rollout as a Gymnasium environment, one assistant turn per step."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import gymnasium
from gymnasium import spaces

from hermes_lab.config.sources import load_config
from hermes_lab.envs.draws import check_env_judge, split_of
from hermes_lab.envs.knowledge import TaskKnowledge
from hermes_lab.envs.spaces import Actions, TurnSpace, action_space, turn_text
from hermes_lab.envs.stepwise import LoopThread, SteppedRollout, Turn
from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.harness.check import check_own_loop
from hermes_lab.returned import load_tasks
from hermes_lab.rewards import reward_warnings
from hermes_lab.skills.library import Library
from hermes_lab.tasks import load_suite
from hermes_lab.tools.toolbox import check_toolsets
from hermes_lab.types import Episode

Observation = dict[str, str]
Action = str | Mapping[str, str]


def observation_of(messages: Turn) -> Observation:
    """What an agent sees: the task's prompt, and the conversation as JSON."""
    turns = [{"role": message.role, "content": message.content} for message in messages]
    prompt = next((message.content for message in messages if message.role == "user"), "")
    return {"task": prompt, "conversation": json.dumps(turns, ensure_ascii=False)}


def observation_space() -> spaces.Space[Observation]:
    """The space of observations."""
    return cast("spaces.Space[Observation]", spaces.Dict({"task": TurnSpace(), "conversation": TurnSpace()}))


def as_text(messages: Turn) -> str:
    """The conversation for a person."""
    return "\n\n".join(f"[{message.role}]\n{message.content}" for message in messages)


class HermesLabEnv(gymnasium.Env[Observation, Action]):
    """One task of a suite in a fresh sandbox, with the batch runner's rollout.

    Observation: `task`, the prompt; `conversation`, a JSON list of `{"role", "content"}` as the model sees it, starting
    with the system prompt and its tools. Action: one assistant turn; without a tool call it is the answer and submits
    the work. See `hermes_lab.envs.spaces.action_space` for the format of `actions`. Reward: 0 until the episode ends,
    then that of `config.reward`. `terminated` when the last submission was judged, `truncated` when a budget ended it.

    The first info has the task's `task_id`, and with `env.knowledge` what its skills know (`knowledge`). The last info
    has the reward's weighted `terms`, the `score`, `success` and `stop_reason`; `episode` is the full
    record. Infrastructure failures are raised, not rewarded.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  (declared so by Gymnasium)

    def __init__(
        self,
        suite: str = "",
        config: Sequence[str] = (),
        library: Library | None = None,
        render_mode: str | None = None,
        actions: Actions = "text",
    ) -> None:
        named = [f"suite.name={suite}"] if suite else []
        check_own_loop(load_config([*named, *config]), "an environment with single steps")
        self.config = load_config([*named, *config, "agent.tool_format=hermes"])
        agent = self.config.agent
        tools = () if agent.distribution else check_toolsets(agent.toolsets, agent.disabled_tools)
        if "delegate_task" in tools:
            raise ConfigError(
                "agent.toolsets: delegate_task is not supported in an environment with a single actor; disable it"
            )
        if doubt := reward_warnings(self.config.reward):
            gymnasium.logger.warn(doubt)
        self.episode: Episode | None = None
        """The record of the last finished episode."""
        self.render_mode = render_mode
        self.observation_space = observation_space()
        self.action_space = action_space(actions, sorted(tools))
        self._suite = load_suite(self.config.suite, self.config.sandbox)
        check_env_judge(self.config, self._suite)
        self._split = split_of(self.config.suite, self._suite)
        self._knowledge = TaskKnowledge(self.config, self._suite, library)
        self._loop: LoopThread | None = None
        self._rollout: SteppedRollout | None = None
        self._messages: Turn = ()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts a task drawn with `seed`; without one, the next task of the earlier seed."""
        super().reset(seed=seed)
        del options
        self._end_rollout()
        if self._loop is None:
            self._loop = LoopThread()
        task_seed = int(self.np_random.integers(2**31))
        suite = self.config.suite
        task = load_tasks(self._suite, split=self._split, count=1, seed=task_seed, world=suite.world)[0]
        knowledge = self._knowledge.of(task)
        self._rollout = self._loop.call(SteppedRollout.begin(self.config, self._suite, task, knowledge))
        turn = self._loop.call(self._rollout.turn())
        if isinstance(turn, Episode):
            raise HermesLabError(f"the episode could not start: {_why(turn)}")
        self._messages = turn
        known = {"knowledge": knowledge.label} if knowledge.label else {}
        return self._observation(), {"task_id": task.id, **known}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One assistant turn. Raises `HermesLabError` for an infrastructure failure."""
        if self._rollout is None or self._loop is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        if not self.action_space.contains(action):
            raise gymnasium.error.InvalidAction(f"{action!r:.200} is not in {self.action_space}")
        turn = self._loop.call(self._rollout.act(turn_text(action)))
        if not isinstance(turn, Episode):
            self._messages = turn
            return self._observation(), 0.0, False, False, {}
        self._rollout, self.episode = None, turn
        if turn.reward is None or turn.trajectory is None:
            raise HermesLabError(f"the episode has no reward: {_why(turn)}")
        self._messages = turn.trajectory.messages
        stop = turn.trajectory.stop_reason
        terminated = stop in ("answered", "empty")
        info = {"terms": dict(turn.reward.terms), "score": turn.score, "success": turn.success, "stop_reason": stop}
        return self._observation(), turn.reward.value, terminated, not terminated, info

    def render(self) -> str | None:
        """The conversation as text."""
        if self.render_mode != "ansi":
            return None
        return as_text(self._messages)

    def close(self) -> None:
        """Closes the sandbox and the event loop's thread; idempotent."""
        self._end_rollout()
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def _observation(self) -> Observation:
        return observation_of(self._messages)

    def _end_rollout(self) -> None:
        if self._rollout is not None and self._loop is not None:
            self._loop.call(self._rollout.aclose())
        self._rollout = None


def _why(episode: Episode) -> str:
    return f"{episode.error.kind}: {episode.error.message}" if episode.error else "the task has no verifier"
