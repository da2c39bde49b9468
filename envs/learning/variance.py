"""How precisely follow-ups measure a review, and how many it takes. Derived in docs/learning-episodes.md.

`with_` and `without` are the success rates of a follow-up task with the library after the review and before it.
"""

import math
from statistics import NormalDist

from hermes_lab.errors import ConfigError


def value_variance(with_: float, without: float, followups: int, repeats: int) -> float:
    """The variance of a review's reward given the library and the follow-up tasks:

    (with (1 - with) + without (1 - without)) / (followups * repeats)

    where both rates are those of every task. It is at most that if they differ between tasks.
    """
    for name, rate in (("with", with_), ("without", without)):
        if not 0 <= rate <= 1:
            raise ConfigError(f"{name}: {rate:g} is not a success rate; give a fraction, such as 0.6")
    return (with_ * (1 - with_) + without * (1 - without)) / (followups * repeats)


def followups_needed(with_: float, without: float, power: float = 0.8, level: float = 0.05) -> int:
    """Follow-up rollouts with each library (followups * repeats) after which a difference of the two rates is seen with
    probability `power` by a two-sided test at `level`, in the normal approximation:

    (z(1 - level / 2) + z(power))^2 (with (1 - with) + without (1 - without)) / (with - without)^2

    Raises `ConfigError` if the rates are equal: no number shows a difference that is not there.
    """
    if with_ == without:
        raise ConfigError(f"both rates are {with_:g}: there is no difference to see")
    normal = NormalDist()
    z = normal.inv_cdf(1 - level / 2) + normal.inv_cdf(power)
    return max(1, math.ceil(z**2 * value_variance(with_, without, 1, 1) / (with_ - without) ** 2))
