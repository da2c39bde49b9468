from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.training.batches import batch_order


@given(
    lengths=st.lists(st.integers(1, 2000), min_size=1, max_size=60),
    batch_size=st.integers(1, 9),
    steps=st.integers(1, 30),
    seed=st.integers(0, 5),
)
def test_every_row_is_met_as_often_as_any_other(lengths: list[int], batch_size: int, steps: int, seed: int) -> None:
    order = batch_order(lengths, batch_size=batch_size, steps=steps, seed=seed)
    counts = Counter(dict.fromkeys(range(len(lengths)), 0)) + Counter(order)
    assert len(order) == batch_size * steps
    assert max(counts.values()) - min(counts.get(row, 0) for row in range(len(lengths))) <= 1


def test_a_seed_fixes_the_order_and_another_changes_it() -> None:
    lengths = list(range(100))
    first, again, other = (batch_order(lengths, batch_size=4, steps=25, seed=seed) for seed in (0, 0, 1))
    assert first == again != other


def test_rows_of_like_length_share_a_batch() -> None:
    lengths = [100, 1000] * 32
    order = batch_order(lengths, batch_size=8, steps=8, seed=0)
    batches = [{lengths[row] for row in order[at : at + 8]} for at in range(0, 64, 8)]
    assert all(len(batch) == 1 for batch in batches)
