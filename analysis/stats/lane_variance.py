"""How much the lanes of one series differ, beyond what single outcomes do by chance."""

import numpy as np
import pandas as pd

from hermes_lab.analysis.data.series import series_of


def lane_variance(frame: pd.DataFrame) -> pd.DataFrame:
    """How much lanes of one series differ: over the judged episodes of the phase `learn`.

    success: the mean of the lanes' rates. sd: their standard deviation. chance: the one that outcomes alone would give
    if every lane had the same rate, the root of mean(p (1 - p) / n) with p the series' rate. excess: the standard
    deviation between lanes that is left, sqrt(max(0, sd^2 - chance^2)): draws of tasks, order, worlds and luck of early
    captures. NA with fewer than two lanes.
    """
    judged = frame[(frame["phase"] == "learn") & frame["success"].notna()]
    rows = []
    for series, group in judged.groupby(series_of(judged), sort=False):
        lanes = group.assign(success=group["success"].astype(float)).groupby(["run", "lane"])["success"]
        rates, sizes = lanes.mean(), lanes.size()
        pooled = float(group["success"].astype(float).mean())
        many = len(rates) > 1
        sd, chance = float(rates.std(ddof=1)), float(np.sqrt((pooled * (1 - pooled) / sizes).mean()))
        rows.append(
            {
                "series": series,
                "lanes": len(rates),
                "success": float(rates.mean()),
                "low": float(rates.min()),
                "high": float(rates.max()),
                "sd": sd if many else pd.NA,
                "chance": chance if many else pd.NA,
                "excess": max(0.0, sd**2 - chance**2) ** 0.5 if many else pd.NA,
            }
        )
    found = pd.DataFrame(rows, columns=["series", "lanes", "success", "low", "high", "sd", "chance", "excess"])
    return found.astype(dict.fromkeys(("sd", "chance", "excess"), "Float64"))
