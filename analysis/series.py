"""What a curve is drawn and fitted for: one arm under one set of weights."""

import pandas as pd


def series_of(frame: pd.DataFrame) -> pd.Series:
    """The name of each episode's series: its arm, and its weights where the frame holds more than one set of them."""
    arms = frame["arm"].replace({"on": "skills on", "off": "skills off"})
    several = len(frame[["model", "adapter_digest"]].drop_duplicates()) > 1
    return frame.apply(_weights, axis=1) + ", " + arms if several else arms


def _weights(episode: pd.Series) -> str:
    """A served adapter's name ends with its digest, which is no reading matter."""
    adapter = str(episode["adapter"])
    return adapter.rsplit("-", 1)[0] if adapter else f"{episode['model']} untuned"
