"""What a curve is drawn and fitted for: one arm under one set of weights."""

import pandas as pd


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
