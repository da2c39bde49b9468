"""Tells the user when a background command has ended."""

from hermes_lab.config.home import NoticeLevel
from hermes_lab.text.clip import clip
from hermes_lab.tools.background import Background, Process
from hermes_lab.tools.registry import ToolContext

_LINES, _CHARS = 10, 2_000


class Notices:
    """The notices of one chat: the end of each command is announced once."""

    def __init__(self, level: NoticeLevel) -> None:
        self._level = level
        self._told: set[int] = set()

    async def new(self, context: ToolContext) -> list[str]:
        """What has ended since the last call. Raises `SandboxError` if the sandbox has died."""
        background = context.state(Background)
        if not background.processes:
            return []
        await background.look(context, background.processes.values())
        if self._level == "off":
            return []
        ended = [
            each for each in background.processes.values() if each.status != "running" and each.pid not in self._told
        ]
        self._told |= {process.pid for process in ended}
        return [
            await self._told_of(context, background, each) for each in ended if each.exit_code or self._level != "error"
        ]

    async def _told_of(self, context: ToolContext, background: Background, process: Process) -> str:
        how = "was killed" if process.status == "killed" else f"ended with exit code {process.exit_code}"
        text = f"background {process.id} {how}: {clip(process.command, 200).text}"
        if self._level != "all":
            return text
        last, _ = await background.lines(context, process, None, _LINES)
        return f"{text}\n{clip(last, _CHARS).text}".rstrip()
