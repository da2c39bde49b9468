"""Published results hold for tasks that are the same bytes to this day."""

import json

import pytest
from task_digests import GOLDEN, digest

pytestmark = pytest.mark.long


@pytest.mark.parametrize("family", json.loads(GOLDEN.read_text()))
def test_a_thousand_tasks_are_what_they_were(family: str) -> None:
    assert digest(family) == json.loads(GOLDEN.read_text())[family]
