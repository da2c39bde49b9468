"""The lab as an MCP server: what other agents may read of runs, skills and suites. It changes nothing.

Each tool is a command of the command line that only reads, in a process of its own.
"""

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from hermes_lab.errors import HermesLabError
from hermes_lab.processes import python_module
from hermes_lab.returned import load_tasks
from hermes_lab.text.clip import clip

_CHARS = 40_000
_MOST_TASKS = 50
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
Run = Annotated[str, Field(description="Path of a run below the served folder, as listed by `runs`.")]


def build_server(root: Path) -> MCPServer:
    """The server of the runs below `root`."""
    served = _Served(root.resolve())
    server = MCPServer("hermes-lab", version=version("hermes-lab"))
    for tool in (served.runs, served.summary, served.show, served.compare, served.skills, served.tasks):
        server.add_tool(tool, annotations=_READS)
    return server


class _Served:
    """The tools. Raise `ToolError`, whose message the caller sees."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def runs(self) -> dict[str, Any]:
        """List the runs: path, command, suite, planned episodes and creation time."""
        return {"runs": await anyio.to_thread.run_sync(self._runs)}

    def _runs(self) -> list[dict[str, Any]]:
        found = []
        for manifest in sorted(self._root.glob("**/run.json")):
            if manifest.is_symlink() or not manifest.resolve().is_relative_to(self._root):
                continue
            try:
                content = json.loads(manifest.read_text())
            except (OSError, ValueError):
                continue
            row = {"run": str(manifest.parent.relative_to(self._root))}
            row |= {key: content[key] for key in ("command", "wanted", "created_at") if key in content}
            found.append(row | {"suite": content.get("config", {}).get("suite", {}).get("name", "")})
        return found

    async def summary(self, run: Run) -> dict[str, Any]:
        """Summarize a run: success by arm, task and stop reason, with intervals, tokens, cost and failures."""
        return await _asked(["summary", str(self._at(run)), "--json"])

    async def show(
        self,
        run: Run,
        episode: Annotated[
            str, Field(description="Number in the list, key or task of an episode; if empty, all are listed.")
        ] = "",
        lane: Annotated[str, Field(description="Only lanes whose names start with this, such as an arm.")] = "",
    ) -> dict[str, Any]:
        """List the episodes of a run, or show one in full: messages, verdicts and skill changes."""
        chosen = [*(["--episode", episode] if episode else []), *(["--lane", lane] if lane else [])]
        return await _asked(["show", str(self._at(run)), *chosen, "--json"])

    async def compare(
        self,
        before: Run,
        after: Annotated[
            str, Field(description="A second run on the same tasks; if empty, the arms of `before`.")
        ] = "",
        arms: Annotated[str, Field(description="Arms to compare, such as `off,on`; if empty, the defaults.")] = "",
    ) -> dict[str, Any]:
        """Compare two runs task by task, or the arms of one run, to see whether the agent improved. `warnings` has what
        may make the numbers meaningless."""
        runs = [str(self._at(name)) for name in (before, after) if name]
        return await _asked(["compare", *runs, *(["--arms", arms] if arms else []), "--json"])

    async def skills(
        self,
        run: Run,
        lane: Annotated[str, Field(description="The lane whose skills to read, such as `on-r0-w0`.")],
        name: Annotated[str, Field(description="A skill to read in full; if empty, all are listed.")] = "",
    ) -> dict[str, Any]:
        """List the skills that a lane of a run has learned, or read one of them."""
        library = f"{self._at(run)}:{lane}"
        if name:
            return await _asked(["skills", "show", "--in", library, "--json", "--", name])
        return await _asked(["skills", "list", library, "--json"])

    async def tasks(
        self,
        suite: Annotated[str, Field(description="Name of a suite; if empty, the suites are listed.")] = "",
        count: Annotated[int, Field(ge=1, le=_MOST_TASKS)] = 5,
        split: str = "train",
        seed: int = 0,
        world: Annotated[int, Field(ge=0)] = 0,
    ) -> dict[str, Any]:
        """List the suites, or show tasks of one suite as the agent gets them: the prompt and the names of its files."""
        if not suite:
            return await _asked(["tasks", "list", "--json"])
        return {"tasks": await anyio.to_thread.run_sync(_tasks, suite, count, split, seed, world)}

    def _at(self, run: str) -> Path:
        """The folder of a run. Links that lead out of the served folder are not followed."""
        try:
            path = (self._root / run).resolve()
            if path.is_relative_to(self._root) and (path / "run.json").is_file():
                return path
        except (OSError, ValueError):  # such as a name that is too long, or has a NUL
            pass
        raise ToolError(f"there is no run {run[:100]!r}; `runs` lists all runs")


def _tasks(suite: str, count: int, split: str, seed: int, world: int) -> list[dict[str, Any]]:
    from hermes_lab.config.schema import SuiteConfig
    from hermes_lab.tasks import list_suites, load_suite

    if suite not in list_suites():  # such as a `module:Class`, whose code a client must not choose
        raise ToolError(f"no suite {suite[:100]!r}; `tasks` without a suite lists all")
    try:
        loaded = load_suite(SuiteConfig(name=suite))
        tasks = load_tasks(loaded, split=split, count=count, seed=seed, world=world, fewer=True)
    except HermesLabError as error:
        raise ToolError(str(error)) from None
    return [
        {"id": task.id, "domain": task.domain, "prompt": task.prompt, "files": sorted(task.files)} for task in tasks
    ]


async def _asked(command: Sequence[str]) -> dict[str, Any]:
    """What a command prints as JSON; long texts in it are cut. Raises `ToolError` with what it says if it fails."""
    done = await anyio.run_process(python_module("hermes_lab", *command), check=False)
    said = done.stderr.decode(errors="replace").strip().removeprefix("hermes-lab: error: ")
    if done.returncode not in (0, 1) or not done.stdout.strip():
        raise ToolError(said or f"the command ended with {done.returncode}")
    text = done.stdout.decode(errors="replace")
    try:
        found = json.loads(text)
    except ValueError:
        return {"text": clip(text, _CHARS).text}
    if len(text) > _CHARS:
        return {"text": clip(text, _CHARS).text}
    return found if isinstance(found, dict) else {"rows": found}
