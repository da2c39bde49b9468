"""Rounds of GRPO on reviews: what they say, and advice if no group of reviews can be trained on."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from hermes_lab.envs.learning.worth import ERRORED, LIBRARIES, POLICIES, UNREVIEWED, UNSCORED, MeanValue
from hermes_lab.training.lock import GrpoLock
from hermes_lab.training.starved import EQUAL
from hermes_lab.types import ScoredGroup

_REMEDIES = {
    "of another policy": "the server did not serve the policy in training: start a new server, and train again",
    POLICIES: "the server changed its weights within a round: start a new server, and train again",
    LIBRARIES: "rollouts did not start from the library that they should: this is a bug, please report it",
    "held out": "draw tasks that are not held out: rollouts with another suite.world, or check gate.held_out",
    ERRORED: "rollouts failed on infrastructure: see their errors with `hermes-lab show`",
    UNSCORED: "nothing judged the rollouts: see their errors with `hermes-lab show`",
    UNREVIEWED: "work that ends without an answer is not reviewed: agent.max_iterations above the present one in "
    "rollouts, or train with SFT first (`hermes-lab train sft`)",
    "longer than max_token_length": "a review continues the whole conversation of its task: a larger max_token_length "
    "in a new lock, or less text: agent.prompt=compact, fewer agent.toolsets, a lower agent.max_iterations",
}
"""Advice by refusal."""


def review_sentence(reviews: MeanValue, used: Sequence[ScoredGroup]) -> str:
    """What the reviews of a round were worth, and which groups are trained on."""
    kinds = Counter(group.kind for group in used)
    return f"{reviews.sentence()}; trained on {kinds['review']} groups of reviews and {kinds['solve']} of follow-ups"


def review_advice(
    rounds: Sequence[MeanValue], refused: Mapping[str, int], grpo: GrpoLock, *, parent: bool
) -> list[str]:
    """What to change, the most likely cause first. `rounds` are those without a usable group."""
    others = {reason: count for reason, count in refused.items() if reason != EQUAL}
    if others and sum(others.values()) >= refused.get(EQUAL, 0):
        return [_REMEDIES[reason] for reason in sorted(others, key=lambda reason: -others[reason])]
    return list(_causes(rounds, grpo, parent=parent))


def _causes(rounds: Sequence[MeanValue], grpo: GrpoLock, *, parent: bool) -> Iterator[str]:
    sft = "train with SFT first, on demonstrations with reviews, and start from it with parent=NAME"
    if parent:
        sft = "train the parent longer with SFT, on demonstrations with reviews"
    wrote, reviews = sum(each.wrote for each in rounds), sum(each.reviews for each in rounds)
    if not wrote:
        yield f"none of {reviews} reviews changed the library: the agent needs skill_manage in agent.toolsets; {sft}"
        yield "tasks whose rule is stated in a rejection: suite.options.salience=told, suite.options.discovery=0"
        return
    yield (
        f"all reviews of a task are worth the same, although {wrote} of {reviews} wrote something: more reviews of a "
        f"task (grpo.group_size above {grpo.group_size}) or more follow-ups (reviews.followups, reviews.repeats) in a "
        "new lock"
    )
    yield f"skills that no follow-up loads are worth nothing: skill_view in agent.toolsets; {sft}"
