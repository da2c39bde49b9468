"""Names of lanes, and the parts that are read from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.lane import LaneKey, arm_and_weights, lane_key, lane_name, without

ARMS = st.sampled_from(["off", "on", "frozen", without("one-r1-w2")])
INDICES = st.integers(0, 999_999_999)


@given(key=st.builds(LaneKey, ARMS, INDICES, INDICES, INDICES))
def test_a_name_is_read_back(key: LaneKey) -> None:
    name = lane_name(key, with_weights=True)
    assert lane_key(name) == key
    assert arm_and_weights(name) == f"{key.arm}-a{key.weights}"
    assert arm_and_weights(lane_name(key, with_weights=False)) == key.arm


@pytest.mark.parametrize("lane", ["main", "env", "on-r0", "on-w0-r0", "on-r0-w0-b1"])
def test_a_lane_outside_an_experiment_is_its_own_arm(lane: str) -> None:
    assert lane_key(lane) is None
    assert arm_and_weights(lane) == lane
