"""Weights & Biases: offline files in the run folder, unless WANDB_MODE says otherwise."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes_lab.runners.trackers.tracker import Start


class WandbTracker:
    """A run of Weights & Biases."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """As a row of the run's history."""
        self._run.log({**metrics, "episodes/step": step})

    def finish(self, summary: Mapping[str, float], verdict: str, report: Path | None, *, complete: bool) -> None:
        """As the run's summary, and an artifact with the report."""
        import wandb

        self._run.summary.update({**summary, "verdict": verdict})
        if report:
            artifact = wandb.Artifact(f"report-{self._run.id}", type="report", description=verdict)
            artifact.add_file(str(report))
            self._run.log_artifact(artifact)
        self._run.finish(exit_code=0 if complete else 1)


def open_wandb(start: Start) -> WandbTracker:
    """Starts a run. Raises `ModuleNotFoundError` without the client."""
    import wandb

    run = wandb.init(
        project=start.project,
        name=start.name,
        group=start.name,  # the starts of a resumed run
        job_type=start.command,
        dir=str(start.folder.absolute()),
        config={**start.config, "resumed": start.resumed},
        mode=os.environ.get("WANDB_MODE", "offline"),  # type: ignore[arg-type]
        # Neither the terminal's output nor the code of the working directory is the run's.
        settings=wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True),
    )
    return WandbTracker(run)
