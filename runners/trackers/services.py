"""The trackers by name."""

from collections.abc import Callable

from hermes_lab.runners.trackers.mlflow import open_mlflow
from hermes_lab.runners.trackers.tracker import Start, Tracker
from hermes_lab.runners.trackers.wandb import open_wandb


def openers() -> dict[str, Callable[[Start], Tracker]]:
    """What opens a tracker, by the names of `tracking.services`."""
    return {"wandb": open_wandb, "mlflow": open_mlflow}
