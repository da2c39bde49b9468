"""What the knobs of a world do, each seen in its tasks; and what a wrong one is told."""

import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.config.schema import SuiteConfig
from hermes_lab.errors import ConfigError
from hermes_lab.tasks.admission import visible
from hermes_lab.tasks.data_analysis.ledger import FAMILY
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Criterion
from hermes_lab.tasks.feedback import write_feedback
from hermes_lab.tasks.names import NAMES
from hermes_lab.tasks.registry import domains, load_suite
from hermes_lab.tasks.subtasks import Subtask, subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import WorldSpec
from hermes_lab.types import Task


def suite(**spec: Any) -> WorldSuite:
    return WorldSuite("ledger", (FAMILY,), WorldSpec(**spec))


def load(count: int = 200, split: str = "train", world: int = 0, seed: int = 0, **spec: Any) -> list[Task]:
    return suite(**spec).load(split=split, count=count, seed=seed, world=world)


def subtask(task: Task) -> Subtask:
    return subtasks_of(task.truth)[0]


def rejected(task: Task, spec: WorldSpec, attempt: int = 1) -> str:
    """What is said where nothing but the rule was missed."""
    subtasks = subtasks_of(task.truth)
    missed = [[Criterion("correct", 0.0, "the total is not right", ruled=True)]] * len(subtasks)
    return write_feedback(subtasks, missed, spec, attempt, Draws("test"))


def ruled_task(**spec: Any) -> Task:
    return next(task for task in load(50, **spec) if task.triggers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ruled": -1}, "suite.options.ruled: give a whole number from 0, not -1"),
        ({"plain": 1.5}, "suite.options.plain: give a whole number from 0, not 1.5"),
        ({"unseen": True}, "suite.options.unseen: give a whole number from 0, not True"),
        ({"pieces": 0}, "suite.options.pieces: give a whole number from 1, not 0"),
        ({"pieces": 8}, "suite.options.pieces: 8 per task, but only 7 sites; lower it"),
        ({"frequencies": "normal"}, "suite.options.frequencies: give uniform, zipf, not 'normal'"),
        ({"exponent": 0}, "suite.options.exponent: give a number above 0 and at most 10, not 0"),
        ({"salience": "loud"}, "suite.options.salience: give told, worded, symptom, not 'loud'"),
        ({"discovery": "x"}, "suite.options.discovery: give a whole number from 0, not 'x'"),
        ({"wording": ""}, "suite.options.wording: give near, varied, far, not ''"),
        ({"drift_at": -5}, "suite.options.drift_at: give a whole number from 0, not -5"),
        ({"drift": "slow"}, "suite.options.drift: give redraw, invert, not 'slow'"),
        ({"decoy": 1}, "suite.options.decoy: give true or false, not 1"),
        ({"ruled": 0, "plain": 0}, "suite.options: a world needs at least one site; raise ruled or plain"),
        ({"ruled": 1000}, "suite.options: a world has at most"),
        ({"rules": 3}, "suite.options: ledger: .*rules"),
    ],
)
def test_a_bad_knob_is_one_clear_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_suite(SuiteConfig(name="ledger", options=options))
    assert "\n" not in str(caught.value)


def test_ruled_and_plain_are_the_places_of_a_world() -> None:
    sites = suite(ruled=3, plain=4).sites(split="train", world=1)
    assert [site.ruled for site in sites] == [True] * 3 + [False] * 4
    assert len({site.entity.name for site in sites}) == 7
    assert len({site.drawn.type for site in sites[:3]}) == 3
    seen = {subtask(task).site.entity.name for task in load(300, world=1, ruled=3, plain=4)}
    assert seen == {site.entity.name for site in sites}


def test_uniform_places_are_alike_often_and_zipf_ones_are_not() -> None:
    def counts(**spec: Any) -> list[int]:
        found = Counter(subtask(task).site.entity.name for task in load(2000, plain=2, ruled=5, **spec))
        return [found[site.entity.name] for site in suite(**spec).sites(split="train", world=0)]

    uniform, zipf = counts(), counts(frequencies="zipf")
    assert max(uniform) < 1.4 * min(uniform)
    assert zipf[0] > 1.7 * zipf[1] > 2.0 * zipf[4] > 0
    assert abs(sum(zipf[:5]) - sum(uniform[:5])) < 120
    steep = WorldSpec(frequencies="zipf", exponent=3.0).shares
    assert steep[0] > WorldSpec(frequencies="zipf").shares[0]
    assert sum(steep) == pytest.approx(1)


def test_held_out_worlds_have_so_many_rules_that_training_never_shows() -> None:
    def unseen(split: str, **spec: Any) -> int:
        return sum(site.drawn.unseen for site in suite(**spec).sites(split=split, world=3)[:5])

    assert [unseen("heldout", unseen=n) for n in (0, 1, 2, 3)] == [0, 1, 2, 3]
    assert [unseen(split, unseen=3) for split in ("train", "validation")] == [0, 0]
    assert {task.metadata["seen"] for task in load(100, "heldout")} == {True, False}


