"""An environment warns after its first groups, once, if too few are usable, and says what to change."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from fakes.episodes import BRANCH, rollout

from hermes_lab.envs.atropos.config import load_env_config
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.envs.atropos.watch import FIRST, Watch
from hermes_lab.envs.learning.worth import ReviewValue
from hermes_lab.envs.refusals import NO_REWARD
from hermes_lab.envs.signal import Rated, rate_rollouts
from hermes_lab.types import Episode, Reward, TaskInfo

CONFIG = ["configs/env/atropos.yaml", "env.group_size=2", "env.knowledge=none", "reward={score: 1, recovered: 0}"]


def played(task: int, *rewards: float | None) -> list[Episode]:
    known = {"task_id": f"t{task}", "task": TaskInfo("d", "train", triggers=("a:b",))}
    return [rollout(n, reward, BRANCH, success=reward == 1.0, **known) for n, reward in enumerate(rewards)]


def said_of(*groups: list[Episode], refused: str = "", config: Sequence[str] = CONFIG) -> list[str]:
    said: list[str] = []
    watch = Watch(load_env_config(config), Tally(), said.append)
    for group in groups:
        for episode in group:
            watch.saw(episode)
        whole = all(each.reward for each in group)
        watch.judged(rate_rollouts(group, refused if whole else NO_REWARD))
    return said


def test_it_warns_after_the_first_groups_and_only_once() -> None:
    dull = [played(n, 0.0, 0.0) for n in range(2 * FIRST)]
    assert said_of(*dull[: FIRST - 1]) == []
    (line,) = said_of(*dull)
    assert line.startswith(
        "warning: too few usable groups: 0/8 (0-32 %) of the first groups can be trained on; "
        "refused: equal rewards 8 (a hidden rule: 0 of 8); 0 of 16 rollouts solved"
    )
    assert "skills that state hidden rules: env.knowledge=mixed (16 of 16 rollouts" in line
    assert "\n" not in line


def test_it_is_silent_where_enough_groups_differ() -> None:
    assert said_of(*[played(n, 0.0, float(n % 2)) for n in range(20)]) == []


def test_groups_that_are_refused_for_another_reason_count_and_get_its_remedy() -> None:
    (line,) = said_of(*[played(n, 0.0, 1.0) for n in range(FIRST)], refused="longer than 4096 tokens")
    assert "0/8 (0-32 %) of the first groups can be trained on; refused: longer than 4096 tokens 8" in line
    assert line.endswith(
        "Try: (1) env.max_token_length above 4096, or less text: agent.prompt=compact, fewer agent.toolsets, a lower "
        "agent.max_iterations (groups are longer than 4096 tokens)"
    )


def value(reward: float, rollouts: int) -> ReviewValue:
    counts = {"rollouts": rollouts, "solved_before": 0, "solved_after": 0, "listed": 0.0, "body": 0.0}
    terms = {"with": reward, "without": 0.0, "listed": 0.0, "body": 0.0}
    return ReviewValue(episode="e", fork=0, policy="p", before="b", after="a", reward=Reward(reward, terms), **counts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rollouts", "advice"),
    [(0, "none of 16 reviews changed the library"), (4, "more reviews of a task, env.group_size above 4, or more")],
)
def test_reviews_that_are_all_worth_the_same_get_advice_for_reviews(rollouts: int, advice: str) -> None:
    said: list[str] = []
    tally = Tally()
    watch = Watch(load_env_config(["configs/env/reviews.yaml"]), tally, said.append)
    tally.judged = watch.judged
    for _ in range(FIRST):
        tally.reviews += [value(0.0, rollouts)] * 2
        tally.judge(Rated("reviews", (0.0, 0.0), refused="equal rewards"))
    (line,) = said
    assert "(reviews: 0 of 8); mean value of a review" in line
    assert advice in line
    assert "env.reviews.followups" in line or not rollouts


def test_groups_of_one_have_nothing_to_compare() -> None:
    assert said_of(*[played(n, 0.0) for n in range(20)], config=[*CONFIG, "env.group_size=1"]) == []


def test_groups_that_are_not_whole_do_not_count() -> None:
    broken = [played(n, 0.0, None) for n in range(20)]
    assert said_of(*broken) == []
    assert len(said_of(*broken, *[played(100 + n, 1.0, 1.0) for n in range(FIRST)])) == 1


def test_the_shipped_environment_has_a_signal_in_its_configuration() -> None:
    config = load_env_config([str(Path("configs/env/atropos.yaml"))])
    assert config.env.knowledge == "mixed"
    assert config.reward.weights == {"recovered": 1.0}
