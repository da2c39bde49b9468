"""Which rows of a step run at once."""

from pathlib import Path
from typing import Any

import pytest
from fakes.training import hardware

from hermes_lab.training.layout import Layout, layout_of, micro_batches
from hermes_lab.training.lock import HardwareLock, load_lock

ENDS = [14, 20, 18]


@pytest.mark.parametrize(("max_tokens", "expected"), [(1, [[0], [2], [1]]), (20, [[0, 2], [1]]), (1000, [[0, 2, 1]])])
def test_padded_rows_run_together_up_to_a_number_of_tokens(max_tokens: int, expected: list[list[int]]) -> None:
    batches = list(micro_batches(ENDS, 9, Layout(max_tokens)))
    assert [micro.rows for micro in batches] == expected
    assert batches[-1].end == 20


@pytest.mark.parametrize(
    ("max_tokens", "expected"), [(1, [[0], [2], [1]]), (23, [[0, 2], [1]]), (33, [[0, 2], [1]]), (34, [[0, 2, 1]])]
)
def test_packed_rows_run_together_with_their_prefix(max_tokens: int, expected: list[list[int]]) -> None:
    assert [micro.rows for micro in micro_batches(ENDS, 9, Layout(max_tokens, packed=True))] == expected


def test_a_long_row_after_a_full_sequence_starts_another_one() -> None:
    batches = micro_batches([10, 10, 10, 10], 4, Layout(16, packed=True))
    assert [micro.rows for micro in batches] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("values", "layout"),
    [
        ({}, Layout(4096)),
        ({"packing": True}, Layout(4096, packed=True)),
        ({"gradient_checkpointing": True}, Layout(4096, shared=False)),
        ({"gradient_checkpointing": True, "packing": True}, Layout(4096, packed=True)),
    ],
)
def test_the_lock_decides_the_layout(values: dict[str, Any], layout: Layout) -> None:
    locked = load_lock(Path("configs/locks/sft-cpu.yaml"))
    assert layout_of(locked) == Layout(2048, packed=False, shared=True)
    assert (
        layout_of(locked.model_copy(update={"hardware": HardwareLock(**hardware(micro_tokens=4096) | values)}))
        == layout
    )
