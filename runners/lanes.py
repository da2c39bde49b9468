"""What a lane learns: the knowledge that a round begins with, as a function of the episodes before it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hermes_lab.config import Arm, RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.knowledge import Knowledge
from hermes_lab.memory.notes import merge_notes
from hermes_lab.protocols import KnownSuite, Suite
from hermes_lab.skills.library import Library, merge
from hermes_lab.skills.placebo import placebo
from hermes_lab.skills.refine import refine
from hermes_lab.skills.stats import Use, stats
from hermes_lab.types import SkillWrite
from runners.brief import Brief

LEARNING: frozenset[Arm] = frozenset({"on", "placebo"})
"""The arms whose library grows."""


@dataclass(frozen=True)
class LaneState:
    """What a round begins with, and how the skills fared since they were last written."""

    knowledge: Knowledge
    uses: tuple[Use, ...] = ()


def begin(arm: Arm, library: Library, suite: Suite, *, split: str, world: int) -> Library:
    """The skills that a lane begins with, `library` being those of the configuration.

    Raises `ConfigError` for an oracle where the suite cannot tell its rules, and where nothing is there to freeze.
    """
    if arm == "frozen" and not library.skills:
        raise ConfigError("learning.arms: `frozen` runs with skills.library as it is; give that, with a skill in it")
    if arm == "off":
        return Library()
    if arm == "placebo":
        return placebo(library)
    if arm == "oracle":
        if not isinstance(suite, KnownSuite):
            raise ConfigError(f"learning.arms: {suite.name} cannot tell its hidden rules, so it has no arm `oracle`")
        return suite.known_skills(split=split, world=world)
    return library


def after_round(state: LaneState, arm: Arm, finished: Sequence[Brief], config: RunConfig) -> LaneState:
    """The lane once a round is merged; `finished` are its episodes in the order of its tasks.

    A pure function, so that resume needs the log alone. Skills that fail are taken out of prompts; one that was just
    written begins anew, since its uses were of its earlier text.
    """
    knowledge = state.knowledge
    writes = [write for episode in finished for write in episode.writes]
    written = {write.name for write in writes}
    uses = tuple(use for use in (*state.uses, *_uses(finished)) if use.name not in written)
    library = merge(knowledge.library, (episode.writes for episode in finished))
    library = refine(library, stats(uses, alpha=config.skills.ema_alpha), config.skills)
    if any(episode.review for episode in finished):
        idle = 0
    else:
        idle = knowledge.idle + sum(int(episode.metrics.get("iterations", 0)) for episode in finished)
    return LaneState(
        replace(
            knowledge,
            library=placebo(library) if arm == "placebo" else library,
            notes=merge_notes(knowledge.notes, (episode.notes for episode in finished), config.memory),
            idle=idle,
            learnt_from=_learnt_from(knowledge, writes),
        ),
        uses,
    )


def _uses(finished: Iterable[Brief]) -> list[Use]:
    return [Use(name, episode.success, episode.started_at) for episode in finished for name in episode.skills.loaded]


def _learnt_from(knowledge: Knowledge, writes: Iterable[SkillWrite]) -> dict[str, tuple[str, ...]]:
    known = dict(knowledge.learnt_from)
    for write in writes:
        known[write.name] = tuple(dict.fromkeys((*known.get(write.name, ()), *write.triggers)))
    return known
