"""What a curve is drawn and fitted for: one arm under one set of weights; and what of it is independent."""

from collections.abc import Hashable
from typing import NamedTuple

import pandas as pd

MIN_WORLDS = 6
"""Worlds from which on they are the clusters, as in a comparison (`hermes_lab.analysis.stats.paired`)."""


class Clusters(NamedTuple):
    """What moves together: a label for each episode, and `over`, which names them: `20 runs`, `20 worlds`.

    `20 runs of 5 worlds` speak of these worlds only.
    """

    labels: list[Hashable]
    over: str
    unit: str
    """`run` or `world`."""


def clusters_of(rows: pd.DataFrame) -> Clusters:
    """The clusters of one series of `load_episodes`: worlds where there are six, else lanes.

    Lanes of one world share its rules, and often their tasks. A world is one of a run folder under one set of weights.
    """
    lanes: list[Hashable] = list(zip(rows["run"], rows["lane"], strict=True))
    worlds: list[Hashable] = list(zip(rows["run"], rows["world"], rows["weights"], strict=True))
    runs, places = len(set(lanes)), len(set(worlds))
    # Without replicates a lane is its world. A lane may also go through several, which then share its library.
    if runs <= places or len(set(zip(lanes, worlds, strict=True))) > runs:
        return Clusters(lanes, plural(runs, "run"), "run")
    if places >= MIN_WORLDS:
        return Clusters(worlds, plural(places, "world"), "world")
    return Clusters(lanes, f"{plural(runs, 'run')} of {plural(places, 'world')}", "run")


def plural(number: int, what: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {what}{'s' * (number != 1)}"


def series_of(frame: pd.DataFrame) -> pd.Series:
    """The name of each episode's series: its arm, and its weights where the frame holds more than one set of them."""
    arms = frame["arm"].replace({"on": "skills on", "off": "skills off"})
    weights = frame[["model", "adapter", "adapter_digest"]].drop_duplicates()
    if len(weights) < 2:
        return arms
    names = weights.apply(lambda row: weights_name(row["model"], row["adapter"]), axis=1)
    if names.duplicated().any():
        names = weights["model"] + " " + weights["adapter"]
    by_weights = dict(zip(weights.itertuples(index=False, name=None), names, strict=True))
    keys = zip(frame["model"], frame["adapter"], frame["adapter_digest"], strict=True)
    return pd.Series([by_weights[key] for key in keys], index=frame.index) + ", " + arms


def weights_name(model: str, adapter: str) -> str:
    """For a person: a served adapter's name without the digest that ends it, or the model that has no adapter."""
    return adapter.rsplit("-", 1)[0] if adapter else f"{model} untuned"
