"""How a job runs: a prompt in a new session, a command in a separate process."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import anyio
import anyio.abc
import anyio.to_thread

from hermes_lab.config.home import HomeConfig, Verbosity
from hermes_lab.cron import child
from hermes_lab.cron.deliver import filled
from hermes_lab.cron.jobs import Job
from hermes_lab.cron.runs import Claim, Outcome
from hermes_lab.errors import ConfigError
from hermes_lab.models.weights import Say
from hermes_lab.processes import python_module
from hermes_lab.protocols import Delta
from hermes_lab.sessions.keys import SessionKey
from hermes_lab.tools.registry import Ask, Send
from hermes_lab.types import ToolCall, ToolResult

if TYPE_CHECKING:
    from hermes_lab.skills.conditions import Place

_GRACE_SECONDS = 10.0
"""What a command may take to end after SIGTERM."""


class JobRunner:
    """Runs claimed jobs of one home. `sources` are the `-c` options of their prompts; `say` gets status lines."""

    def __init__(self, home: Path, sources: Sequence[str], say: Say) -> None:
        self._home = home
        self._sources = tuple(sources)
        self._say = say

    async def __call__(self, claim: Claim, output: IO[bytes]) -> Outcome:
        """Runs the job and writes its output to the file. Raises `ConfigError` and `InfraError`."""
        if claim.job.definition.command:
            return await _commands(claim, output)
        return await self._prompt(claim, output)

    async def _prompt(self, claim: Claim, output: IO[bytes]) -> Outcome:
        # Imported here, so that commands and lists of jobs start without the agent.
        from hermes_lab.chat.home_knowledge import HomeKnowledge
        from hermes_lab.chat.live import open_chat
        from hermes_lab.sessions import SessionStore

        job = claim.job.definition
        config = await anyio.to_thread.run_sync(self._config, claim)
        store, surface = SessionStore(self._home / "sessions.db"), _Unattended(job.name, self._say)
        key = SessionKey("cron", job.name)
        opening = partial(HomeKnowledge, self._home, config, _place(claim.job), _workspace(config))
        with closing(await anyio.to_thread.run_sync(opening)) as knowledge:
            async with open_chat(config, knowledge, store, surface, key, self._sources) as chat:
                await chat.begin()
                if gone := [name for name in job.skills if name not in chat.library.skills]:
                    raise ConfigError(f"skills: there is no skill {gone[0]}")
                prompt = "".join(f"/{name} " for name in job.skills) + job.prompt
                turn = await chat.conversation.submit(prompt)
                session, cost = chat.session.id, chat.conversation.cost
        output.write((turn.answer or "").encode(errors="replace"))
        note = "" if turn.stop == "answered" else f"stop reason: {turn.stop}"
        return Outcome("failed" if turn.answer is None else "ok", cost=cost, session=session, note=note)

    def _config(self, claim: Claim) -> HomeConfig:
        from hermes_lab.config.home_file import load_home_config
        from hermes_lab.tools.toolbox import check_toolsets

        job = claim.job.definition
        config = load_home_config(self._home, self._sources)
        model, agent = config.model, config.agent
        if job.model:
            model = model.model_copy(update={"name": job.model, "adapter": ""})
        if job.toolsets is not None:
            agent = agent.model_copy(update={"toolsets": job.toolsets})
        check_toolsets(agent.toolsets, agent.disabled_tools)
        return config.model_copy(update={"model": model, "agent": agent})


class _Unattended:
    """See `Surface`: nobody watches, and nobody can be asked."""

    verbosity: Verbosity = "off"
    ask: Ask | None = None
    send: Send | None = None

    def __init__(self, name: str, say: Say) -> None:
        self._name = name
        self._say = say

    def note(self, text: str) -> None:
        self._say(f"{self._name}: {text}")

    def text(self, delta: Delta) -> None:
        """See `Surface.text`."""

    def call(self, call: ToolCall) -> None:
        """See `Surface.call`."""

    def result(self, call: ToolCall, result: ToolResult) -> None:
        """See `Surface.result`."""


def _workspace(config: HomeConfig) -> Path | None:
    workspace = config.sandbox.workspace if config.chat.context_files else ""
    return Path(workspace).expanduser() if workspace else None


def _place(job: Job) -> "Place":
    """The place whose skills the job has: where it was made."""
    from hermes_lab.skills.conditions import TERMINAL, Place

    if not job.origin:
        return TERMINAL
    key = SessionKey.parse(job.origin)
    return Place(key.platform, key.chat_type or "dm")


def command_lines(claim: Claim) -> list[list[str]]:
    """The words of a job's commands, after `hermes-lab`."""
    return [_words(line, claim) for line in claim.job.definition.command]


def _words(line: str, claim: Claim) -> list[str]:
    words = shlex.split(line)
    return [filled(word, claim) for word in (words[1:] if words[0] == "hermes-lab" else words)]


async def _commands(claim: Claim, output: IO[bytes]) -> Outcome:
    """Runs the commands until one fails. Where there are several, the output has each of them above what it printed."""
    lines, code = command_lines(claim), 0
    for words in lines:
        if len(lines) > 1:
            output.write(f"$ hermes-lab {shlex.join(words)}\n".encode(errors="replace"))
            output.flush()
        if code := await _command(words, claim, output):
            break
    return Outcome("ok" if code == 0 else "failed", exit=code)


async def _command(words: list[str], claim: Claim, output: IO[bytes]) -> int:
    """The exit code of a command, which runs in a separate process group that ends with the run."""
    start = [sys.executable, "-I", "-S", child.__file__, str(os.getpid())]
    program = python_module("hermes_lab", *words)
    try:
        process = await anyio.open_process(
            [*start, *program],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=claim.job.folder,
            start_new_session=True,
        )
    except OSError as error:
        raise ConfigError(f"the command did not start in {claim.job.folder}: {error.strerror}") from None
    try:
        code = await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)
    return code


async def _end(process: anyio.abc.Process) -> None:
    """Ends what is left of the command: first as Ctrl-C does, so that it cleans up."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
        with anyio.move_on_after(_GRACE_SECONDS):
            await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    await process.aclose()
