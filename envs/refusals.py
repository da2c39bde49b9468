"""Why a group is not trained on: reasons that several frameworks share."""

from collections.abc import Mapping

EQUAL = "equal rewards"
NEARLY_EQUAL = f"nearly {EQUAL}"
FAILED = "the infrastructure failed"
NO_REWARD = "no reward"
NO_REPLY = "no reply"
CHANGED = "the policy changed in between"
ERRORED = "with errored rollouts"
UNSCORED = "without a scored rollout"
UNREVIEWED = "without a review"
POLICIES = "of several policies"
LIBRARIES = "of another library"
REWRITTEN = "with a rewritten prompt"

INCOMPLETE = frozenset({FAILED, NO_REWARD, ERRORED, UNSCORED})
"""The group was not measured, so it says nothing about what the next ones teach."""


def count_equal_rewards(refused: Mapping[str, int]) -> int:
    """Groups with equal or nearly equal rewards. A training writes `with equal rewards`."""
    return sum(count for reason, count in refused.items() if reason.endswith(EQUAL))


def other_reasons(refused: Mapping[str, int]) -> dict[str, int]:
    """The refusals for another reason, the most frequent first."""
    found = {reason: count for reason, count in refused.items() if not reason.endswith(EQUAL)}
    return dict(sorted(found.items(), key=lambda each: -each[1]))
