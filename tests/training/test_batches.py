from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.training.batches import batch_order

cases = given(
    lengths=st.lists(st.integers(1, 2000), min_size=1, max_size=60),
    batch_size=st.integers(1, 9),
    steps=st.integers(1, 30),
    seed=st.integers(0, 5),
)


@cases
def test_every_row_occurs_once_before_any_repeats(lengths: list[int], batch_size: int, steps: int, seed: int) -> None:
    order = batch_order(lengths, batch_size=batch_size, steps=steps, seed=seed)
    assert len(order) == batch_size * steps
    epochs = [order[at : at + len(lengths)] for at in range(0, len(order), len(lengths))]
    assert all(len(set(epoch)) == len(epoch) for epoch in epochs)


@cases
def test_a_batch_has_as_many_different_rows_as_it_can(
    lengths: list[int], batch_size: int, steps: int, seed: int
) -> None:
    order = batch_order(lengths, batch_size=batch_size, steps=steps, seed=seed)
    batches = [order[at : at + batch_size] for at in range(0, len(order), batch_size)]
    assert all(len(set(batch)) == min(len(lengths), batch_size) for batch in batches)


def test_the_order_of_less_than_an_epoch_never_changes() -> None:
    """The shipped adapter was trained in this order."""
    lengths = [(37 * n * n + 11 * n) % 101 + 1 for n in range(43)]
    assert batch_order(lengths, batch_size=2, steps=20, seed=3) == [
        *(41, 23, 14, 26, 42, 30, 4, 8, 12, 34, 22, 17, 0, 15, 16, 37, 27, 38, 29, 28),
        *(24, 9, 33, 35, 31, 40, 18, 2, 20, 7, 25, 36, 19, 39, 11, 3, 21, 6, 5, 10),
    ]


def test_a_seed_fixes_the_order_and_another_changes_it() -> None:
    lengths = list(range(100))
    first, again, other = (batch_order(lengths, batch_size=4, steps=25, seed=seed) for seed in (0, 0, 1))
    assert first == again != other


def test_rows_of_like_length_share_a_batch() -> None:
    lengths = [100, 1000] * 32
    order = batch_order(lengths, batch_size=8, steps=8, seed=0)
    batches = [{lengths[row] for row in order[at : at + 8]} for at in range(0, 64, 8)]
    assert all(len(batch) == 1 for batch in batches)
