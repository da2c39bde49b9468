"""The registered comparison unit by unit: what counts, in which order, and when it is decided."""

from typing import Any

import msgspec
import pytest

from hermes_lab.analysis.comparison.sequential import Monitor
from hermes_lab.registration import Primary

PRIMARY = Primary(
    question="skills",
    before="off",
    after="on",
    phase="learn",
    round=0,
    over="worlds",
    worlds=20,
    replicates=1,
    units=20,
    pairs=4,
    baseline=0.6,
    effect=0.16,
    stop="either",
)


def changed(**fields: Any) -> Primary:
    return msgspec.structs.replace(PRIMARY, **fields)


def add_world(monitor: Monitor, world: int, before: int, after: int, *, replicate: int = 0) -> None:
    """A world of which the first `before` and `after` of 4 tasks were solved on either side."""
    for task in range(4):
        for arm, solved in (("off", before), ("on", after)):
            monitor.add(f"{arm}-r{replicate}-w{world}", "learn", task, f"t{task}", task < solved)


def test_a_unit_counts_once_it_and_all_before_it_are_complete() -> None:
    monitor = Monitor(PRIMARY)
    add_world(monitor, 1, 0, 4)
    assert (monitor.units, monitor.look()) == (0, None)
    add_world(monitor, 0, 1, 2)
    assert monitor.units == 2
    found = monitor.look()
    assert found is not None
    assert (found.units, found.difference) == (2, pytest.approx(5 / 8))


def test_an_incomplete_unit_holds_up_those_after_it() -> None:
    monitor = Monitor(PRIMARY)
    monitor.add("on-r0-w0", "learn", 0, "t0", True)
    for world in range(1, 12):
        add_world(monitor, world, 0, 4)
    assert (monitor.units, monitor.decision) == (0, None)


def test_units_that_will_never_be_whole_are_closed_with_the_pairs_they_have_and_decide_nothing() -> None:
    monitor = Monitor(changed(units=12))
    monitor.add("on-r0-w0", "learn", 0, "t0", True)
    for world in range(1, 12):
        add_world(monitor, world, 0, 4)
    monitor.close()
    found = monitor.look()
    assert found is not None
    assert (monitor.units, found.units, found.difference) == (12, 11, 1.0)
    assert monitor.decision is None


def test_other_arms_phases_checks_and_lanes_are_ignored_and_repeated_episodes_count_once() -> None:
    monitor = Monitor(changed(phase="heldout", round=3, pairs=1))
    for lane, phase, round_ in (
        ("placebo-r0-w0", "heldout", 3),
        ("off-r0-w0", "learn", 3),
        ("off-r0-w0", "heldout", 0),
        ("main", "heldout", 3),
    ):
        monitor.add(lane, phase, round_, "t", True)
    monitor.add("on-r0-w0", "heldout", 3, "t", True)
    monitor.add("on-r0-w0", "heldout", 3, "t", False)
    assert monitor.units == 0
    monitor.add("off-r0-w0", "heldout", 3, "t", False)
    found = monitor.look()
    assert found is not None
    assert (monitor.units, found.difference) == (1, 1.0)


def test_a_pair_that_was_not_judged_on_both_sides_has_no_change_but_its_unit_is_complete() -> None:
    monitor = Monitor(changed(pairs=2))
    for task, before, after in (("a", False, True), ("b", None, True)):
        monitor.add("off-r0-w0", "learn", 0, task, before)
        monitor.add("on-r0-w0", "learn", 0, task, after)
    found = monitor.look()
    assert found is not None
    assert (monitor.units, found.difference) == (1, 1.0)


def test_units_without_a_judged_pair_give_no_result() -> None:
    monitor = Monitor(changed(pairs=1))
    monitor.add("off-r0-w0", "learn", 0, "t", None)
    monitor.add("on-r0-w0", "learn", 0, "t", None)
    assert (monitor.units, monitor.look()) == (1, None)


def test_replicates_of_a_world_are_one_unit_and_lanes_are_units_in_the_order_of_the_plan() -> None:
    monitor = Monitor(changed(replicates=2, pairs=8))
    add_world(monitor, 0, 0, 4)
    assert monitor.units == 0
    add_world(monitor, 0, 0, 4, replicate=1)
    assert monitor.units == 1
    lanes = Monitor(changed(over="lanes", worlds=2, replicates=4, units=8))
    add_world(lanes, 0, 0, 4)
    add_world(lanes, 0, 0, 4, replicate=1)
    assert lanes.units == 1  # the second lane is world 1 of replicate 0
    add_world(lanes, 1, 0, 4)
    assert lanes.units == 3


def test_it_is_decided_at_the_first_unit_that_shows_a_difference_and_no_later_one_counts() -> None:
    monitor = Monitor(changed(stop="shown"))
    for world in range(20):
        add_world(monitor, world, 0, 3)
        if monitor.decision:
            break
    assert world in range(6, 10)
    assert str(monitor.decision) == f"decided after {world + 1} of 20 worlds: a difference is shown"
    decided = monitor.look()
    for later in range(world + 1, 20):
        add_world(monitor, later, 4, 0)
    assert (monitor.units, monitor.look()) == (world + 1, decided)


def test_a_hopeless_experiment_is_ended_once_its_interval_leaves_out_the_effect_and_one_without_the_rule_goes_on() -> (
    None
):
    hopeless, never, shown = (Monitor(changed(stop=stop)) for stop in ("hopeless", "never", "shown"))
    for monitor in (hopeless, never, shown):
        for world in range(20):
            add_world(monitor, world, 2, 1)
    assert str(hopeless.decision).endswith("of 20 worlds: the expected effect of +16 points is excluded")
    found = hopeless.look()
    assert found is not None
    assert found.interval.high < 0.16
    assert never.decision is None
    assert shown.decision is not None  # on is worse, which is a difference, too
    assert shown.decision.why == "shown"


def test_an_expected_decrease_is_excluded_from_above() -> None:
    monitor = Monitor(changed(stop="hopeless", effect=-0.3))
    for world in range(20):
        add_world(monitor, world, 1, 2)
    assert monitor.decision is not None
    found = monitor.look()
    assert found is not None
    assert found.interval.low > -0.3
