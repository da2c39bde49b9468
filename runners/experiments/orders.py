"""In which order a lane meets its tasks: the same in all arms, another one in each replicate."""

from typing import Literal

from hermes_lab.tasks.draws import Draws

Order = Literal["drawn", "random", "latin"]


def order_of(how: Order, length: int, *, replicate: int, replicates: int, seed: tuple[object, ...]) -> tuple[int, ...]:
    """A permutation of `range(length)`: which task a replicate of `replicates` meets in each place.

    `drawn` leaves the tasks as they are. `random` is drawn from `seed` and the replicate. `latin` is a row of
    `latin_row`: of fewer replicates than tasks rows that are evenly spaced, of more all of them in turn.
    """
    if how == "random":
        return tuple(Draws("order", *seed, replicate).shuffled(range(length)))
    if how == "latin":
        return latin_row(length, replicate * length // replicates if replicates < length else replicate)
    return tuple(range(length))


def latin_row(length: int, number: int) -> tuple[int, ...]:
    """Row `number` of a balanced Latin square (Williams 1949): 0, 1, n-1, 2, n-2, ... and its shifts by 1, 2, ...

    Over n rows in turn every task stands in every place once. For an even n it also comes once right after every other
    one; for an odd n it does so twice over 2n rows, of which the second half are the first half from behind.
    """
    first = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(length)]
    row = tuple((number + each) % length for each in first)
    return row[::-1] if length % 2 and number // length % 2 else row
