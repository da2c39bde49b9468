"""Background commands of an episode; `terminal` starts them and `process` manages them.

All of it uses `Sandbox.exec`, so it works in every kind of sandbox.
"""

import shlex
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.scratch import Scratch, room, run_script

_START_SECONDS = 30.0
_KILLED = 137  # exit code after SIGKILL

# The outer shell leads its own session, so that its process group is the whole command. The log is created first, since
# it may be read before the shell has opened it.
_START = """\
mkdir -p {folder} && : >{folder}/log && {{
  setsid bash -c 'bash -c "$1"; echo "$?" >"$2"' bash {command} {folder}/exit >{folder}/log 2>&1 </dev/null &
}} && echo "$!"
"""
# `kill -0` also succeeds for a zombie. The process is checked before the file: if it exits in between, there is an exit
# code.
_LOOK = """\
look() {
  local state=gone stat
  if kill -0 "$2" 2>/dev/null; then
    state=running
    { read -r stat <"/proc/$2/stat"; } 2>/dev/null && [[ $stat == *") Z "* ]] && state=gone
  fi
  [[ -s $1/exit ]] && read -r state <"$1/exit"
  echo "$state"
}
"""
# Prints the new part of a log, or only its end if it is too long.
_NEWS = """\
[[ -f {folder}/log ]] || {{ echo "its output was deleted"; exit 1; }}
look {folder} {pid}
size=$(stat -c %s {folder}/log) start=$((size - {most}))
((start < {seen})) && start={seen}
echo "$size $start"
tail -c +$((start + 1)) {folder}/log | head -c $((size - start))
"""


@dataclass
class Process:
    """A background command. `seen` is the number of bytes of its log that the model has seen."""

    id: str
    command: str
    pid: int
    folder: str
    seen: int = 0
    status: Literal["running", "exited", "killed"] = "running"
    exit_code: int | None = None

    def note(self, look: str) -> None:
        """Updates the status from the output of `look`. A process that ended without an exit code was killed."""
        if self.status == "running" and look != "running":
            self.status = "exited" if look.isdecimal() else "killed"
            self.exit_code = int(look) if look.isdecimal() else _KILLED


class News(NamedTuple):
    """New output of a command. `skipped` is the number of bytes left out before `text`."""

    text: str
    skipped: int


class Background:
    """The background commands of one episode (`ToolContext.state`)."""

    def __init__(self) -> None:
        self.processes: dict[str, Process] = {}
        self._started = 0

    def find(self, id: str) -> Process:
        """Returns the command with this id. Raises `ToolError` listing the known ids."""
        if id not in self.processes:
            raise ToolError(f"no background command {id!r}; known ids: {', '.join(self.processes) or 'none'}")
        return self.processes[id]

    async def start(self, ctx: ToolContext, command: str, workdir: str) -> Process:
        """Starts a command with the agent's working directory and environment variables."""
        self._started += 1
        id = f"p{self._started}"
        folder = f"{await ctx.state(Scratch).folder(ctx.sandbox)}/{id}"
        script = _START.format(folder=folder, command=shlex.quote(command))
        result = await ctx.sandbox.exec(script, timeout=_START_SECONDS, workdir=workdir)
        pid = next(filter(str.isdecimal, result.output.splitlines()), "")
        if result.exit_code or not pid:
            raise ToolError(result.output.strip() or "the command could not be started")
        self.processes[id] = Process(id, command, int(pid), folder)
        return self.processes[id]

    async def look(self, ctx: ToolContext, processes: Collection[Process]) -> None:
        """Updates the status of the processes."""
        if running := [process for process in processes if process.status == "running"]:
            script = "\n".join(f"look {process.folder} {process.pid}" for process in running)
            lines = (await run_script(ctx.sandbox, _LOOK + script)).splitlines()
            for process, line in zip(running, lines, strict=False):
                process.note(line)

    async def news(self, ctx: ToolContext, process: Process) -> News:
        """Returns the output since the last call, or only its end if it is too long. Updates the status."""
        script = _NEWS.format(folder=process.folder, pid=process.pid, seen=process.seen, most=room(ctx))
        look, numbers, text = (await run_script(ctx.sandbox, _LOOK + script)).split("\n", 2)
        size, start = map(int, numbers.split())
        skipped, process.seen = start - process.seen, size
        process.note(look)
        return News(text, skipped)

    async def lines(self, ctx: ToolContext, process: Process, offset: int | None, limit: int) -> tuple[str, int]:
        """Returns `limit` lines of the log, from line `offset` or else the last ones, and the total number of lines."""
        log = f"{process.folder}/log"
        if offset is None:
            part = f"tail -n {limit} {log} | tail -c {room(ctx)}"
        else:
            part = f"tail -n +{offset} {log} | head -n {limit} | head -c {room(ctx)}"
        total, text = (await run_script(ctx.sandbox, f"grep -c '' {log}; {part}")).split("\n", 1)
        return text, int(total)

    async def kill(self, ctx: ToolContext, process: Process) -> None:
        """Kills the process group, and the process itself, which may not lead its group yet just after the start."""
        await self.look(ctx, [process])
        itself = process.pid if process.status == "running" else ""
        await run_script(ctx.sandbox, f"kill -KILL -- -{process.pid} {itself} 2>/dev/null || true")
        process.note("killed")
