"""How a skill has fared: its uses, and what they say of its success rate."""

from collections.abc import Iterable
from functools import cache

from msgspec import Struct

from hermes_lab.config.schema import SkillsConfig

RECENT = 40
"""Judged uses, the newest ones, that the posterior counts. A skill that was good for a year and then fails is found
some 28 uses later (`docs/learning.md`), where a posterior of everything would take as long as the skill is old."""
_LEVEL = 0.95


class Use(Struct, frozen=True):
    """One episode that loaded a skill. `success` is that of its first submission, None where nothing judged it; `at` is
    an ISO time."""

    name: str
    success: bool | None
    at: str


class SkillStats(Struct, frozen=True):
    """The uses of one skill; `judged` ones have an outcome, and `solved` a good one.

    `ema` is the moving average of the outcomes, beginning at the first; None before there is one. `mean`, `low` and
    `high` are the posterior of the success rate over the newest `RECENT` judged uses: its mean and its 95 %
    equal-tailed interval.
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
    """The statistics of every skill that was used, by name. `uses` are in the order in which they happened."""
    by_name: dict[str, list[Use]] = {}
    for use in uses:
        by_name.setdefault(use.name, []).append(use)
    return {name: _of_one(by_name[name], alpha) for name in sorted(by_name)}


def needs_rewrite(stats: SkillStats, config: SkillsConfig) -> bool:
    """Whether a skill fails: judged often enough, and surely (97.5 %) under the success rate that is asked for.

    The posterior decides, and not the moving average. At alpha = .1 the average weighs about as much as the newest 19
    outcomes, and at the tenth use its first outcome alone still weighs .9^9 = 39 %. Watched over 100 uses, the average
    of a skill that succeeds 7 times in 10 falls under .5 in two of three cases; the interval does in 1 of 1,000, and
    still finds a skill that succeeds 2 times in 10 within 30 uses in 97 of 100. `docs/learning.md` has the table.
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
    """Mean, and the ends of the 95 % equal-tailed interval, of a success rate of which `solved` of `judged` trials
    succeeded. From a uniform prior it is Beta(solved + 1, judged - solved + 1): Bayes (1763); Gelman et al., Bayesian
    Data Analysis, 3rd ed., section 2.1."""
    a, b = solved + 1, judged - solved + 1
    if not judged:  # the prior itself, for which nothing need be loaded
        return 0.5, (1 - _LEVEL) / 2, (1 + _LEVEL) / 2
    from scipy.special import betaincinv

    low, high = (float(betaincinv(a, b, tail)) for tail in ((1 - _LEVEL) / 2, (1 + _LEVEL) / 2))
    return a / (a + b), low, high
