"""A small soak of the gateway: four platforms, faults of their networks, and kills."""

from pathlib import Path

import pytest
from fakes.mail import DOVECOT
from fakes.synapse import PROGRAM
from gateway_soak import soak

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PROGRAM.exists(), reason="Synapse is not installed (make programs)"),
    pytest.mark.skipif(not DOVECOT.exists(), reason="Dovecot is not installed: apt-get install dovecot-imapd"),
]


async def test_nothing_is_lost_answered_twice_or_out_of_order(tmp_path: Path) -> None:
    figures = await soak(40, 1, 2, tmp_path)
    found = figures.lost, figures.twice, figures.out_of_order, figures.other
    assert figures.is_clean, f"{figures}: {found}"
    assert figures.messages == 40
