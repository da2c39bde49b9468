"""Series (one arm under one set of weights, the unit of a curve) and their independent clusters."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

import pandas as pd

from hermes_lab.lane import MAIN
from hermes_lab.text.counted import counted

ARM_LABELS: Mapping[str, str] = {"on": "skills on", "off": "skills off"}
"""The display names of arms; others are shown as they are."""
MIN_WORLDS = 6
"""From this many worlds on, clusters are worlds, as in a comparison (`hermes_lab.analysis.stats.paired`)."""


class Clusters(NamedTuple):
    """A cluster label for each episode, and `over`, which describes them: `20 lanes`, `20 worlds`; `20 runs` of plain
    runs, which have no lanes.

    Results over `20 lanes of 5 worlds` apply to these worlds only.
    """

    labels: list[Hashable]
    over: str
    unit: str
    """`lane`, `run` or `world`."""


def clusters_of(rows: pd.DataFrame) -> Clusters:
    """The clusters of one series of `load_episodes`: worlds if there are six or more, else lanes.

    Lanes of one world share its rules and often their tasks. A world is the same in every run of its suite, since its
    number draws its rules; another seed draws other tasks in it. It is distinct per set of weights.
    """
    lanes: list[Hashable] = list(zip(rows["run"], rows["lane"], strict=True))
    suites = rows["suite"] if "suite" in rows else rows["run"]
    worlds: list[Hashable] = list(zip(suites, rows["world"], rows["weights"], strict=True))
    several, places = len(set(lanes)), len(set(worlds))
    unit = "run" if (rows["lane"] == MAIN).all() else "lane"
    # Without replicates a lane is its world. A lane may also visit several worlds, which then share its library.
    if several <= places or len(set(zip(lanes, worlds, strict=True))) > several:
        return Clusters(lanes, counted(several, unit), unit)
    if places >= MIN_WORLDS:
        return Clusters(worlds, counted(places, "world"), "world")
    return Clusters(lanes, f"{counted(several, unit)} of {counted(places, 'world')}", unit)


def series_of(frame: pd.DataFrame) -> pd.Series:
    """The name of each episode's series: its arm, plus its weights if the frame has more than one set of them; in plain
    runs, which have no arms, its weights alone."""
    arms = frame["arm"].replace(dict(ARM_LABELS))
    weights = frame[["model", "adapter", "adapter_digest"]].drop_duplicates()
    plain = bool((frame["arm"] == MAIN).all())
    if len(weights) < 2:
        names = weights["adapter"].where(weights["adapter"] != "", weights["model"])
        return arms.replace(MAIN, names.iloc[0]) if plain and len(weights) else arms
    names = pd.Series(weights_names(weights.itertuples(index=False, name=None)), index=weights.index)
    if names.duplicated().any():
        names = weights["model"] + " " + weights["adapter"]
    if names.duplicated().any():  # a server has other weights under the same name
        names = (names + " " + weights["adapter_digest"].str[:_SHORT]).str.strip()
    by_weights = dict(zip(weights.itertuples(index=False, name=None), names, strict=True))
    keys = zip(frame["model"], frame["adapter"], frame["adapter_digest"], strict=True)
    of_weights = pd.Series([by_weights[key] for key in keys], index=frame.index, dtype=object)
    return of_weights if plain else of_weights + ", " + arms


def weights_names(weights: Iterable[tuple[str, str, str]]) -> list[str]:
    """The display name of each (model, adapter, digest of the adapter): the adapter without the part of its digest that
    the lab appends, or with it where two differ in nothing else; or the model, which is marked as untuned if any of the
    others has an adapter."""
    each = list(weights)
    untuned = " untuned" if any(adapter for _, adapter, _ in each) else ""
    short = {adapter: _without_digest(adapter, digest) for _, adapter, digest in each if adapter}
    shared = Counter(short.values())
    names = {adapter: name if shared[name] == 1 else adapter for adapter, name in short.items()}
    return [names[adapter] if adapter else f"{model}{untuned}" for model, adapter, _ in each]


_SHORT = 12
"""The characters of its digest that `hermes_lab.models.adapters` appends to the name of an adapter's folder."""


def _without_digest(adapter: str, digest: str) -> str:
    return adapter.removesuffix(f"-{digest[:_SHORT]}") if digest else adapter
