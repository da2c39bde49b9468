"""`env.knowledge`: the skills of a task are those that a lane could have, and the same wherever it is played."""

from collections import Counter
from pathlib import Path

import pytest
from fakes.openai_server import FakeOpenAIServer
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.config.digest import config_digest
from hermes_lab.config.schema import EnvironmentConfig, RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.envs.atropos.config import load_env_config
from hermes_lab.envs.groups import build_groups, read_groups, write_groups
from hermes_lab.envs.gym import HermesLabEnv
from hermes_lab.envs.knowledge import KINDS, TaskKnowledge
from hermes_lab.envs.rollouts import open_rollouts
from hermes_lab.envs.trl import environment_rows, make_environment, make_rollout_func
from hermes_lab.errors import ConfigError
from hermes_lab.knowledge import Knowledge
from hermes_lab.runners.plans import plan_of
from hermes_lab.tasks import load_suite
from hermes_lab.types import Task

MODES = ("oracle", "lane", "mixed")


def config_of(mode: str, *overrides: str) -> RunConfig:
    return load_config(["suite.name=ledger", f"env.knowledge={mode}", *overrides])


def knowledge_of(config: RunConfig) -> TaskKnowledge:
    return TaskKnowledge(config, load_suite(config.suite))


def kind(known: Knowledge) -> str:
    return known.label.partition(",")[0]


def tasks(config: RunConfig, count: int, *, seed: int = 0, world: int = 0) -> list[Task]:
    return load_suite(config.suite).load(split="train", count=count, seed=seed, world=world)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), world=st.integers(0, 40), mode=st.sampled_from(MODES))
def test_a_task_has_the_same_skills_however_it_is_loaded(seed: int, world: int, mode: str) -> None:
    config = config_of(mode)
    (alone,) = tasks(config, 1, seed=seed, world=world)
    first, *_ = tasks(config, 3, seed=seed, world=world)
    known, again = knowledge_of(config).of(alone), knowledge_of(config).of(first)
    assert (known.library.snapshot, known.label) == (again.library.snapshot, again.label)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), world=st.integers(0, 40), family=st.sampled_from(["ledger", "code_debugging"]))
def test_a_lane_knows_some_true_rules_and_distractors_say_nothing_about_this_world(
    seed: int, world: int, family: str
) -> None:
    config = config_of("mixed", f"suite.name={family}")
    suite = load_suite(config.suite)
    (task,) = tasks(config, 1, seed=seed, world=world)
    known = suite.known_skills(split="train", world=world).skills  # type: ignore[attr-defined]
    given = TaskKnowledge(config, suite).of(task)
    if kind(given) == "none":
        assert given.library.skills == {}
    if kind(given) == "oracle":
        assert given.library.skills == known
    for name, skill in given.library.skills.items():
        claims = suite.stated_rules(skill, split="train", world=world)  # type: ignore[attr-defined]
        if name in known:
            assert skill == known[name]
            assert "" not in claims
        else:
            assert (kind(given), claims) == ("distractors", ())


def test_the_label_counts_the_rules_of_the_task_that_the_skills_state() -> None:
    config = config_of("oracle", "suite.options.pieces=3", "suite.options.plain=1")
    for task in tasks(config, 8):
        assert (
            knowledge_of(config).of(task).label == f"oracle, {len(task.triggers)} of {len(task.triggers)} rules known"
        )
    config = config_of("lane", "suite.options.pieces=3", "suite.options.plain=1")
    suite = load_suite(config.suite)
    for task in tasks(config, 8):
        known = knowledge_of(config).of(task)
        stated = {
            rule
            for skill in known.library.skills.values()
            for rule in suite.stated_rules(skill, split="train", world=0)  # type: ignore[attr-defined]
        }
        assert known.label == f"lane, {len(stated & set(task.triggers))} of {len(task.triggers)} rules known"
    plain = config_of("oracle", "suite.options.ruled=0")
    assert {knowledge_of(plain).of(task).label for task in tasks(plain, 4)} == {"oracle, no rule"}


def test_a_rule_from_after_a_drift_is_not_known() -> None:
    config = config_of("oracle", "suite.options.drift_at=2", "suite.options.plain=0")
    labels = [knowledge_of(config).of(task).label for task in tasks(config, 4)]
    assert labels == [*["oracle, 1 of 1 rules known"] * 2, *["oracle, 0 of 1 rules known"] * 2]


def test_mixed_has_four_kinds_in_equal_parts_and_lanes_of_every_age() -> None:
    config = config_of("mixed", "suite.options.plain=0")
    chosen = knowledge_of(config)
    known = [chosen.of(task) for world in range(20) for task in tasks(config, 20, world=world)]
    counts = Counter(map(kind, known))
    assert counts.keys() == set(KINDS)
    assert all(70 < count < 130 for count in counts.values()), counts
    lanes = Counter(len(each.library.skills) for each in known if kind(each) == "lane")
    assert lanes.keys() == set(range(6)), lanes  # 0 to all 5 rules
    named = Counter(each.label for each in known if kind(each) in ("lane", "distractors"))
    assert min(named.values()) > 20, named  # the own rule is known in many groups, and unknown in many
    assert all(len(each.library.skills) >= 4 for each in known if kind(each) == "distractors")


def test_none_leaves_the_given_library() -> None:
    config = config_of("none")
    library = load_suite(config.suite).known_skills(split="train", world=3)  # type: ignore[attr-defined]
    (task,) = tasks(config, 1)
    assert TaskKnowledge(config, load_suite(config.suite), library).of(task) == Knowledge(library)


