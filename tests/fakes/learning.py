"""Learning episodes in memory: real rollouts of a scripted model, without a folder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.config.sources import load_config
from hermes_lab.envs.learning.config import ReviewWorth
from hermes_lab.envs.learning.lanes import Draw, draw_lanes
from hermes_lab.envs.learning.run import LaneOutcome, LearningRun
from hermes_lab.envs.rollouts import Rollouts, open_rollouts
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.scripted import ScriptedModel, TaskAwarePolicy
from hermes_lab.types import Episode

LEDGER = (
    *("model.provider=scripted", "model.name=tasks.learner:learner", "suite.name=ledger", "learning.arms=[on]"),
    *("suite.options.ruled=1", "suite.options.plain=0"),
)


def worth(**values: Any) -> ReviewWorth:
    """One task and two follow-ups, at a cost."""
    usual = {"tasks": 1, "followups": 2, "repeats": 1, "listed_cost": 0.001, "body_cost": 0.0001}
    return ReviewWorth(**(usual | values))


class Ran(NamedTuple):
    """What a run gave, and its episodes in the order in which they were recorded."""

    outcomes: list[LaneOutcome]
    episodes: list[Episode]


async def learn(
    policy: TaskAwarePolicy | None,
    paid: ReviewWorth,
    *overrides: str,
    forks: int,
    lanes: int = 1,
    worlds: int = 1,
    done: Sequence[Episode] = (),
    start: Knowledge | None = None,
    seed: int = 0,
) -> Ran:
    """Runs learning episodes of the ledger suite, by `policy` or the configured model."""
    config = load_config([*LEDGER, *overrides])
    episodes: list[Episode] = []

    async def keep(episode: Episode) -> None:
        episodes.append(episode)

    async with open_rollouts(config, log=Path("unused"), say=print) as rollouts:
        context = rollouts.context
        if policy:
            context = replace(context, model=ScriptedModel(policy, tool_format=config.agent.tool_format))
        scripted = Rollouts(context, rollouts.knowledge)
        drawn = draw_lanes(
            scripted.context.suite, config, paid, Draw("train", seed, 0, worlds, lanes), start or Knowledge()
        )
        run = LearningRun(
            scripted.run,
            paid,
            config.memory,
            forks=forks,
            keep=keep,
            save=lambda _: None,
            done={episode.key: episode for episode in done},
        )
        return Ran(await run.run(drawn), episodes)
