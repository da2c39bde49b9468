"""A policy that submits a placeholder, to be told the rule: what `reward.recovered` pays it beside honest work."""

from dataclasses import replace
from pathlib import Path

import pytest

from hermes_lab.config.sources import load_config
from hermes_lab.envs.rollouts import Rollouts, open_rollouts
from hermes_lab.models.scripted import ScriptedModel, TaskAwarePolicy
from hermes_lab.tasks.conversation import Conversation, Script
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import draw_rule
from hermes_lab.tasks.learner import Learner, learner
from hermes_lab.types import Task

GIVEN = [
    *(("ledger", "none"), ("ledger", "oracle"), ("labels", "none")),
    *(("services", "oracle"), ("figures", "none")),
]
"""Families, and the skills that `env.knowledge` gives."""


class PlaceholderFirst(Learner):
    """Submits the right kind of work by a wrong rule, whatever its skills say, and then does what the rejection asks
    for."""

    def work(self, seen: Conversation) -> Script:
        for subtask in self.subtasks:
            site, draws = subtask.site, Draws("placeholder", self.task.id)
            drawn = (
                draw_rule(kind, site.family.rules[kind], draws, site.site_config)
                for kind in site.family.kinds(site.site_config)
            )
            other = next(rule for rule in drawn if rule.type != site.drawn.type)
            yield from self.do(subtask, other, "I submit something.")
        return "Done."


async def earned(policy: TaskAwarePolicy, family: str, knowledge: str) -> dict[str, tuple[Task, float]]:
    """What it earns in seven tasks, with the skills that `env.knowledge` gives them."""
    overrides = ["suite.options.ruled=2", "suite.options.plain=1", "reward.score=0", "reward.recovered=1"]
    config = load_config(
        [
            *("model.provider=scripted", "model.name=tasks.learner:learner", f"suite.name={family}"),
            *(*overrides, f"env.knowledge={knowledge}", "learning.arms=[off]"),
        ]
    )
    found = {}
    async with open_rollouts(config, log=Path("unused"), say=print) as opened:
        context = replace(opened.context, model=ScriptedModel(policy, tool_format=config.agent.tool_format))
        rollouts = Rollouts(context, opened.knowledge)
        for task in rollouts.tasks(split="train", count=11, seed=0, world=0)[4:]:  # in all families some have no rule
            (episode,) = await rollouts.group(task, 1)
            assert episode.reward is not None, episode.error
            found[task.id] = (task, episode.reward.value)
    return found


@pytest.mark.parametrize(("family", "knowledge"), GIVEN)
async def test_a_placeholder_earns_no_more_than_honest_work(family: str, knowledge: str) -> None:
    """As much where nothing states the rule; half of it where a skill does, or where no rule holds."""
    honest = await earned(learner(), family, knowledge)
    placeholder = await earned(TaskAwarePolicy(PlaceholderFirst), family, knowledge)
    for name, (task, reward) in honest.items():
        told = bool(task.triggers) and knowledge == "none"
        assert (reward, placeholder[name][1]) == ((0.5 if told else 1.0), 0.5), name
    assert {bool(task.triggers) for task, _ in honest.values()} == {True, False}
