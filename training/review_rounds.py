"""Rounds of GRPO on reviews: what they say."""

from collections import Counter
from collections.abc import Sequence

from hermes_lab.envs.learning.worth import MeanValue
from hermes_lab.types import ScoredGroup


def review_sentence(reviews: MeanValue, used: Sequence[ScoredGroup]) -> str:
    """What the reviews of a round were worth, and which groups are trained on."""
    kinds = Counter(group.kind for group in used)
    return f"{reviews.sentence()}; trained on {kinds['review']} groups of reviews and {kinds['solve']} of follow-ups"
