"""Run folders to a table."""

from pathlib import Path
from typing import get_type_hints

import msgspec
import pandas as pd

from analysis.rows import EpisodeRow, read_rows

_DTYPES = {
    str: "str",
    int: "int64",
    float: "float64",
    bool: "bool",
    float | None: "Float64",
    bool | None: "boolean",
}


def load_episodes(*runs: Path) -> pd.DataFrame:
    """One row per episode of the runs, the last attempt of each key; `EpisodeRow` documents the columns.

    Columns that may be missing are of pandas' nullable types, so `success.mean()` is over scored episodes
    alone. Raises `ConfigError` where a folder is no run.
    """
    rows = [msgspec.structs.astuple(row) for run in runs for row in read_rows(run)]
    dtypes = {name: _DTYPES[hint] for name, hint in get_type_hints(EpisodeRow).items()}
    return pd.DataFrame(rows, columns=list(dtypes)).astype(dtypes)
