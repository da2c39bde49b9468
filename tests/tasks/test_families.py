"""Every family that there is keeps the law: without a sandbox, and played in one."""

import pickle
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import SuiteConfig
from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.admission import differences, find_rule_leaks, forced, spread, static_checks, visible
from hermes_lab.tasks.check import check_suite, every_type
from hermes_lab.tasks.play import opener
from hermes_lab.tasks.proof import prove
from hermes_lab.tasks.registry import domains, load_family, load_suite, served, stories
from hermes_lab.tasks.subtasks import subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import SPLITS, WorldSpec

OpenSandbox = Callable[[], Sandbox]
FAMILIES = [*(family for families in domains().values() for family in families), *served()]


def suite_of(family: str) -> WorldSuite:
    suite = load_suite(SuiteConfig(name=family))
    assert isinstance(suite, WorldSuite)
    assert (suite.families, suite.spec) == ((load_family(family),), WorldSpec())
    return suite


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_keeps_the_law(family: str) -> None:
    static = static_checks(suite_of(family), count=3, elsewhere=False)
    assert static.problems == ()
    assert static.distinct == 1.0


@pytest.mark.anyio
@pytest.mark.parametrize("family", FAMILIES)
async def test_a_family_proves_itself(family: str) -> None:
    """A drawn task, and a held-out one under some rule type: `tasks check` plays many of each."""
    suite = suite_of(family)
    tasks = list(spread(suite, ("train", "validation")[len(family) % 2], 1, seed=5, world=5))
    kinds = every_type(suite, "heldout", 1)
    tasks.append(kinds[sum(map(ord, family)) % len(kinds)])
    rows = [await prove(suite, task, opener(SandboxConfig(), suite)) for task in tasks]
    assert [failure for row in rows for failure in row.failures] == []
    assert [(row.noop, row.oracle, row.naive < 1) for row in rows] == [(0, 1, bool(task.triggers)) for task in tasks]


@pytest.mark.anyio
@pytest.mark.parametrize("story", stories()[-2:])
async def test_a_story_proves_itself(story: str, open_sandbox: OpenSandbox) -> None:
    """Two of them: each family proves itself, and `test_stories` plays every story."""
    suite = load_suite(SuiteConfig(name=story))
    report = await check_suite(suite, split="train", count=1, seed=0, world=0, open_sandbox=open_sandbox)
    assert report.failures == ()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_travels_to_another_process_by_name(family: str) -> None:
    packed = pickle.dumps(load_family(family))
    assert len(packed) < 200
    assert type(pickle.loads(packed)) is type(load_family(family))


def test_no_two_families_share_a_name_and_each_names_its_domain() -> None:
    assert len(set(FAMILIES)) == len(FAMILIES)
    for domain, members in domains().items():
        for name in members:
            family = load_family(name)
            assert (family.name, family.domain) == (name, domain)
            assert family.summary
            assert "{place}" in family.subject


@given(
    family=st.sampled_from(FAMILIES),
    split=st.sampled_from(SPLITS),
    world=st.integers(0, 10**6),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_no_task_shows_its_rule_in_any_world(family: str, split: str, world: int, seed: int) -> None:
    suite = suite_of(family)
    (task,) = spread(suite, split, 1, seed, world)
    assert not list(differences(suite, task, seed))
    assert not list(find_rule_leaks(task, suite.families))


@given(
    family=st.sampled_from(FAMILIES),
    split=st.sampled_from(SPLITS),
    number=st.integers(0, 10**6),
    more=st.integers(0, 3),
)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_a_task_does_not_depend_on_what_else_is_loaded(family: str, split: str, number: int, more: int) -> None:
    suite = suite_of(family)
    alone = suite.load(split=split, count=1, seed=number, world=number)
    several = suite.load(split=split, count=1 + more, seed=number, world=number)
    assert several[:1] == alone
    assert len({str(visible(task)) for task in several}) == len(several)


def test_a_forced_rule_holds_and_one_that_cannot_be_is_none() -> None:
    suite = suite_of("ledger")
    task = forced(suite, suite.families[0], "latest", "train", 7)
    assert task is not None
    assert task.triggers[0].endswith(":latest")
    assert subtasks_of(task.truth)[0].site.drawn.type == "latest"
    assert forced(suite, suite.families[0], "nothing", "train", 7) is None
