"""Variation between the lanes of a series beyond binomial chance."""

import numpy as np
import pandas as pd

from hermes_lab.analysis.data.series import series_of


def lane_variance(frame: pd.DataFrame) -> pd.DataFrame:
    """Variation between lanes, one row per series, over the judged episodes of phase `learn`.

    success: mean of the lanes' rates. sd: their standard deviation. chance: the standard deviation expected if every
    lane had the series' rate p, sqrt(mean(p (1 - p) / n)). excess: the standard deviation between lanes beyond chance,
    sqrt(max(0, sd^2 - chance^2)). NA with fewer than two lanes.
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
