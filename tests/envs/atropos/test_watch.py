"""An environment says after its first groups that it will starve its trainer, once, and what to change."""

from pathlib import Path

from fakes.episodes import BRANCH, rollout

from hermes_lab.envs.atropos.config import load_env_config
from hermes_lab.envs.atropos.watch import FIRST, Watch
from hermes_lab.types import Episode, TaskInfo

CONFIG = ["configs/env/atropos.yaml", "env.group_size=2", "env.knowledge=none", "reward={score: 1, recovered: 0}"]


def played(task: int, *rewards: float | None) -> list[Episode]:
    known = {"task_id": f"t{task}", "task": TaskInfo("d", "train", triggers=("a:b",))}
    return [rollout(n, reward, BRANCH, success=reward == 1.0, **known) for n, reward in enumerate(rewards)]


def said_of(*groups: list[Episode]) -> list[str]:
    said: list[str] = []
    watch = Watch(load_env_config(CONFIG), said.append)
    for group in groups:
        for episode in group:
            watch.saw(episode)
    return said


def test_it_warns_after_the_first_groups_and_only_once() -> None:
    dull = [played(n, 0.0, 0.0) for n in range(2 * FIRST)]
    assert said_of(*dull[: FIRST - 1]) == []
    (line,) = said_of(*dull)
    assert line.startswith(
        "warning: this environment will starve its trainer: 0/8 (0-32 %) of its first groups have rewards that differ "
        "(8 failed throughout), and no other group teaches anything (a hidden rule: 0 of 8); 0 of 16 rollouts solved"
    )
    assert "skills that state hidden rules: env.knowledge=mixed (16 of 16 rollouts" in line
    assert "\n" not in line


def test_it_is_silent_where_enough_groups_differ() -> None:
    assert said_of(*[played(n, 0.0, float(n % 2)) for n in range(20)]) == []


def test_groups_of_one_have_nothing_to_compare() -> None:
    said: list[str] = []
    watch = Watch(load_env_config([*CONFIG, "env.group_size=1"]), said.append)
    for n in range(20):
        watch.saw(played(n, 0.0)[0])
    assert said == []


def test_groups_that_are_not_whole_do_not_count() -> None:
    broken = [played(n, 0.0, None) for n in range(20)]
    assert said_of(*broken) == []
    assert len(said_of(*broken, *[played(100 + n, 1.0, 1.0) for n in range(FIRST)])) == 1


def test_the_shipped_environment_has_a_signal_in_its_configuration() -> None:
    config = load_env_config([str(Path("configs/env/atropos.yaml"))])
    assert config.env.knowledge == "mixed"
    assert config.reward.weights == {"recovered": 1.0}
