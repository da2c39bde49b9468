"""Run folders to a table."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, get_type_hints

import pandas as pd

from hermes_lab.analysis.data.columns import read_columns
from hermes_lab.analysis.data.rows import EpisodeRow
from hermes_lab.errors import ConfigError

if TYPE_CHECKING:
    from datasets import Dataset

_DTYPES = {
    str: "str",
    int: "int64",
    float: "float64",
    bool: "bool",
    int | None: "Int64",
    float | None: "Float64",
    bool | None: "boolean",
}


def load_episodes(*runs: Path, columns: Iterable[str] | None = None) -> pd.DataFrame:
    """One row per episode of the runs, the last attempt of each key; `EpisodeRow` documents the columns.

    With `columns`, these alone and in this order: what they do not need is not decoded. Columns that may be missing
    are of pandas' nullable types, so `success.mean()` is over scored episodes alone. Raises `ConfigError` where a
    folder is no run, a column is none, or a line is no episode.
    """
    hints = get_type_hints(EpisodeRow)
    names = list(hints if columns is None else dict.fromkeys(columns))
    rows = [row for run in runs for row in read_columns(run, names)]
    values = zip(*rows, strict=True) if rows else ((),) * len(names)
    return pd.DataFrame(
        {name: pd.Series(column, dtype=_DTYPES[hints[name]]) for name, column in zip(names, values, strict=True)}
    )


def load_dataset(*runs: Path, columns: Iterable[str] | None = None) -> "Dataset":
    """The table of `load_episodes` for the `datasets` library; what may be missing is null.

    Raises `ConfigError` where that library is not installed, too.
    """
    try:
        from datasets import Dataset
    except ImportError:
        raise ConfigError("load_dataset needs the datasets library; pip install 'hermes-lab[train]'") from None
    return Dataset.from_pandas(load_episodes(*runs, columns=columns), preserve_index=False)
