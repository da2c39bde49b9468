"""The orders in which replicates meet their tasks."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.runners.experiments.orders import Order, latin_row, order_of

lengths = st.integers(1, 24)


@given(st.sampled_from(["drawn", "random", "latin"]), lengths, st.integers(1, 40), st.data())
def test_every_order_is_a_permutation(how: Order, length: int, replicates: int, data: st.DataObject) -> None:
    replicate = data.draw(st.integers(0, replicates - 1))
    order = order_of(how, length, replicate=replicate, replicates=replicates, seed=(7,))
    assert sorted(order) == list(range(length))


@given(lengths, st.integers(1, 3))
def test_in_a_latin_square_every_task_stands_in_every_place_equally_often(length: int, times: int) -> None:
    rows = [
        order_of("latin", length, replicate=replicate, replicates=times * length, seed=())
        for replicate in range(times * length)
    ]
    counts = Counter((task, place) for row in rows for place, task in enumerate(row))
    assert set(counts.values()) == {times}
    assert len(counts) == length**2


@given(lengths.filter(lambda length: length > 1))
def test_every_task_comes_right_after_every_other_one_equally_often(length: int) -> None:
    rows = [latin_row(length, number) for number in range(length if length % 2 == 0 else 2 * length)]
    after = Counter(pair for row in rows for pair in pairwise(row))
    assert set(after.values()) == {1 if length % 2 == 0 else 2}
    assert len(after) == length * (length - 1)


@given(st.integers(2, 30), st.data())
def test_few_replicates_have_different_rows_in_which_no_task_is_much_later_than_another_on_average(
    length: int, data: st.DataObject
) -> None:
    replicates = data.draw(st.integers(2, length))
    rows = [order_of("latin", length, replicate=each, replicates=replicates, seed=()) for each in range(replicates)]
    assert len(set(rows)) == replicates
    places = [sum(row.index(task) for row in rows) / replicates for task in range(length)]
    assert max(places) - min(places) <= length / (replicates + 1) + 1e-9


def test_a_random_order_is_a_replicates_own_and_stays_the_same() -> None:
    orders = [order_of("random", 12, replicate=each, replicates=6, seed=("s", 3)) for each in range(6)]
    assert len(set(orders)) == 6
    assert orders == [order_of("random", 12, replicate=each, replicates=6, seed=("s", 3)) for each in range(6)]
    assert orders[0] != order_of("random", 12, replicate=0, replicates=6, seed=("s", 4))


@pytest.mark.parametrize("replicate", [0, 5])
def test_drawn_leaves_the_tasks_as_they_are(replicate: int) -> None:
    assert order_of("drawn", 4, replicate=replicate, replicates=6, seed=()) == (0, 1, 2, 3)
