"""Numbers published by others, quoted as printed. None is our own measurement.

The learning curve comes from an early description of Hermes: a formula with parameters for each domain, a table, and a
case study. They are claims to test (`hermes_lab.analysis.audit.claims`), not results. Shares are in [0, 1] unless a
name says percent."""

import math
from typing import NamedTuple


class PublishedCurve(NamedTuple):
    """The published parameters of success(n) = asymptote - (asymptote - initial) exp(-rate n)."""

    initial: float
    asymptote: float
    rate: float

    def success(self, n: float) -> float:
        """The published formula."""
        return self.asymptote - (self.asymptote - self.initial) * math.exp(-self.rate * n)

    def tasks_to(self, success: float) -> float:
        """The n at which the formula reaches `success`; infinite if it never does."""
        if success >= self.asymptote:
            return math.inf
        return max(math.log((self.asymptote - self.initial) / (self.asymptote - success)) / self.rate, 0.0)

    def area(self, tasks: float) -> float:
        """The integral of the formula from 0: expected successes in `tasks` tasks."""
        rise = self.asymptote - self.initial
        return self.asymptote * tasks + rise * math.expm1(-self.rate * tasks) / self.rate

    def time_saved(self, n: float) -> float:
        """The published share of time saved after n tasks, 1 - exp(-.7 rate n). It has no floor."""
        return -math.expm1(-TIME_FACTOR * self.rate * n)

    @property
    def rules(self) -> float:
        """M / c, the number of hidden rules over the chance to learn one, for which the rate is exact.

        With M equally likely rules, each learned with probability c when met, the rate is -ln(1 - c/M).
        """
        return -1 / math.expm1(-self.rate)


TIME_FACTOR = 0.7
"""Factor in the published time formula."""
SKILLS_PER_TASK = 0.3
"""The published number of skills after n tasks is int(.3 n)."""
THRESHOLD = 0.8
"""Success level of the published iteration counts."""

CURVES = {
    "code_debugging": PublishedCurve(0.45, 0.89, 0.08),
    "data_analysis": PublishedCurve(0.52, 0.86, 0.06),
    "system_admin": PublishedCurve(0.48, 0.82, 0.07),
    "web_research": PublishedCurve(0.61, 0.84, 0.05),
    "report_generation": PublishedCurve(0.67, 0.91, 0.04),
}
"""Curve parameters by domain."""

TABLE_DOMAIN = "code_debugging"
TABLE_PERCENT = {1: 45.0, 5: 63.2, 10: 72.4, 20: 80.1, 50: 86.3, 100: 88.7}
"""The printed success of `TABLE_DOMAIN` after n tasks, in percent with one decimal."""

TASKS_TO_THRESHOLD = {
    "report_generation": 12,
    "code_debugging": 18,
    "data_analysis": 22,
    "web_research": 28,
    "system_admin": 31,
}
"""Printed iterations to 80 % by domain."""

CASE_DOMAIN = "data_analysis"
"""The domain of the 100-iteration case study: the one with an asymptote of 86 %."""
CASE_TASKS = 100
CASE_RANGES = (10, 10, 10, 20, 50)
"""Sizes of its ranges: iterations 1-10, 11-20, 21-30, 31-50 and 51-100."""
CASE_FIRST_PERCENT = 52.0
"""The case study's success in its first range."""
CASE_HIGHEST_PERCENT = 87.0
"""The highest success that the case study gives for a range."""
CASE_TIME_SAVED_PERCENT = 61.4
"""The share of time that the case study saves over its 100 iterations."""

EMA_START, EMA_ALPHA = 1.0, 0.1
"""A skill's published success rate is a moving average that starts at 1."""

REFLEXION_TASKS = 134
"""ALFWorld environments of Reflexion (Shinn et al. 2023, arXiv 2303.11366)."""
REFLEXION_CUMULATIVE = {
    "base": (84, 94, 97, 98, 100, 101, 101),
    "reflexion": (84, 103, 111, 113, 117, 118, 123, 126, 128, 129, 130, 130, 131, 133, 134),
}
"""Environments solved by the end of each trial, from the run logs in the authors' repository (trials 0, 1, ...)."""
REFLEXION_PAIRED_TRIAL = 6
"""The last trial that both runs have."""
REFLEXION_ONLY = {"reflexion": 23, "base": 1}
"""Environments solved by only one of the two by the end of that trial, counted in the same logs."""

STREAMBENCH_PERCENT = {
    "DDXPlus": (52.85, 70.56, 83.50),
    "Spider": (67.89, 74.63, 75.69),
    "DS-1000": (37.70, 41.30, 43.10),
    "ToolBench": (61.38, 71.33, 75.87),
    "HotpotQA": (48.49, 54.80, 55.20),
}
"""StreamBench table 2 (Wu et al. 2024, arXiv 2406.08747), in percent: zero-shot, Self-StreamICL, MAM-StreamICL."""
