"""Lists proposals, trainings and run folders."""

from pathlib import Path
from typing import Any

from hermes_lab.tools.registry import ToolContext, tool

_MOST = 50


@tool(toolset="rl", parallel=True)
def rl_list_runs(ctx: ToolContext) -> dict[str, Any]:
    """List proposals, trainings, and the run folders that a training can use as data; the newest 50 of each."""
    from hermes_lab.training.choices import RUNS
    from hermes_lab.training.proposals import list_proposals
    from hermes_lab.training.status import list_trainings, status
    from hermes_lab.training.tools.answers import for_a_model, told

    del ctx
    with told():
        proposals = [
            {"proposal": one.name, "method": one.method}
            | ({"problem": for_a_model(one.problem)} if one.problem else {"started": one.started})
            for one in list_proposals()
        ]
        trainings = [
            {"training": str(path), "status": status(path)["status"]} for path in _newest(list_trainings(RUNS))
        ]
        runs = [path.parent for depth in ("*", "*/*") for path in RUNS.glob(f"{depth}/run.json")]
        return {"proposals": proposals[-_MOST:], "trainings": trainings, "runs": [str(run) for run in _newest(runs)]}


def _newest(folders: list[Path]) -> list[Path]:
    return sorted(folders, key=lambda path: path.stat().st_mtime)[-_MOST:]
