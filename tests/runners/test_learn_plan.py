"""What `learn` plans: the lanes of an experiment, their tasks in their order, and what is held out."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes.adapters import write_lora

from hermes_lab.analysis.fitting.identification import MIN_EPISODES
from hermes_lab.analysis.stats.power import Lanes, power_of_pairs
from hermes_lab.config.schema import RunConfig, SuiteConfig
from hermes_lab.errors import ConfigError
from hermes_lab.lane import lane_key
from hermes_lab.protocols import Suite, Workspace
from hermes_lab.runners.engine.budget import Budget
from hermes_lab.runners.engine.plan import Lane, tasks_digest
from hermes_lab.runners.engine.weights import weights_digest
from hermes_lab.runners.experiments.experiment import plan_learn
from hermes_lab.runners.experiments.experiment_plan import CURVE_EPISODES, plan_experiment
from hermes_lab.skills.library import Library
from hermes_lab.tasks import load_suite
from hermes_lab.tasks.jsonl import JsonlSuite
from hermes_lab.tasks.subtasks import Subtask
from hermes_lab.tasks_version import CURRENT, other_versions, tasks_version
from hermes_lab.types import Task, Verdict


def configured(learning: dict[str, Any], **sections: Any) -> RunConfig:
    return RunConfig.model_validate({"suite": {"name": "ledger"}, "learning": learning} | sections)


def planned(learning: dict[str, Any], given: Suite | None = None, **sections: Any) -> list[Lane]:
    config = configured(learning, **sections)
    return plan_learn(config, given or load_suite(config.suite), Library())


def ids(rounds: Sequence[Sequence[Task]]) -> list[str]:
    return [task.id for tasks in rounds for task in tasks]


BIG = {
    "arms": ["off", "on", "placebo", "oracle"],
    "replicates": 3,
    "worlds": 2,
    "blocks": 2,
    "rounds": 6,
    "round_size": 2,
    "heldout": {"tasks": 3, "every": 2},
}


@pytest.mark.parametrize("order", ["drawn", "random", "latin"])
def test_all_arms_of_a_replicate_and_world_get_the_same_jobs(order: str) -> None:
    by_place = defaultdict(list)
    for lane in planned(BIG | {"order": order}):
        place = lane_key(lane.name)
        jobs = [
            (job.task.id, job.round, job.experience, job.place, job.phase, job.block)
            for step in lane.steps
            for job in lane.jobs(step)
        ]
        assert len(jobs) == len(set(jobs)) == lane.wanted
        by_place[place.replicate, place.world].append(jobs)
    assert len(by_place) == 6
    assert all(len(arms) == 4 and all(jobs == arms[0] for jobs in arms) for arms in by_place.values())


@pytest.mark.parametrize("order", ["random", "latin"])
def test_replicates_share_their_tasks_each_in_its_own_order(order: str) -> None:
    lanes = planned({"arms": ["on"], "replicates": 4, "rounds": 8, "heldout": {"tasks": 2}, "order": order})
    orders = [ids(lane.rounds) for lane in lanes]
    assert len({tuple(each) for each in orders}) == 4
    assert len({frozenset(each) for each in orders}) == 1
    assert len({tuple(ids(lane.heldout)) for lane in lanes}) == 1


def test_in_the_order_drawn_replicates_have_tasks_of_their_own() -> None:
    first, second = planned({"arms": ["on"], "replicates": 2, "rounds": 8, "heldout": {"tasks": 2}})
    assert not {*ids(first.rounds), *ids(first.heldout)} & {*ids(second.rounds), *ids(second.heldout)}


def test_a_suites_tasks_keep_their_places_where_some_more_are_held_out() -> None:
    plain, measured = (planned({"rounds": 5, "heldout": {"tasks": held}})[0] for held in (0, 4))
    assert ids(plain.rounds) == ids(measured.rounds)
    assert (len(ids(plain.heldout)), len(ids(measured.heldout))) == (0, 4)
    assert tasks_digest([plain]) != tasks_digest([measured])


def test_nothing_that_is_held_out_is_learnt_from_in_a_file_of_tasks(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(f'{{"prompt": "Task {n}."}}\n' for n in range(10)))
    suite, shape = JsonlSuite(file), {"replicates": 5, "rounds": 6, "heldout": {"tasks": 4}}
    for order in ("drawn", "random", "latin"):
        for lane in planned(shape | {"order": order}, suite):
            assert Counter(ids(lane.rounds) + ids(lane.heldout)) == Counter(f"row-{n:06d}" for n in range(1, 11))
    with pytest.raises(ConfigError, match=r"^learning: 7 training tasks and 4 held-out"):
        planned(shape | {"rounds": 7}, suite)


def test_checks_come_before_the_first_round_every_so_often_and_after_the_last() -> None:
    shape = {"rounds": 7, "heldout": {"tasks": 2, "every": 3}}
    lane = planned(shape)[1]
    measured = {step: [job for job in lane.jobs(step) if job.phase == "heldout"] for step in lane.steps}
    assert [step for step, jobs in measured.items() if jobs] == [0, 3, 6, 7]
    assert [(job.experience, job.place, job.review) for job in measured[3]] == [(3, 0, "never"), (3, 1, "never")]
    assert {job.review for job in lane.training_jobs(3)} == {"due"}
    assert [job.experience for job in measured[7]] == [7, 7]
    assert planned(shape | {"heldout": {"tasks": 2}})[0].checks == {0, 7}
    assert lane.wanted == 7 + 4 * 2


def test_a_lane_goes_through_its_worlds_in_blocks_and_every_check_measures_all_of_them() -> None:
    lanes = planned({"arms": ["on"], "worlds": 2, "blocks": 3, "rounds": 6, "heldout": {"tasks": 2}})
    for number, lane in enumerate(lanes):
        lessons = [job for step in lane.steps for job in lane.training_jobs(step)]
        assert [job.block for job in lessons] == [0, 0, 1, 1, 2, 2]
        assert [job.task.world for job in lessons] == [3 * number + block for block in (0, 0, 1, 1, 2, 2)]
        last = list(lane.eval_jobs(6))
        assert [(job.block, job.task.world - 3 * number) for job in last] == [(b, b) for b in (0, 0, 1, 1, 2, 2)]


def test_the_worlds_of_a_plan_begin_where_the_suite_says() -> None:
    shape = {"arms": ["oracle"], "worlds": 2, "blocks": 2, "rounds": 4}
    config = configured(shape, suite={"name": "ledger", "world": 100})
    suite = load_suite(config.suite)
    lanes = plan_learn(config, suite, Library())
    assert [lane.name for lane in lanes] == ["oracle-r0-w0", "oracle-r0-w1"]
    assert [[task.world for tasks in lane.rounds for task in tasks] for lane in lanes] == [
        [100, 100, 101, 101],
        [102, 102, 103, 103],
    ]
    assert suite.known_skills(split="train", world=103).skills.keys() <= lanes[1].known[1].skills.keys()
    assert ids(lanes[0].rounds) != ids(planned(shape)[0].rounds)


@pytest.mark.parametrize("every", [0, 3, 4])
def test_every_border_of_blocks_has_a_check(every: int) -> None:
    shape = {"arms": ["on"], "blocks": 2, "rounds": 8, "heldout": {"tasks": 1, "every": every}}
    (lane,) = planned(shape)
    assert lane.checks == {0, 4, 8} | set(range(0, 8, every or 8))
    assert lane.wanted == 8 + len(lane.checks) * 2
    assert not planned(shape | {"heldout": {"tasks": 0}})[0].checks
    assert planned(shape | {"blocks": 1})[0].checks == {0, 8} | set(range(0, 8, every or 8))


def test_blocks_are_in_every_place_equally_often() -> None:
    lanes = planned({"arms": ["on"], "replicates": 4, "blocks": 2, "rounds": 4, "order": "latin"})
    first = Counter(lane.rounds[0][0].world for lane in lanes)
    assert first == {0: 2, 1: 2}


def test_an_oracle_knows_all_its_worlds_and_the_one_that_it_is_in_first() -> None:
    suite = load_suite(SuiteConfig(name="ledger"))
    lane = planned({"arms": ["oracle"], "worlds": 1, "blocks": 4, "rounds": 4}, suite)[0]
    own = [suite.known_skills(split="train", world=world) for world in range(4)]
    assert set(own[0].skills) & set(own[3].skills), "or the worlds do not contradict each other"
    for block, known in enumerate(lane.known):
        assert set(known.skills) == {name for library in own for name in library.skills}
        assert {name: known.skills[name] for name in own[block].skills} == dict(own[block].skills)


def test_weights_are_a_factor() -> None:
    lanes = planned({"arms": ["off", "on"], "replicates": 2, "adapters": ["", "tuned"]}, model={"name": "fake"})
    assert [(lane.name, lane.weights) for lane in lanes[:4]] == [
        ("off-r0-w0-a0", 0),
        ("off-r0-w0-a1", 1),
        ("on-r0-w0-a0", 0),
        ("on-r0-w0-a1", 1),
    ]
    assert len({tuple(ids(lane.rounds)) for lane in lanes[:4]}) == 1
    (only,) = {lane.name for lane in planned({"arms": ["on"], "adapters": ["tuned"]}, model={"name": "fake"})}
    assert only == "on-r0-w0"


def test_the_digest_of_the_weights_is_of_all_of_them(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_lora(tmp_path / name, name)
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    found = [weights_digest(each) for each in ([one], [two], ["", one], ["", two], [one, two], [one, ""])]
    assert len(set(found)) == len(found)
    assert weights_digest([""]) == weights_digest(["", "served-somewhere"]) == ""


class Counting:
    """A suite that counts how often it was asked for tasks."""

    name = "counting"
    splits = ("train",)

    def __init__(self) -> None:
        self.loads: list[tuple[int, int]] = []

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        self.loads.append((seed, world))
        return [Task(id=f"{seed}-{world}-{n}", suite=self.name, prompt="Go.", world=world) for n in range(count)]

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict | None:
        return None


@pytest.mark.parametrize(("order", "loads"), [("drawn", 3 * 4), ("latin", 4), ("random", 4)])
def test_a_suite_makes_the_tasks_of_a_world_once(order: str, loads: int) -> None:
    suite = Counting()
    lanes = planned({"arms": ["off", "on"], "replicates": 3, "worlds": 4, "rounds": 2, "order": order}, suite)
    assert len(lanes) == 24
    assert len(suite.loads) == len(set(suite.loads)) == loads


@pytest.mark.parametrize(
    ("learning", "sections", "message"),
    [
        ({"rounds": 10, "blocks": 3}, {}, "learning.rounds: 10 rounds cannot be divided into 3 blocks"),
        ({"adapters": ["", "a"]}, {"model": {"provider": "scripted"}}, "learning.adapters: provider `scripted` has no"),
        ({"adapters": ["a"]}, {"model": {"provider": "replay"}}, "learning.adapters: provider `replay` has no weights"),
        ({"adapters": ["a"]}, {"model": {"adapter": "b"}}, "model.adapter: set either model.adapter or learning"),
        (
            {"adapters": ["", "a"]},
            {"model": {"provider": "vllm", "merge": True}},
            "model.merge: a server holds",
        ),
        (
            {"order": "latin", "rounds": 4},
            {"suite": {"name": "ledger", "options": {"drift_at": 2}}},
            "learning.order: ledger drifts at a given task",
        ),
    ],
)
def test_what_is_no_experiment_is_one_clear_line(
    learning: dict[str, Any], sections: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        planned(learning, **sections)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_a_suite_without_worlds_has_no_blocks(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(f'{{"prompt": "Task {n}."}}\n' for n in range(10)))
    for shape in ({"worlds": 2}, {"blocks": 2}):
        with pytest.raises(ConfigError, match="all worlds of tasks have the same tasks"):
            planned(shape | {"rounds": 4}, JsonlSuite(file))


@pytest.mark.parametrize(
    ("learning", "message"),
    [
        ({"adapters": ["a", "a"]}, "an adapter is listed twice"),
        ({"heldout": {"every": 3}}, "`tasks: 0` leaves nothing to measure, so `every: 3` has no effect"),
        ({"expect": {"baseline": 0.9, "effect": 0.2}}, r"baseline \+ effect is 1.1; it must be above 0 and below 1"),
    ],
)
def test_fields_that_mean_nothing_are_refused(learning: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        configured(learning)


def test_the_briefing_tells_size_power_and_lanes() -> None:
    config = configured({**BIG, "order": "latin", "expect": {"baseline": 0.6, "effect": 0.16}}, budget={"tasks": 500})
    lanes = plan_learn(config, load_suite(config.suite), Library())
    told = plan_experiment(config, lanes, Budget(config.budget), finished=7)
    # 12 tasks and 5 checks of 2 x 3 held-out ones a lane: every 2 rounds, and at the border of the blocks.
    assert (told.lanes, told.lanes_per_arm, told.episodes) == (24, 6, 24 * (12 + 5 * 6))
    assert [(power.of, power.pairs, power.tasks, power.lanes, power.worlds) for power in told.power] == [
        ("over all rounds", 6 * 12, 2 * 12, 6, 2),
        ("after learning", 6 * 6, 2 * 6, 6, 2),
    ]
    lines = list(told.lines())
    assert lines[0] == "plan: 4 arms (off, on, placebo, oracle) x 3 replicates x 2 worlds of 2 blocks = 24 lanes"
    assert "held out: 6 tasks, before round 0, 2, 3, 4 and after the last" in lines
    assert "in all: 1,008 episodes, 7 of them finished" in lines
    assert any(" detect +16 points (60 % -> 76 %) with power" in line for line in lines)
    assert any(line.startswith("curve: 6 lanes of ") and "not identified" in line for line in lines)
    assert lines[-1] == "budget used: 0 of 500 tasks"


def test_the_briefing_says_that_too_few_episodes_are_never_fitted() -> None:
    assert CURVE_EPISODES == MIN_EPISODES

    def curve(rounds: int, worlds: int = 3) -> str:
        shape = {"worlds": worlds, "rounds": rounds, "heldout": {"tasks": 0, "every": 0}}
        config = configured({"arms": ["off", "on"], **shape})
        told = plan_experiment(
            config, plan_learn(config, load_suite(config.suite), Library()), Budget(config.budget), finished=0
        )
        return next(line for line in told.lines() if line.startswith("curve: "))

    assert curve(16) == (
        "curve: 3 lanes of 16 tasks per arm; a fit needs 50 episodes per arm and has 48, so no curve will be fitted: "
        "add worlds or rounds"
    )
    usually = "probably not identified: that usually takes 40 lanes of 24 tasks"
    assert curve(17) == f"curve: 3 lanes of 17 tasks per arm; {usually}"
    assert curve(24, worlds=40) == "curve: 40 lanes of 24 tasks per arm, which is usually enough"
    assert curve(23, worlds=40).endswith(usually)


def test_tasks_that_replicates_share_count_once_and_worlds_are_the_units() -> None:
    def told(order: str, replicates: int, worlds: int) -> tuple[float, str]:
        shape = {"replicates": replicates, "worlds": worlds, "rounds": 4, "order": order}
        config = configured({"arms": ["off", "on"], "expect": {"baseline": 0.4, "effect": 0.3}, **shape})
        lanes = plan_learn(config, load_suite(config.suite), Library())
        (power,) = plan_experiment(config, lanes, Budget(), finished=0).power
        return power.power, power.sentence

    assert told("drawn", 4, 5) == (power_of_pairs(80, 0.4, 0.3, lanes=Lanes(20)), told("drawn", 4, 5)[1])
    value, sentence = told("latin", 4, 5)
    assert value == power_of_pairs(20, 0.4, 0.3)
    assert sentence.endswith("; 80 pairs, but replicates share tasks, so each of 20 tasks counts once")
    value, sentence = told("drawn", 2, 10)
    assert value == power_of_pairs(80, 0.4, 0.3, lanes=Lanes(10))
    assert sentence.startswith("80 pairs in 10 worlds detect")


def test_one_arm_alone_has_no_power() -> None:
    config = configured({"arms": ["on"], "replicates": 40, "rounds": 24})
    told = plan_experiment(config, plan_learn(config, load_suite(config.suite), Library()), Budget(), finished=0)
    assert told.power == ()
    assert "not identified" not in "".join(told.lines())


@pytest.mark.parametrize(
    ("earlier", "now", "other"),
    [
        ("ab", "cd", None),  # tasks of a file have no version
        ("3:ab", "3:cd", None),
        ("2:ab", "3:cd", ("2", "3")),
        ("ab", "3:cd", ("1", "3")),
        ("", "3:cd", None),  # turns of chats have no tasks
    ],
)
def test_the_version_of_the_tasks_is_told_by_their_digest(
    earlier: str, now: str, other: tuple[str, str] | None
) -> None:
    assert other_versions(earlier, now) == other


def test_the_digest_of_tasks_does_not_depend_on_the_names_of_our_classes() -> None:
    lanes = plan_learn(configured({"rounds": 1, "worlds": 1}), load_suite(SuiteConfig(name="ledger")), Library())
    before = tasks_digest(lanes)
    assert tasks_version(before) == str(CURRENT)
    name, Subtask.__qualname__ = Subtask.__qualname__, "Piece"
    try:
        assert tasks_digest(lanes) == before
    finally:
        Subtask.__qualname__ = name


@pytest.mark.parametrize(
    ("learning", "every", "words"),
    [
        (
            {"rounds": 10},
            10,
            "9 tasks before its last use of skills, so an agent with one iteration per task",
        ),
        ({"rounds": 10, "heldout": {"tasks": 2}}, 10, ""),
        ({"rounds": 5, "round_size": 3}, 12, ""),
        ({"rounds": 4}, 1000, "with 270 iterations at most, so it is never reached"),
        ({"rounds": 1, "round_size": 20}, 0, "nothing that `on` learns is ever used: there is one round"),
        ({"rounds": 1, "heldout": {"tasks": 2}}, 0, ""),
        ({"rounds": 4, "arms": ["off", "oracle"]}, 1000, ""),
    ],
)
def test_a_plan_in_which_nothing_may_be_learned_is_told(learning: dict[str, Any], every: int, words: str) -> None:
    config = configured(learning, skills={"review_every": every})
    plan = plan_experiment(config, plan_learn(config, load_suite(config.suite), Library()), Budget(), 0)
    assert [words in warning for warning in plan.warnings] == [True] * bool(words), plan.warnings
    assert [line for line in plan.lines() if line.startswith("warning: ")] == [f"warning: {w}" for w in plan.warnings]
