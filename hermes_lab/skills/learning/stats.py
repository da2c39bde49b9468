"""Usage statistics of skills, and the posterior of their success rate."""

from collections.abc import Iterable
from functools import cache

from msgspec import Struct

from hermes_lab.config.schema import SkillsConfig

RECENT = 40
"""The posterior counts only this many of the newest judged uses. A skill that worked for a year and then starts to
fail is detected after about 28 uses (`docs/learning.md`); with all uses, detection would take longer the older the
skill is."""
_LEVEL = 0.95


class Use(Struct, frozen=True):
    """One episode that loaded a skill. `success` is the outcome of its first submission, None if not judged; `at` is an
    ISO time."""

    name: str
    success: bool | None
    at: str


class SkillStats(Struct, frozen=True):
    """The uses of one skill: how many, how many of them were judged, and how many of those succeeded (`solved`).

    `ema` is the exponential moving average of the outcomes, started at the first one; None without outcomes. `mean`,
    `low` and `high` are the posterior mean and 95 % equal-tailed interval of the success rate over the newest `RECENT`
    judged uses.
    """

    uses: int
    judged: int
    solved: int
    ema: float | None
    mean: float
    low: float
    high: float
    last_used: str


def stats(uses: Iterable[Use], *, alpha: float) -> dict[str, SkillStats]:
    """Returns the statistics of every used skill, by name. `uses` must be in chronological order."""
    by_name: dict[str, list[Use]] = {}
    for use in uses:
        by_name.setdefault(use.name, []).append(use)
    return {name: _of_one(by_name[name], alpha) for name in sorted(by_name)}


def needs_rewrite(stats: SkillStats, config: SkillsConfig) -> bool:
    """Whether a skill fails: judged often enough, and below the required success rate with probability 97.5 %.

    This uses the posterior, not the moving average. With alpha = 0.1 the average has an effective sample size of about
    19, and at the tenth use its first outcome still has a weight of 0.9^9 = 39 %. Over 100 uses, the average of a skill
    with a success rate of 0.7 drops below 0.5 in two of three cases, but the interval does in only 1 of 1,000. A skill
    with a success rate of 0.2 is still detected within 30 uses in 97 of 100 cases. `docs/learning.md` has the table.
    """
    return stats.judged >= config.rewrite_uses and stats.high < config.rewrite_below


def _of_one(uses: list[Use], alpha: float) -> SkillStats:
    outcomes = [use.success for use in uses if use.success is not None]
    ema: float | None = None
    for outcome in outcomes:
        ema = float(outcome) if ema is None else ema + alpha * (outcome - ema)
    recent = outcomes[-RECENT:]
    mean, low, high = posterior(sum(recent), len(recent))
    return SkillStats(len(uses), len(outcomes), sum(outcomes), ema, mean, low, high, max(use.at for use in uses))


@cache
def posterior(solved: int, judged: int) -> tuple[float, float, float]:
    """Returns the posterior mean of a success rate and the bounds of its 95 % equal-tailed interval, given `solved`
    successes in `judged` trials.

    With a uniform prior the posterior is Beta(solved + 1, judged - solved + 1): Bayes (1763); Gelman et al., Bayesian
    Data Analysis, 3rd ed., section 2.1.
    """
    a, b = solved + 1, judged - solved + 1
    if not judged:  # the prior itself; avoids importing scipy
        return 0.5, (1 - _LEVEL) / 2, (1 + _LEVEL) / 2
    from scipy.special import betaincinv

    low, high = (float(betaincinv(a, b, tail)) for tail in ((1 - _LEVEL) / 2, (1 + _LEVEL) / 2))
    return a / (a + b), low, high
