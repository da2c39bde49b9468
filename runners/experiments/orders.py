"""Task orders: the same in all arms, different in each replicate."""

from typing import Literal

from hermes_lab.tasks.draws import Draws

Order = Literal["drawn", "random", "latin"]


def order_of(how: Order, length: int, *, replicate: int, replicates: int, seed: tuple[object, ...]) -> tuple[int, ...]:
    """The order of a replicate's tasks, as a permutation of `range(length)`.

    `drawn` keeps the order of the tasks. `random` is drawn from `seed` and the replicate. `latin` is a row of
    `latin_row`: evenly spaced rows for fewer replicates than tasks, else all rows in turn.
    """
    if how == "random":
        return tuple(Draws("order", *seed, replicate).shuffled(range(length)))
    if how == "latin":
        return latin_row(length, replicate * length // replicates if replicates < length else replicate)
    return tuple(range(length))


def latin_row(length: int, number: int) -> tuple[int, ...]:
    """Row `number` of a balanced Latin square (Williams 1949): 0, 1, n-1, 2, n-2, ... and its shifts by 1, 2, ...

    Over n consecutive rows, every task is in every position once. For even n, it also follows every other task once;
    for odd n, twice over 2n rows, where the second half is the first half reversed.
    """
    first = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(length)]
    row = tuple((number + each) % length for each in first)
    return row[::-1] if length % 2 and number // length % 2 else row
