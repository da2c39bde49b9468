"""`HermesLab/<suite>-learning-v0`: reviews as a Gymnasium environment, one turn of a review per step."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium

from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.envs.draws import split_of
from hermes_lab.envs.gym import Action, Observation, as_text, observation_of, observation_space
from hermes_lab.envs.knowledge import start_library
from hermes_lab.envs.learning.config import DEFAULT, ReviewWorth, check_learning, read_worth
from hermes_lab.envs.learning.lanes import Draw, LearningLane, draw_lanes
from hermes_lab.envs.learning.run import LaneOutcome, LearningRun
from hermes_lab.envs.learning.worth import Refused, ReviewValue, values_of
from hermes_lab.envs.rollouts import Rollouts, open_rollouts
from hermes_lab.envs.spaces import Actions, action_space, turn_text
from hermes_lab.envs.stepwise import LoopThread, SteppedModel, Turn
from hermes_lab.errors import HermesLabError
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.weights import silent
from hermes_lab.returned import load_tasks
from hermes_lab.rollout import RolloutSpec
from hermes_lab.skills.library import Library
from hermes_lab.tasks import load_suite
from hermes_lab.types import Episode

WORKER = ("model.provider=scripted", "model.name=hermes_lab.tasks.learner:learner")
"""Who works if the configuration names no model: a policy that follows skills, of the lab itself."""

_REVIEW_TOOLS = ("skill_manage", "skill_view", "skills_list")
_DRAWS = 8
"""Learning episodes to draw until one has work to review."""


class Finished(NamedTuple):
    """A finished learning episode."""

    outcome: LaneOutcome


class LearningEnv(gymnasium.Env[Observation, Action]):
    """A learning episode: the configured model works on tasks of one world, and the agent reviews each of them.

    Observation: `task`, the prompt of the task under review, and `conversation`, a JSON list of `{"role", "content"}`
    that starts with the work and ends with the request to review it, or with what a tool of the review answered.
    Action: one turn of the review; without a tool call it ends the review. Reward: 0 until the last review has ended;
    then the configured model works on the follow-up tasks, and the reward is the sum of the values of all reviews.

    `worth` has the fields of `ReviewWorth`. The last info has the summed `terms`, and `solved_before`, `solved_after`
    and `rollouts` of the follow-ups. Infrastructure failures are raised, not rewarded.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  (declared so by Gymnasium)

    def __init__(
        self,
        suite: str = "",
        config: Sequence[str] = (),
        worth: Mapping[str, Any] | None = None,
        library: Library | None = None,
        render_mode: str | None = None,
        actions: Actions = "text",
    ) -> None:
        named = [f"suite.name={suite}"] if suite else []
        self.config = _with_web(
            load_config([*WORKER, *named, "learning.arms=[on]", *config, "agent.tool_format=hermes"])
        )
        check_learning(self.config)
        self.worth = DEFAULT if worth is None else read_worth(worth)
        self.outcome: LaneOutcome | None = None
        """The last finished learning episode, with the records of all its rollouts."""
        self.render_mode = render_mode
        self.observation_space = observation_space()
        self.action_space = action_space(actions, _REVIEW_TOOLS)
        self._library = start_library(self.config, library)
        self._loop: LoopThread | None = None
        self._stepped: SteppedLearning | None = None
        self._messages: Turn = ()
        self._begun = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins a learning episode drawn with `seed`, and waits for its first review; without a seed, the next one."""
        super().reset(seed=seed)
        del options
        self._begun = False  # whatever fails here, `step` then asks for a reset
        if self._loop is None:
            self._loop = LoopThread()
        if self._stepped is None:
            self._stepped = self._loop.call(SteppedLearning.open(self.config, self.worth, self._library))
        for _ in range(_DRAWS):
            turn = self._loop.call(self._stepped.begin(int(self.np_random.integers(2**31))))
            if not isinstance(turn, Finished):
                self._messages, self._begun = turn, True
                return observation_of(turn), {
                    "lane": self._stepped.lane.name,
                    "task_id": self._stepped.task_id,
                }
            _raise_errors(turn.outcome)
        raise HermesLabError(f"{_DRAWS} learning episodes ended without an answer, so there was nothing to review")

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One turn of a review. Raises `HermesLabError` for an infrastructure failure."""
        if not self._begun or self._stepped is None or self._loop is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        if not self.action_space.contains(action):
            raise gymnasium.error.InvalidAction(f"{action!r:.200} is not in {self.action_space}")
        turn = self._loop.call(self._stepped.act(turn_text(action)))
        if not isinstance(turn, Finished):
            self._messages = turn
            return observation_of(turn), 0.0, False, False, {}
        self._begun, self.outcome = False, turn.outcome
        _raise_errors(turn.outcome)
        values = list(_values(turn.outcome, self.worth))
        names = ("with", "without", "listed", "body")
        terms = {name: sum(value.reward.terms[name] for value in values) for name in names}
        counts = {name: sum(getattr(value, name) for value in values) for name in _COUNTS}
        return observation_of(self._messages), sum(terms.values()), True, False, {"terms": terms, **counts}

    def render(self) -> str | None:
        """The conversation as text."""
        return as_text(self._messages) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Closes the sandboxes, the model and the event loop's thread; idempotent."""
        if self._loop is not None:
            if self._stepped is not None:
                self._loop.call(self._stepped.aclose())
                self._stepped = None
            self._loop.close()
            self._loop = None


