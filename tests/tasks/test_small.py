"""Small tasks: what makes them small, and who has them."""

import pickle
from collections.abc import Callable

import pytest

from hermes_lab.config.schema import SuiteConfig
from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Sandbox
from hermes_lab.tasks import load_suite
from hermes_lab.tasks.check import check_suite
from hermes_lab.tasks.registry import load_family, small_families
from hermes_lab.tasks.subtasks import subtasks_of
from hermes_lab.tasks.suite import WorldSuite

FAMILIES = ("services", "stale_build")


def small(family: str, **options: object) -> WorldSuite:
    suite = load_suite(SuiteConfig(name=family, options={"size": "small", **options}))
    assert isinstance(suite, WorldSuite)
    return suite


def test_two_families_have_small_tasks() -> None:
    assert sorted(small_families()) == sorted(FAMILIES)


@pytest.mark.anyio
@pytest.mark.parametrize("family", FAMILIES)
async def test_small_tasks_are_a_sound_suite(family: str, open_sandbox: Callable[[], Sandbox]) -> None:
    for split in ("train", "heldout"):
        report = await check_suite(
            small(family), split=split, count=3, seed=0, world=0, many_worlds=True, open_sandbox=open_sandbox
        )
        assert report.failures == ()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_small_task_is_one_file_and_at_most_three_calls(family: str) -> None:
    suite = small(family)
    for world in range(5):
        for task in suite.load(split="heldout", count=8, seed=world, world=world):
            (subtask,) = subtasks_of(task.truth)
            assert len([path for path in task.files if path.startswith(("etc/", "src/"))]) == 1
            assert len([*subtask.explore(), *subtask.solve(subtask.site.rule)]) <= 3


def test_a_small_world_has_two_rules_unless_told_otherwise() -> None:
    assert (small("services").spec.ruled, small("services").spec.plain, small("services").spec.unseen) == (2, 1, 1)
    assert small("services", ruled=5).spec.ruled == 5


@pytest.mark.parametrize("family", FAMILIES)
def test_a_small_family_is_pickled_by_name(family: str) -> None:
    own = load_family(family, "small")
    assert own is not load_family(family)
    assert pickle.loads(pickle.dumps(own)) is own


def test_other_families_have_none() -> None:
    with pytest.raises(ConfigError, match=r"ledger has no small tasks; these have: "):
        small("ledger")
    with pytest.raises(ConfigError, match=r"suite\.options\.size: tickets has no small tasks"):
        small("tickets")
    with pytest.raises(ConfigError, match=r"suite\.options\.size: give full, small, not 'tiny'"):
        small("services", size="tiny")