@pytest.mark.parametrize("mode", MODES)
def test_a_library_besides_a_mode_is_refused(mode: str, tmp_path: Path) -> None:
    config = config_of(mode)
    library = load_suite(config.suite).known_skills(split="train", world=3)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=f"env.knowledge: `{mode}` decides"):
        TaskKnowledge(config, load_suite(config.suite), library)
    with pytest.raises(ConfigError, match=f"env.knowledge: `{mode}` decides"):
        make_rollout_func(config, tmp_path, library=library)
    with pytest.raises(
        ConfigError, match=r"env.knowledge: `\w+` decides which skills a rollout has; remove skills.lib"
    ):
        config_of(mode, f"skills.library={tmp_path}")


def test_a_suite_without_rules_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "Say hello."}\n')
    config = load_config([f"suite.path={tmp_path / 'rows.jsonl'}", "env.knowledge=lane"])
    with pytest.raises(ConfigError, match=r"env.knowledge: .* has no hidden rules"):
        TaskKnowledge(config, load_suite(config.suite))


def test_an_agent_that_cannot_read_a_skill_is_refused() -> None:
    blind = config_of("mixed", "agent.toolsets=[terminal]")
    with pytest.raises(ConfigError, match=r"env.knowledge: `mixed` gives skills that no tool .* add skill_view"):
        knowledge_of(blind)
    knowledge_of(config_of("none", "agent.toolsets=[terminal]"))


@pytest.mark.parametrize(("command", "field"), [("run", "skills.library"), ("learn", "learning.arms")])
def test_runs_and_experiments_refuse_a_mode_and_name_their_own_field(command: str, field: str, tmp_path: Path) -> None:
    sources = ["suite.name=ledger", "suite.count=1", "env.knowledge=mixed"]
    with pytest.raises(ConfigError, match=f"env.knowledge: `mixed` is for environments .* none, and use {field}"):
        plan_of(command, sources, tmp_path)  # type: ignore[arg-type]


def test_older_digests_stay_and_another_mode_is_another_configuration() -> None:
    before = RunConfig().model_dump(mode="json")
    assert config_digest(RunConfig(env=EnvironmentConfig(knowledge="none"))) == config_digest(RunConfig())
    assert before["env"] == {"knowledge": "none"}
    digests = {config_digest(config_of(mode)) for mode in ("none", *MODES)}
    assert len(digests) == 4


def test_an_atropos_environment_hands_the_mode_to_its_rollouts() -> None:
    config = load_env_config(["suite.name=ledger", "env.knowledge=lane", "env.group_size=8"])
    assert type(config.rollouts.env) is EnvironmentConfig
    assert config_digest(config.rollouts) == config_digest(config_of("lane"))
    assert config_digest(load_env_config(["suite.name=ledger"]).rollouts) == config_digest(config_of("none"))


async def test_a_group_has_one_library_and_its_record_says_what_it_knows(tmp_path: Path) -> None:
    async with FakeOpenAIServer(["I do not know."], models=["packaged"]) as server:
        config = config_of(
            "mixed", "agent.tool_format=hermes", f"model.base_url={server.base_url}", "model.token_ids=true"
        )
        async with open_rollouts(config, log=tmp_path / "log", say=print) as rollouts:
            drawn = rollouts.tasks(split="train", count=6, seed=1, world=2)
            episodes = [episode for task in drawn for episode in await rollouts.group(task, 2)]
    groups = list(build_groups(episodes))
    known = [knowledge_of(config).of(task) for task in drawn]
    assert [(group.snapshot, group.knowledge) for group in groups] == [
        (each.library.snapshot, each.label) for each in known
    ]
    assert len({group.snapshot for group in groups}) > 2
    listed = [set(episode.skills.listed) for episode in episodes[::2]]
    assert listed == [set(each.library.skills) for each in known]
    write_groups(groups, tmp_path / "groups.jsonl")
    assert read_groups(tmp_path / "groups.jsonl") == groups


def test_groups_from_before_the_field_are_read() -> None:
    assert {group.knowledge for group in read_groups(Path("tests/golden/groups-v1.jsonl"))} == {""}


def test_gymnasium_gives_the_skills_of_the_task() -> None:
    env = HermesLabEnv("ledger", config=["env.knowledge=oracle"])
    observation, info = env.reset(seed=3)
    again = env.reset(seed=3)
    env.close()
    assert again == (observation, info)
    known = load_suite(env.config.suite).known_skills(split="train", world=0)  # type: ignore[attr-defined]
    assert info["knowledge"].startswith("oracle, ")
    assert all(name in observation["conversation"] for name in known.skills)


def test_trl_rows_and_environments_list_the_skills_of_each_task() -> None:
    config = config_of("mixed", "suite.count=4", "agent.toolsets=[terminal, skills]")
    drawn = tasks(config, 4)
    known = {task.id: knowledge_of(config).of(task).library for task in drawn}
    assert len({library.snapshot for library in known.values()}) > 1
    for row in environment_rows(config):
        prompt = row["prompt"][0]["content"]
        assert all(name in prompt for name in known[row["task_id"]].skills)
        assert known[row["task_id"]].skills or not any(
            f'- "{name}"' in prompt for library in known.values() for name in library.skills
        )
    environment = make_environment(config)()
    task_id, library = next((task_id, each) for task_id, each in known.items() if each.skills)
    environment.reset(task_id=task_id)
    assert next(iter(library.skills)) in environment.skill_view(name=next(iter(library.skills)))
    environment.get_reward()
    assert environment._episode.skills.snapshot == library.snapshot