def test_a_task_of_pieces_is_about_different_places_in_folders_of_their_own() -> None:
    for task in load(20, pieces=3):
        parts = subtasks_of(task.truth)
        folders = {part.folder for part in parts}
        assert len({part.site.entity.name for part in parts}) == len(folders) == 3
        assert {path.partition("/")[0] for path in task.files} == folders
        assert all(f"In the folder {part.folder}: {part.instance.request}" in task.prompt for part in parts)
        assert task.triggers == tuple(part.site.trigger for part in parts if part.site.ruled)
    assert max(len(task.triggers) for task in load(20, pieces=3)) > 1


def test_salience_says_how_much_a_rejection_tells() -> None:
    task = ruled_task()
    rule = subtask(task).site.drawn
    told = {salience: rejected(task, WorldSpec(salience=salience)) for salience in ("told", "worded", "symptom")}
    assert rule.instruction in told["told"]
    assert any(paraphrase in told["told"] for paraphrase in rule.paraphrases)
    assert rule.instruction not in told["worded"]
    assert any(paraphrase in told["worded"] for paraphrase in rule.paraphrases)
    assert not rule.stated_in(told["symptom"])
    assert "the total is not right" in told["symptom"]


def test_discovery_costs_so_many_rejections_and_leaves_an_attempt_to_use_it() -> None:
    spec = WorldSpec(discovery=2)
    task = ruled_task(discovery=2)
    rule = subtask(task).site.drawn
    assert [rule.stated_in(rejected(task, spec, attempt)) for attempt in (1, 2, 3)] == [False, False, True]
    assert task.attempts == 4
    assert ruled_task().attempts == 2


def test_near_words_ask_in_one_way_and_far_words_never_name_the_place() -> None:
    def openings(wording: str) -> int:
        asked = set()
        for task in load(60, wording=wording, ruled=1, plain=0):
            asked.add(task.prompt.split()[0])
        return len(asked)

    assert openings("near") < openings("varied")
    for task in load(30, wording="far"):
        entity = subtask(task).site.entity
        assert entity.about in task.prompt
        assert all(entity.name not in shown.lower().split() for shown in visible(task).values())
        assert not any(entity.name in path for path in task.files)


def test_from_the_changepoint_on_every_ruled_place_has_another_rule() -> None:
    drifting = suite(drift_at=10)
    before, after = (drifting.sites(split="train", world=2, number=number) for number in (9, 10))
    assert before == suite().sites(split="train", world=2)
    for old, new in zip(before, after, strict=True):
        assert (old.entity, old.site_config, old.ruled) == (new.entity, new.site_config, new.ruled)
        assert old.drawn.instruction != new.drawn.instruction
        assert not old.ruled or old.trigger != new.trigger
    assert [task.metadata["epoch"] for task in load(12, drift_at=10)] == [0] * 10 + [1] * 2


def test_an_inverting_drift_lets_ruled_and_plain_places_change_roles() -> None:
    inverting = suite(drift_at=1, drift="invert")
    before, after = (inverting.sites(split="train", world=2, number=number) for number in (0, 1))
    assert [site.ruled for site in after] == [not site.ruled for site in before]
    assert [site.drawn for site in after] == [site.drawn for site in before]


def test_a_drift_changes_nothing_that_is_seen() -> None:
    still, drifting = load(20), load(20, drift_at=5)
    assert [visible(task) for task in still] == [visible(task) for task in drifting]
    assert still != drifting


def test_a_decoy_world_is_the_same_to_the_eye_and_has_its_rules_where_there_were_none() -> None:
    real, decoy = load(50), load(50, decoy=True)
    assert [visible(task) for task in real] == [visible(task) for task in decoy]
    assert all(bool(a.triggers) != bool(b.triggers) for a, b in zip(real, decoy, strict=True))
    told = rejected(real[0] if not real[0].triggers else decoy[0], WorldSpec())
    assert told.startswith("Rejected: ")
    assert " has no special rule, so the standard way is right" in told


def test_splits_share_no_name() -> None:
    names = [name.word for split in NAMES.values() for name in split]
    assert len(set(names)) == len(names)


@given(st.sampled_from(["train", "validation", "heldout"]), st.integers(0, 10**9), st.integers(0, 10**9))
def test_any_world_and_seed_gives_tasks_again(split: str, world: int, seed: int) -> None:
    first, again = (load(3, split, world, seed) for _ in range(2))
    assert first == again
    assert [task.id for task in first] == [f"{split}-w{world}-s{seed}-{n:06d}" for n in range(3)]
    assert load(5, split, world, seed)[:3] == first


def test_every_family_draws_the_same_bytes_in_another_process_with_another_hash_seed() -> None:
    code = (
        "import sys\n"
        "from hermes_lab.tasks.admission import digest\n"
        "from hermes_lab.tasks.registry import domains, load_family\n"
        "from hermes_lab.tasks.suite import WorldSuite\n"
        "from hermes_lab.tasks.worlds import WorldSpec\n"
        "for name in sys.argv[1:]:\n"
        "    print(digest(WorldSuite(name, (load_family(name),), WorldSpec()), 2, 0, 0))\n"
    )
    names = [family for members in domains().values() for family in members]

    def digests(hash_seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", code, *names], env=env, capture_output=True, text=True, check=True)
        return done.stdout

    first = digests("1")
    assert first == digests("4711")
    assert len(set(first.split())) == len(names)
