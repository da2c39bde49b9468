"""The browser of one agent: a program in its sandbox that is asked for one action at a time."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
import msgspec

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import SandboxError, ToolError
from hermes_lab.protocols import Process, Sandbox
from hermes_lab.web.browser.installed import Installed, find_installed

if TYPE_CHECKING:
    from hermes_lab.web.browser.site import Site

_SCRIPT = ".hermes/browser.mjs"
_FOLDER = "/tmp"
_START_SECONDS, _CALL_SECONDS, _END_SECONDS = 90.0, 60.0, 3.0
_LONGEST_LINE = 4 << 20
MOST = 200_000
"""Characters of a page that are read from the browser."""
TIMES = {"start_ms": 60_000, "load_ms": 15_000, "act_ms": 5_000, "settle_ms": 5_000, "look_ms": 15_000}
"""How long the browser may take to start, to load a page, to act on an element, until nothing loads any more, and to
make a snapshot."""
_ARGUMENTS = (
    # Fewer threads, which count to sandbox.processes.
    "--disable-gpu",
    "--in-process-gpu",
    "--renderer-process-limit=2",
    "--disable-site-isolation-trials",
)
_NO_HOSTS = (
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1, EXCLUDE [::1], EXCLUDE sandbox"
)

Action = Literal["navigate", "snapshot", "click", "type", "back"]


class Seen(msgspec.Struct, frozen=True):
    """The page after an action. `status` is the HTTP status of a page that was loaded, 0 if none was. `dead` says why
    the browser must be closed, `error` why the action failed. `whole`: whether `text` is all of the page."""

    call: int = 0
    url: str = ""
    title: str = ""
    text: str = ""
    whole: bool = True
    status: int = 0
    notes: tuple[str, ...] = ()
    error: str = ""
    dead: Literal["", "hung", "crashed"] = ""


class _Line(msgspec.Struct, frozen=True):
    """The part of a line that tells its kind."""

    ready: bool = False
    failed: str = ""
    ask: int = 0
    url: str = ""
    method: str = ""


class _Broken(Exception):
    """The program ended, or broke its protocol."""


class BrowserSession:
    """The browser of one agent (`ToolContext.state`). It starts with the first action, and ends with the sandbox.

    After a crash the action fails, and the next one starts a new browser.
    """

    def __init__(self) -> None:
        self._process: Process | None = None
        self._buffer = bytearray()
        self._calls = 0
        self._lock = anyio.Lock()

    async def act(self, sandbox: Sandbox, config: SandboxConfig, site: "Site", action: Action, **given: object) -> Seen:
        """Does an action, and returns the page afterwards. Raises `ToolError` if it failed, or the browser did."""
        async with self._lock:
            if self._process is None and action != "navigate":
                raise ToolError("no page is open; open one with browser_navigate")
            try:
                with anyio.fail_after(_START_SECONDS if self._process is None else _CALL_SECONDS):
                    process = self._process or await self._start(sandbox, config, site)
                    seen = await self._call(process, site, action, given)
            except (_Broken, TimeoutError, SandboxError) as failure:
                why = await self._why(failure, config)
                raise ToolError(f"{why}; its pages are gone, and the next call starts a new one") from None
            except anyio.get_cancelled_exc_class():
                await self._end()  # the answer to this call must not be taken for that to the next one
                raise
            if seen.dead:
                said = "the page crashed" if seen.dead == "crashed" else "the page does not respond: its script hangs"
                why = await self._why(_Broken(f"{said}, and the browser was closed"), config)
                raise ToolError(f"{why}; its pages are gone, and the next call starts a new one")
        if seen.error:
            raise ToolError("; ".join((seen.error, *seen.notes)))
        return seen

    async def _start(self, sandbox: Sandbox, config: SandboxConfig, site: "Site") -> Process:
        installed = find_installed()
        if not isinstance(installed, Installed):
            raise ToolError(f"no browser is available on this machine: {installed}")
        await sandbox.provide(_SCRIPT, Path(__file__).with_name("page.mjs").read_bytes())
        # The machine's own user may be reached from a page only where the sandbox is none: there Chromium has its own.
        protected = config.backend == "local" and os.geteuid() != 0
        arguments = [*_ARGUMENTS, *([] if protected else ["--no-zygote"]), *([] if site.network else [_NO_HOSTS])]
        options = {"sandbox": protected, "arguments": arguments, "most": MOST, **TIMES}
        program = (str(installed.driver / "node"), f"{sandbox.skills_path}/{_SCRIPT}")
        # DEBUG puts what Chromium complains of on stderr.
        environment = {"HOME": _FOLDER, "TMPDIR": _FOLDER, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        environment |= {"DEBUG": "pw:browser", "DEBUG_COLORS": "0"}
        given = (str(installed.driver / "package"), str(installed.chromium), json.dumps(options))
        self._buffer.clear()
        self._process = await sandbox.start((*program, *given), environment)
        while not (line := (await self._line(self._process))[0]).ready:
            if line.failed:
                raise _Broken(f"the browser does not start: {line.failed}")
        return self._process

    async def _call(self, process: Process, site: "Site", action: Action, given: dict[str, object]) -> Seen:
        self._calls += 1
        await self._say(process, {"call": self._calls, "do": action, **given})
        while True:
            line, raw = await self._line(process)
            if line.ask:
                reply = await site.answer(line.url, line.method)
                answer = {"status": reply.status, "body": reply.body, "type": reply.type, "pass": reply.passed}
                await self._say(process, {"asked": line.ask, **answer})
                continue
            try:
                seen = msgspec.json.decode(raw, type=Seen)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise _Broken(f"the browser gave no valid answer: {error}") from None
            if seen.call == self._calls:
                return seen

    async def _say(self, process: Process, message: dict[str, Any]) -> None:
        text = json.dumps(message)  # ASCII: no character of a page is a line break
        await process.send(f"{text}\n".encode())

    async def _line(self, process: Process) -> tuple[_Line, bytes]:
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > _LONGEST_LINE:
                raise _Broken("the browser gave an answer without end")
            if not (data := await process.receive()):
                raise _Broken("the browser has ended")
            self._buffer += data
        raw = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            return msgspec.json.decode(raw, type=_Line), raw
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _Broken(f"the browser gave no valid answer: {error}") from None

    async def _why(self, failure: Exception, config: SandboxConfig) -> str:
        """What happened to the browser, which is closed; names the limit that it hit."""
        process = self._process
        await self._end()
        said = process.errors() if process else ""
        if "MB of memory]" in said:
            return f"the browser was killed: it needs more than sandbox.memory_mb={config.memory_mb}; raise that"
        if "Resource temporarily unavailable" in said:
            return f"the browser was killed: it needs more than sandbox.processes={config.processes}; raise that"
        if isinstance(failure, TimeoutError):
            return "the browser did not answer in time"
        return str(failure)

    async def _end(self) -> None:
        """Closes the browser. It ends with its stdin, and takes Chromium along; killed, it could not."""
        process, self._process = self._process, None
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            await process.close_stdin()
            with anyio.move_on_after(_END_SECONDS):
                await process.wait()
            await process.kill()