def _with_web(config: RunConfig) -> RunConfig:
    """With the toolset `web` for tasks that have pages, if no `agent.toolsets` were given: otherwise they cannot be
    solved."""
    suite, agent = config.suite, config.agent
    if {"toolsets", "distribution"} & agent.model_fields_set:
        return config
    loaded = load_suite(suite, config.sandbox)
    tasks = load_tasks(loaded, split=split_of(suite, loaded), count=1, seed=suite.seed, world=suite.world)
    if not any(task.pages for task in tasks):
        return config
    return config.model_copy(update={"agent": agent.model_copy(update={"toolsets": (*agent.toolsets, "web")})})


_COUNTS = ("solved_before", "solved_after", "rollouts")


def _values(outcome: LaneOutcome, worth: ReviewWorth) -> Sequence[ReviewValue]:
    """The values of all reviews. Work that ended without an answer has none."""
    found: list[ReviewValue] = []
    for reviewed in outcome.reviewed:
        if not reviewed.after:
            continue
        values = values_of(outcome, reviewed, worth)
        if isinstance(values, Refused):
            raise HermesLabError(f"{reviewed.work.key}: its review has no value: {values.reason}")
        found += values
    return found


def _raise_errors(outcome: LaneOutcome) -> None:
    if outcome.errors:
        raise HermesLabError(f"a rollout of the learning episode failed: {outcome.errors[0]}")


class SteppedLearning:
    """Learning episodes whose reviews are written from outside, one turn at a time.

    All methods run on one event loop. The rollouts stay open from `open` to `aclose`, in a task of their own.
    """

    def __init__(self, config: RunConfig, worth: ReviewWorth, library: Library) -> None:
        self.lane: LearningLane
        self.task_id = ""
        """The task that the model works on, or whose review is asked for."""
        self._config = config
        self._worth = worth
        self._start = Knowledge(library)
        self._reviewer = SteppedModel()
        self._rollouts: asyncio.Future[Rollouts] = asyncio.get_running_loop().create_future()
        self._closed = asyncio.Event()
        self._keeper = asyncio.create_task(self._keep_open())
        self._running: asyncio.Task[Finished] | None = None

    @classmethod
    async def open(cls, config: RunConfig, worth: ReviewWorth, library: Library) -> "SteppedLearning":
        """Opens the suite, the sandboxes and the model that works. Raises as `open_rollouts`."""
        opened = cls(config, worth, library)
        await opened._rollouts
        return opened

    async def _keep_open(self) -> None:
        try:
            async with open_rollouts(self._config, log=Path("server.log"), say=silent) as rollouts:
                self._rollouts.set_result(rollouts)
                await self._closed.wait()
        except Exception as error:
            if self._rollouts.done():
                raise
            self._rollouts.set_exception(error)

    async def begin(self, seed: int) -> Turn | Finished:
        """Begins the learning episode of a seed; returns the conversation of its first review."""
        await self._end()
        self._reviewer = SteppedModel()
        context = replace((await self._rollouts).context, reviewer=self._reviewer)
        suite, loaded = self._config.suite, context.suite
        draw = Draw(split_of(suite, loaded), seed, suite.world, 1, 1)
        (self.lane,) = draw_lanes(loaded, self._config, self._worth, draw, self._start)
        self._running = asyncio.create_task(self._run(Rollouts(context, (await self._rollouts).knowledge)))
        return await self._turn()

    async def act(self, reply: str) -> Turn | Finished:
        """Sends a turn of the review; returns the conversation of the next one, or the end."""
        await self._reviewer.replies.put(reply)
        return await self._turn()

    async def aclose(self) -> None:
        """Cancels what runs, and closes everything."""
        await self._end()
        self._closed.set()
        await self._keeper

    async def _run(self, rollouts: Rollouts) -> Finished:
        async def roll(spec: RolloutSpec, knowledge: Knowledge) -> Episode:
            if spec.phase != "heldout":
                self.task_id = spec.task.id
            return await rollouts.run(spec, knowledge)

        run = LearningRun(
            roll,
            self._worth,
            self._config.memory,
            forks=1,
        )
        (outcome,) = await run.run([self.lane])
        return Finished(outcome)

    async def _turn(self) -> Turn | Finished:
        assert self._running is not None
        prompt = asyncio.create_task(self._reviewer.prompts.get())
        try:
            await asyncio.wait({prompt, self._running}, return_when=asyncio.FIRST_COMPLETED)
            return prompt.result() if prompt.done() else self._running.result()
        finally:
            prompt.cancel()

    async def _end(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
            self._running = None
