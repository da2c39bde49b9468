"""MLflow: files in the run folder, or the server of MLFLOW_TRACKING_URI."""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hermes_lab.runners.trackers.tracker import Start

_LONGEST = 500
"""Characters of a parameter; older servers accept no more."""
_BATCH = 100
"""Most parameters of one request."""


class MlflowTracker:
    """A run of MLflow."""

    def __init__(self, client: Any, run_id: str) -> None:
        self._client = client
        self._run_id = run_id

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """As metrics at that step."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        values = [Metric(name, value, now, step) for name, value in metrics.items()]
        self._client.log_batch(self._run_id, metrics=values)

    def finish(self, summary: Mapping[str, float], verdict: str, report: Path | None, *, complete: bool) -> None:
        """As metrics, a tag and an artifact."""
        for name, value in summary.items():
            self._client.log_metric(self._run_id, name, value)
        self._client.set_tag(self._run_id, "verdict", verdict)
        if report:
            self._client.log_artifact(self._run_id, str(report))
        self._client.set_terminated(self._run_id, "FINISHED" if complete else "FAILED")


def open_mlflow(start: Start) -> MlflowTracker:
    """Starts a run. Raises `ModuleNotFoundError` without the client."""
    # Its client reports its use to its makers, unless it is told not to before it is imported; and it refuses its own
    # file store, the only one that needs no database, without the second.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    where = os.environ.get("MLFLOW_TRACKING_URI") or f"file:{start.folder.absolute() / 'mlruns'}"
    if where.startswith("file:"):
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow.entities import Param
    from mlflow.tracking import MlflowClient

    client = MlflowClient(where)
    found = client.get_experiment_by_name(start.project)
    experiment = found.experiment_id if found else client.create_experiment(start.project)
    tags = {"command": start.command, "folder": str(start.folder), "resumed": str(start.resumed).lower()}
    run_id = client.create_run(experiment, run_name=start.name, tags=tags).info.run_id
    params = [Param(name, value[:_LONGEST]) for name, value in _flat(start.config) if value]
    for first in range(0, len(params), _BATCH):
        client.log_batch(run_id, params=params[first : first + _BATCH])
    return MlflowTracker(client, run_id)


def _flat(config: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, str]]:
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{at}{name}.")
        else:
            yield f"{at}{name}", str(value)
