"""`HermesLab/<suite>-v0`: the agent's rollout as a Gymnasium environment, one assistant turn a step."""

import json
from collections.abc import Sequence
from typing import Any, cast

import gymnasium
from gymnasium import spaces

from envs.stepwise import LoopThread, SteppedRollout, Turn
from hermes_lab.config import load_config
from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.skills.library import Library
from hermes_lab.tools.registry import check_toolsets
from hermes_lab.types import Episode
from tasks import load_suite

Observation = dict[str, str]


class TurnSpace(spaces.Text):
    """Any Unicode text up to `max_length` characters. A sample is a short plain answer."""

    def __init__(self, max_length: int = 1_000_000) -> None:
        super().__init__(max_length=max_length)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        del mask, probability
        return "".join(self.np_random.choice(list("abcdefghij "), size=12)) + "."


class HermesLabEnv(gymnasium.Env[Observation, str]):
    """One task of a suite, in a fresh sandbox, through the same rollout as the batch runner.

    Observation: `task`, the prompt; `conversation`, a JSON list of `{"role", "content"}`, every turn as a model would
    see it, the system prompt with its tools first. Action: one assistant turn in the Hermes text format; a turn without
    `<tool_call>` is an answer, which submits the work. Reward: 0 until the episode ends, then the score of the first
    submission, in [0, 1]. `terminated` when the last submission was judged, `truncated` when a budget ended it.

    The last `info["episode"]` is the episode's record. A failure of the infrastructure is raised, never a reward.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  (declared so by Gymnasium)

    def __init__(
        self,
        suite: str = "",
        config: Sequence[str] = (),
        library: Library | None = None,
        render_mode: str | None = None,
    ) -> None:
        named = [f"suite.name={suite}"] if suite else []
        self.config = load_config([*named, *config, "agent.tool_format=hermes"])
        agent = self.config.agent
        if not agent.distribution and "delegate_task" in check_toolsets(agent.toolsets, agent.disabled_tools):
            raise ConfigError(
                "agent.toolsets: an environment has one actor, and so no delegate_task; disable that tool"
            )
        self.render_mode = render_mode
        self.observation_space = cast(
            "spaces.Space[Observation]", spaces.Dict({"task": TurnSpace(), "conversation": TurnSpace()})
        )
        self.action_space = TurnSpace()
        self._suite = load_suite(self.config.suite)
        chosen = "split" in self.config.suite.model_fields_set or self.config.suite.split in self._suite.splits
        self._split = self.config.suite.split if chosen else self._suite.splits[0]
        self._library = library or Library()
        self._loop: LoopThread | None = None
        self._rollout: SteppedRollout | None = None
        self._messages: Turn = ()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins a task. `seed` draws it; without one, the tasks of the earlier seed go on."""
        super().reset(seed=seed)
        del options
        self._end_rollout()
        if self._loop is None:
            self._loop = LoopThread()
        task_seed = int(self.np_random.integers(2**31))
        suite = self.config.suite
        task = self._suite.load(split=self._split, count=1, seed=task_seed, world=suite.world)[0]
        self._rollout = self._loop.call(SteppedRollout.begin(self.config, self._suite, task, self._library))
        turn = self._loop.call(self._rollout.turn())
        if isinstance(turn, Episode):
            raise HermesLabError(f"the episode could not begin: {_why(turn)}")
        self._messages = turn
        return self._observation(), {"task_id": task.id}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One assistant turn. Raises `HermesLabError` where the infrastructure stopped the episode."""
        if self._rollout is None or self._loop is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        turn = self._loop.call(self._rollout.act(action))
        if not isinstance(turn, Episode):
            self._messages = turn
            return self._observation(), 0.0, False, False, {}
        self._rollout = None
        if turn.reward is None or turn.trajectory is None:
            raise HermesLabError(f"the episode has no reward: {_why(turn)}")
        self._messages = turn.trajectory.messages
        terminated = turn.trajectory.stop_reason in ("answered", "empty")
        info = {"episode": turn, "terms": dict(turn.reward.terms)}
        return self._observation(), turn.reward.value, terminated, not terminated, info

    def render(self) -> str | None:
        """The conversation as text."""
        if self.render_mode != "ansi":
            return None
        return "\n\n".join(f"[{message.role}]\n{message.content}" for message in self._messages)

    def close(self) -> None:
        """Ends the sandbox and the event loop's thread; may be called again."""
        self._end_rollout()
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def _observation(self) -> Observation:
        turns = [{"role": message.role, "content": message.content} for message in self._messages]
        prompt = next((message.content for message in self._messages if message.role == "user"), "")
        return {"task": prompt, "conversation": json.dumps(turns, ensure_ascii=False)}

    def _end_rollout(self) -> None:
        if self._rollout is not None and self._loop is not None:
            self._loop.call(self._rollout.aclose())
        self._rollout = None


def _why(episode: Episode) -> str:
    return f"{episode.error.kind}: {episode.error.message}" if episode.error else "the task has nothing to score by"
