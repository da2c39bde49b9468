"""Loads run folders into tables."""

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


def load_episodes(*runs: str | Path, columns: Iterable[str] | None = None) -> pd.DataFrame:
    """One row per episode of the runs, the last attempt of each key; `EpisodeRow` documents the columns.

    `columns` selects columns and their order; fields they do not need are not decoded. Columns that may be missing
    have nullable pandas types, so `success.mean()` is over scored episodes only. Raises `ConfigError` if a folder is
    no run, a column is unknown, or a line is no episode.
    """
    hints = get_type_hints(EpisodeRow)
    names = list(hints if columns is None else dict.fromkeys(columns))
    rows = [row for run in runs for row in read_columns(Path(run), names)]
    values = zip(*rows, strict=True) if rows else ((),) * len(names)
    return pd.DataFrame(
        {name: pd.Series(column, dtype=_DTYPES[hints[name]]) for name, column in zip(names, values, strict=True)}
    )


def load_dataset(*runs: str | Path, columns: Iterable[str] | None = None) -> "Dataset":
    """The table of `load_episodes` as a Hugging Face `Dataset`; missing values are null.

    Raises `ConfigError` as `load_episodes`, and if `datasets` is not installed.
    """
    try:
        from datasets import Dataset
    except ImportError:
        raise ConfigError("load_dataset needs the datasets library; pip install 'hermes-lab[train]'") from None
    return Dataset.from_pandas(load_episodes(*runs, columns=columns), preserve_index=False)
