"""What would make the rewards of reviews differ (`hermes_lab.envs.advice` has the same for solving tasks)."""

from collections.abc import Iterator, Sequence

from hermes_lab.envs.advice import Settings, unread_calls
from hermes_lab.envs.learning.worth import MeanValue


def review_causes(measured: Sequence[MeanValue], settings: Settings) -> list[str]:
    """What to change where the reviews of a task all earn the same, the most likely cause first."""
    return list(_causes(measured, settings))


def _causes(measured: Sequence[MeanValue], settings: Settings) -> Iterator[str]:
    start = f"{settings.start} (on demonstrations with reviews)"
    size = settings.group_size
    wrote, reviews = sum(each.wrote for each in measured), sum(each.reviews for each in measured)
    if 2 * sum(each.cut for each in measured) > reviews:
        yield f"most reviews are cut: {settings.reply_tokens.above()}"
    if 2 * sum(each.unparsed for each in measured) > reviews:
        yield f"most reviews {unread_calls(settings)}"
    if not wrote:
        yield f"none of {reviews} reviews changed the library: {start}"
        yield "tasks whose rule is stated in a rejection: suite.options.salience=told, suite.options.discovery=0"
        return
    yield (
        f"all reviews of a task are worth the same, although {wrote} of {reviews} wrote something: more reviews of a "
        f"task, {size.above()}, or more follow-ups, {settings.paid}.followups or {settings.paid}.repeats{size.where}"
    )
    yield f"skills that no follow-up loads are worth nothing: {start}"
