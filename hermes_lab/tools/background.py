"""Commands that go on in the background of an episode: `terminal` starts them, `process` looks after them.

Everything goes through `Sandbox.exec`, so it is the same in every kind of sandbox.
"""

import shlex
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hermes_lab.errors import ToolError
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.scratch import Scratch, inside, room

_START_SECONDS = 30.0
_KILLED = 137  # the exit code of a command that SIGKILL ended

# The outer shell leads a session of its own, so that the group of its id is the whole command. The log is there before
# it: a look may come before the shell has opened it.
_START = """\
mkdir -p {folder} && : >{folder}/log && {{
  setsid bash -c 'bash -c "$1"; echo "$?" >"$2"' bash {command} {folder}/exit >{folder}/log 2>&1 </dev/null &
}} && echo "$!"
"""
# A process that is dead but not yet reaped still answers to kill -0. First a look at the process, then at the file:
# one that ends in between has an exit code.
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
# The part of a log that was not seen, but no more of it than its last bytes.
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
    """A command in the background. `seen`: bytes of its log that the model was shown."""

    id: str
    command: str
    pid: int
    folder: str
    seen: int = 0
    status: Literal["running", "exited", "killed"] = "running"
    exit_code: int | None = None

    def note(self, look: str) -> None:
        """Takes over what a look at it gave. One that ended without an exit code was killed."""
        if self.status == "running" and look != "running":
            self.status = "exited" if look.isdecimal() else "killed"
            self.exit_code = int(look) if look.isdecimal() else _KILLED


class News(NamedTuple):
    """What a command wrote since the last look. `skipped`: bytes before `text` that were left out."""

    text: str
    skipped: int


class Background:
    """The background commands of one episode (`ToolContext.state`)."""

    def __init__(self) -> None:
        self.processes: dict[str, Process] = {}
        self._begun = 0

    def find(self, id: str) -> Process:
        """Raises `ToolError` listing what there is."""
        if id not in self.processes:
            raise ToolError(f"no background command {id!r}; there are: {', '.join(self.processes) or 'none'}")
        return self.processes[id]

    async def start(self, ctx: ToolContext, command: str, workdir: str) -> Process:
        """Starts a command with the agent's directory and variables."""
        self._begun += 1
        id = f"p{self._begun}"
        folder = f"{await ctx.state(Scratch).folder(ctx.sandbox)}/{id}"
        script = _START.format(folder=folder, command=shlex.quote(command))
        result = await ctx.sandbox.exec(script, timeout=_START_SECONDS, workdir=workdir)
        pid = next(filter(str.isdecimal, result.output.splitlines()), "")
        if result.exit_code or not pid:
            raise ToolError(result.output.strip() or "the command could not be started")
        self.processes[id] = Process(id, command, int(pid), folder)
        return self.processes[id]

    async def look(self, ctx: ToolContext, processes: Collection[Process]) -> None:
        """Brings their status up to date."""
        if running := [process for process in processes if process.status == "running"]:
            script = "\n".join(f"look {process.folder} {process.pid}" for process in running)
            lines = (await inside(ctx.sandbox, _LOOK + script)).splitlines()
            for process, line in zip(running, lines, strict=False):
                process.note(line)

    async def news(self, ctx: ToolContext, process: Process) -> News:
        """What it wrote since the last call, the newest of it where that is much. Brings the status up to date."""
        script = _NEWS.format(folder=process.folder, pid=process.pid, seen=process.seen, most=room(ctx))
        look, numbers, text = (await inside(ctx.sandbox, _LOOK + script)).split("\n", 2)
        size, start = map(int, numbers.split())
        skipped, process.seen = start - process.seen, size
        process.note(look)
        return News(text, skipped)

    async def lines(self, ctx: ToolContext, process: Process, offset: int | None, limit: int) -> tuple[str, int]:
        """Lines of all that it wrote, from line `offset` or else the last ones; and how many there are."""
        log = f"{process.folder}/log"
        if offset is None:
            part = f"tail -n {limit} {log} | tail -c {room(ctx)}"
        else:
            part = f"tail -n +{offset} {log} | head -n {limit} | head -c {room(ctx)}"
        total, text = (await inside(ctx.sandbox, f"grep -c '' {log}; {part}")).split("\n", 1)
        return text, int(total)

    async def kill(self, ctx: ToolContext, process: Process) -> None:
        """Ends it, with all that it started; one that has just begun leads no group yet."""
        await self.look(ctx, [process])
        itself = process.pid if process.status == "running" else ""
        await inside(ctx.sandbox, f"kill -KILL -- -{process.pid} {itself} 2>/dev/null || true")
        process.note("killed")
