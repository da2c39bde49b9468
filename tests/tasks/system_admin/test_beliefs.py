from collections.abc import Callable

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.system_admin import backups, dropins, rotation, services
from tests.tasks.system_admin.beliefs import confused

FAMILIES = {each.__name__.rpartition(".")[2]: each.FAMILY for each in (backups, dropins, rotation, services)}


@pytest.mark.anyio
@pytest.mark.parametrize(("family", "split"), [(f, split) for f in FAMILIES for split in FAMILIES[f].words])
async def test_a_belief_is_right_where_it_is_true_and_nowhere_else(
    open_sandbox: Callable[[], Sandbox], family: str, split: str
) -> None:
    assert await confused(FAMILIES[family], split, 1, open_sandbox) == []
