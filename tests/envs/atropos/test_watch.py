"""An environment warns after its first groups, once, if too few are usable, and says what to change."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from fakes.episodes import BRANCH, rollout

from hermes_lab.envs.atropos.config import load_env_config
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.envs.atropos.watch import LOOKS, MOST, NONE, Watch
from hermes_lab.envs.learning.worth import ReviewValue
from hermes_lab.envs.refusals import NO_REWARD
from hermes_lab.envs.signal import Rated, rate_rollouts
from hermes_lab.types import Episode, Reward, TaskInfo

CONFIG = ["configs/env/atropos.yaml", "env.group_size=2", "env.knowledge=none", "reward={score: 1, recovered: 0}"]


def played(task: int, *rewards: float | None) -> list[Episode]:
    known = {"task_id": f"t{task}", "task": TaskInfo("d", "train", triggers=("a:b",))}
    return [rollout(n, reward, BRANCH, success=reward == 1.0, **known) for n, reward in enumerate(rewards)]


FIRST = LOOKS[0]


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


def value(reward: float, rollouts: int, ended: str = "answered") -> ReviewValue:
    counts = {"rollouts": rollouts, "solved_before": 0, "solved_after": 0, "listed": 0.0, "body": 0.0}
    terms = {"with": reward, "without": 0.0, "listed": 0.0, "body": 0.0}
    known = {"episode": "e", "fork": 0, "policy": "p", "before": "b", "after": "a", "ended": ended}
    return ReviewValue(reward=Reward(reward, terms), **counts, **known)  # type: ignore[arg-type]


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


@pytest.mark.parametrize(
    ("ended", "said", "advice"),
    [
        ("length", "15 cut at the token limit", "most reviews are cut: model.sampling.max_tokens above 192"),
        (
            "unparsed",
            "15 with a call in an unknown format",
            "most reviews are calls in a format that is not read: agent",
        ),
    ],
)
def test_reviews_that_are_worth_nothing_because_their_last_reply_is_broken_are_counted(
    ended: str, said: str, advice: str
) -> None:
    lines: list[str] = []
    tally = Tally()
    watch = Watch(load_env_config(["configs/env/reviews.yaml"]), tally, lines.append)
    tally.judged = watch.judged
    for number in range(FIRST):
        tally.reviews += [value(0.0, 0, ended), value(0.0, 0, ended if number else "answered")]
        tally.judge(Rated("reviews", (0.0, 0.0), refused="equal rewards"))
    (line,) = lines
    assert f"0 of 16 reviews changed the library, {said}" in line
    assert f"Try: (1) {advice}" in line


def test_groups_of_one_have_nothing_to_compare() -> None:
    assert said_of(*[played(n, 0.0) for n in range(20)], config=[*CONFIG, "env.group_size=1"]) == []


def test_groups_that_are_not_whole_do_not_count() -> None:
    broken = [played(n, 0.0, None) for n in range(NONE - FIRST)]
    assert said_of(*broken) == []
    (line,) = said_of(*broken, *[played(100 + n, 1.0, 1.0) for n in range(FIRST)])
    assert "0/8 (0-32 %) of the first groups" in line


def test_it_warns_where_no_group_is_whole() -> None:
    """Otherwise the trainer waits for ever, and nothing is said."""
    broken = [played(n, 0.0, None) for n in range(2 * NONE)]
    assert said_of(*broken[: NONE - 1]) == []
    (line,) = said_of(*broken)
    assert line.startswith(f"warning: none of the first {NONE} groups was sent: no reward {NONE}; ")
    assert line.endswith("Try: (1) nothing judged the rollouts: see their errors with `hermes-lab show`")


def test_one_group_that_was_sent_is_enough_not_to_say_that_none_was() -> None:
    assert said_of(played(0, 0.0, 1.0), *[played(1 + n, 0.0, None) for n in range(2 * NONE)]) == []


def test_a_share_that_few_groups_do_not_show_is_shown_by_more() -> None:
    """A quarter of the groups is usable: 2 of 8 might be half of them, 4 of 16 are fewer."""
    quarter = [played(n, 0.0, float(n % 4 == 0)) for n in range(2 * LOOKS[-1])]
    (line,) = said_of(*quarter)
    assert "4/16 (10-49 %) of the first groups can be trained on" in line


@pytest.mark.parametrize("refused", ["", NO_REWARD])
def test_it_does_not_follow_an_environment_for_ever(refused: str) -> None:
    said: list[str] = []
    watch = Watch(load_env_config(CONFIG), Tally(), said.append)
    group = played(0, 0.0, 1.0)
    for number in range(2 * MOST):
        for episode in group:
            watch.saw(episode)
        watch.judged(rate_rollouts(group, refused if number else ""))
    assert (said, watch._seen, watch._groups) == ([], [], [])


def followed(number: int, reward: float) -> list[Episode]:
    return [rollout(n, reward, BRANCH, success=reward == 1.0, phase="heldout", task_id=f"f{number}") for n in range(2)]


def test_reviews_and_follow_ups_are_judged_and_advised_apart() -> None:
    """All reviews differ, and no follow-up does."""
    said: list[str] = []
    sources = ["configs/env/reviews.yaml", "env.objective=both", "env.group_size=2", "env.reviews.repeats=2"]
    tally = Tally()
    watch = Watch(load_env_config(sources), tally, said.append)
    tally.judged = watch.judged
    for number in range(FIRST):
        tally.reviews += [value(0.0, 0), value(1.0, 4)]
        tally.judge(Rated("reviews", (0.0, 1.0)))
        episodes = followed(number, 0.0)
        for episode in episodes:
            watch.saw(episode)
        tally.judge(rate_rollouts(episodes, "equal rewards"))
    (line,) = said
    assert "0/8 (0-32 %) of the first groups" in line
    assert "(follow-ups: 0 of 8); 0 of 16 rollouts solved" in line
    assert "reviews" not in line.partition("Try: ")[2]


def test_the_shipped_environment_has_a_signal_in_its_configuration() -> None:
    config = load_env_config([str(Path("configs/env/atropos.yaml"))])
    assert config.env.knowledge == "mixed"
    assert config.reward.weights == {"recovered": 1.0}
