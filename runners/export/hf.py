"""`hf`: a folder for `datasets.load_dataset(path)`: one Parquet file per split, and a dataset card."""

import json
import re
from collections.abc import Iterable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from hermes_lab.errors import ConfigError
from hermes_lab.manifest import read_manifest
from hermes_lab.runners.export.chat import chat, sent_tools
from hermes_lab.runners.export.metadata import metadata
from hermes_lab.runners.export.source import Source
from hermes_lab.types import Episode, Trajectory

_BATCH = 500
"""Rows per Parquet row group, and the most rows of a split in memory."""

_COLUMNS = {
    "episode": "string",
    "suite": "string",
    "task_id": "string",
    "lane": "string",
    "round": "int64",
    "sample": "int64",
    "experience": "int64",
    "domain": "string",
    "score": "float64",
    "success": "bool_",
    "accepted": "bool_",
    "stop_reason": "string",
    "model": "string",
    "adapter_digest": "string",
    "snapshot": "string",
    "config_digest": "string",
}
"""Metadata that are columns, for filtering and grouping, with their Arrow types."""

_CARD = """\
---
pretty_name: {name}
tags: [agent, tool-use, trajectories, hermes-lab]
configs:
- config_name: default
  data_files:
{files}
---
# {name}

{total} episodes of the Hermes Lab run `{name}`; config digest `{digest}`. A row is one episode:

- `messages`: role, content, reasoning_content, tool_calls (arguments as JSON text) and tool_call_id, as the model saw
  and wrote them; absent fields are empty
- `tools`: the OpenAI function schemas of the requests, as JSON text
- `score` and `success` of the first submission, `accepted` of the last one; null without a verifier
- `metadata`: all metadata of the episode as JSON text; some of it is repeated as columns

```python
from datasets import load_dataset

episodes = load_dataset("PATH")  # this folder, or its name on the hub
```
"""


def write(source: Source, folder: Path) -> int:
    """Fills `folder`; returns the number of rows. Rows are split by the task's split."""
    arrow = _arrow()
    splits: dict[str, _Split] = {}
    with ExitStack() as files:

        def split(name: str) -> _Split:
            if name not in splits:
                splits[name] = files.enter_context(_Split(arrow, folder / f"{name}.parquet"))
            return splits[name]

        for episode, trajectory in source.finished():
            split(split_name(episode.task.split)).add(_row(episode, trajectory))
        if not splits:
            split("train")
    total = sum(split.count for split in splits.values())
    (folder / "README.md").write_text(_card(source.run, splits, total))
    return total


def split_name(split: str) -> str:
    """A split name that is valid for `datasets`."""
    return re.sub(r"\W+", "_", split, flags=re.ASCII).strip("_") or "train"


class _Split:
    """Writes the rows of one split to its file."""

    def __init__(self, arrow: ModuleType, path: Path) -> None:
        self._arrow = arrow
        self._schema = _schema(arrow)
        self._file = import_module("pyarrow.parquet").ParquetWriter(path, self._schema)
        self._rows: list[dict[str, Any]] = []
        self.count = 0

    def __enter__(self) -> "_Split":
        return self

    def __exit__(self, *exc: object) -> None:
        self._flush()
        self._file.close()

    def add(self, row: dict[str, Any]) -> None:
        """Adds a row."""
        self._rows.append(row)
        self.count += 1
        if len(self._rows) == _BATCH:
            self._flush()

    def _flush(self) -> None:
        self._file.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
        self._rows = []


def _arrow() -> ModuleType:
    """Imports pyarrow lazily: it is an optional dependency without type hints, and takes half a second to import."""
    try:
        return import_module("pyarrow")
    except ImportError:
        raise ConfigError("--format hf: needs pyarrow; install the extra: pip install 'hermes-lab[train]'") from None


def _schema(arrow: Any) -> Any:
    """A fixed schema for all episodes: fields whose structure varies are JSON text."""
    text = arrow.string()
    call = {"id": text, "type": text, "function": arrow.struct({"name": text, "arguments": text})}
    message = {"role": text, "content": text, "reasoning_content": text}
    message |= {"tool_calls": arrow.list_(arrow.struct(call)), "tool_call_id": text}
    columns = {name: getattr(arrow, kind)() for name, kind in _COLUMNS.items()}
    columns |= {"messages": arrow.list_(arrow.struct(message)), "tools": text, "metadata": text}
    return arrow.schema(columns)


_EMPTY: dict[str, Any] = {"reasoning_content": "", "tool_calls": [], "tool_call_id": ""}


def _row(episode: Episode, trajectory: Trajectory) -> dict[str, Any]:
    meta = metadata(episode, trajectory)
    return {
        **{name: meta[name] for name in _COLUMNS},
        "messages": [{**_EMPTY, **message} for message in chat(trajectory)],
        "tools": json.dumps(sent_tools(trajectory), ensure_ascii=False),
        "metadata": json.dumps(meta, ensure_ascii=False),
    }


def _card(run: Path, splits: Iterable[str], total: int) -> str:
    files = "\n".join(f"  - split: {name}\n    path: {name}.parquet" for name in splits)
    digest = read_manifest(run).config_digest
    return _CARD.format(name=json.dumps(run.resolve().name)[1:-1], files=files, total=total, digest=digest)
