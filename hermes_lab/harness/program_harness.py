"""A program as a worker: it runs inside the episode's sandbox and asks the recording proxy for every reply."""

import logging
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Protocol

import anyio
import anyio.to_thread
import msgspec

from hermes_lab.agent.review import outcome_of
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError, ContextFull, InfraError, ModelError, NoRoomForReply, ProgramError, ToolError
from hermes_lab.harness.acp import AcpConversation
from hermes_lab.harness.command import CommandConversation, shell_environment
from hermes_lab.harness.home import Harvest, OriginOf, Writer, furnish, harvest
from hermes_lab.harness.installed import Installed
from hermes_lab.harness.loads import loaded_skills, shows
from hermes_lab.harness.own import with_triggers
from hermes_lab.harness.program import Ended, Program, Start
from hermes_lab.harness.scripted import ProgramModel
from hermes_lab.harness.state import States, pack_state
from hermes_lab.harness.worker import Assignment, Work, limited
from hermes_lab.memory.notes import Notes
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.protocols import ModelClient
from hermes_lab.proxy import Proxy, upstream_for
from hermes_lab.proxy.conversations import Conversations, Sorter, Thread
from hermes_lab.sandbox.extras import Extras
from hermes_lab.skills.learning.observe import texts
from hermes_lab.skills.learning.trace import traces
from hermes_lab.skills.library import Library
from hermes_lab.tools.registry import Tool
from hermes_lab.types import EpisodeError, MemoryUse, Review, SkillUse, SkillWrite, Trajectory, Verdict
from hermes_lab.types.trajectory import StopReason

_log = logging.getLogger(__name__)
_PORT = 8000
_QUIET_SECONDS = 0.2
"""Seconds without a request after which a server of the Agent Client Protocol is idle after its answer."""

REVIEW = """\
Review: did this work teach you a rule that later tasks will need? If so, save it as a skill: a folder {skills}/NAME \
with a file SKILL.md that begins with

---
name: NAME
description: when the skill is needed
---

and then says what to do. NAME is lowercase words with hyphens. If an existing skill covers the rule, change that \
one. Do not save missing programs or credentials, temporary failures, one-off events, or that a tool does not work. \
If there is nothing to save, say so."""
"""What the lab asks a program without a review of its own, after the outcome."""


class Conversation(Protocol):
    """A way to give a program one prompt after another."""

    async def turn(self, prompt: str) -> Ended:
        """Works on a prompt until the program has answered. Raises `ProgramError` if it breaks its protocol."""
        ...

    async def aclose(self) -> None:
        """Ends the program."""
        ...


@dataclass(frozen=True)
class PromptLog:
    """The prompts sent to the program, and the review request."""

    program: Program
    asked: str
    prompts: list[str] = field(default_factory=list)

    def is_review(self, text: str) -> bool:
        """Whether a user message asks for a review: the lab's, or the program's own."""
        return self.asked in text or self.program.is_review(text)


@dataclass(frozen=True)
class ProgramHarness:
    """Starts a program for each episode, in a home of its own."""

    config: RunConfig
    installed: Installed
    states: States | None = None

    @property
    def extras(self) -> Extras:
        """See `Harness.extras`."""
        return Extras(self.installed.folders, home=True, address_space=False)

    @cached_property
    def reviews_itself(self) -> bool:
        """Whether the program's own review is awaited, rather than one asked for."""
        wanted = self.config.agent.review
        return wanted == "own" or (wanted == "auto" and self.installed.program.learns)

    @asynccontextmanager
    async def open(self, assignment: Assignment) -> AsyncIterator["ProgramWorker"]:
        """See `Harness.open`."""
        if assignment.session and assignment.session.tools:
            raise ConfigError(
                f"{assignment.task.suite}: its tasks have tools of their own, which agent.program="
                f"{self.installed.name} cannot be given"
            )
        sandbox, program = assignment.sandbox, self.installed.program
        with closing(await sandbox.listen(_PORT)) as listener:
            start = self._start(assignment, listener.getsockname()[1])
            await anyio.to_thread.run_sync(self._furnish, start, assignment)
            prompt_log = PromptLog(program, asked=REVIEW.format(skills=f"{start.home}/{program.skills}"))
            async with self._proxy(start, prompt_log, assignment) as proxy:
                await proxy.serve(listener)
                conversation = self._conversation(program, start, assignment)
                try:
                    yield ProgramWorker(self, assignment, proxy, conversation, prompt_log)
                finally:
                    with anyio.CancelScope(shield=True):
                        await conversation.aclose()

    def _start(self, assignment: Assignment, port: int) -> Start:
        identity = assignment.model.identity
        return Start(
            model=identity.adapter or identity.name,
            url=f"http://127.0.0.1:{port}",
            key=secrets.token_urlsafe(24),
            home=PurePosixPath(assignment.sandbox.home_path),
            workspace=PurePosixPath(assignment.sandbox.workspace_path),
            review_after=self._review_after(assignment),
            context_tokens=self.config.agent.context_tokens,
            carry_state=self.states is not None,
            settings=self.installed.read_settings(),
        )

    def _furnish(self, start: Start, assignment: Assignment) -> None:
        home, knowledge = assignment.sandbox.home, assignment.knowledge
        furnish(home, self.installed.program, start, knowledge)
        if self.states and knowledge.state:
            self.states.restore(home, knowledge.state)

    def _proxy(self, start: Start, prompt_log: PromptLog, assignment: Assignment) -> Proxy:
        client: ModelClient = assignment.model
        if isinstance(client, ScriptedModel):
            skills = f"{start.home}/{prompt_log.program.skills}"
            client = ProgramModel(client, prompt_log.program.shell, skills, prompt_log.prompts, prompt_log.is_review)
        return Proxy(
            upstream_for(self.config.model, client, prompt_log.program.dialect),
            self.config.agent,
            self.config.model.price,
            key=start.key,
            models=[start.model],
            sorter=Sorter(prompt_log.prompts, prompt_log.is_review),
            review_iterations=self.config.skills.review_iterations,
            activity=assignment.activity,
        )

    def _review_after(self, assignment: Assignment) -> int:
        """The tool-calling iterations after which the program reviews its work: those that are left of
        `skills.review_every` since the lane's last review."""
        if assignment.review == "never" or not self.reviews_itself or self.config.agent.review == "none":
            return 0
        if assignment.review == "always":
            return 1
        return max(self.config.skills.review_every - assignment.knowledge.idle, 1)

    def _conversation(self, program: Program, start: Start, assignment: Assignment) -> Conversation:
        executable = str(self.installed.executable)
        folders = [str(self.installed.executable.parent)]
        folders += [str(folder / "bin") for folder in self.installed.folders if (folder / "bin").is_dir()]
        task = assignment.task
        variables = {**(task.root.environment if task.root else {}), **program.environment(start)}
        environment = shell_environment(str(start.home), variables, folders)
        if server := program.server(start):
            return AcpConversation(assignment.sandbox, [executable, *server], environment, str(start.workspace))
        return CommandConversation(program, start, assignment.sandbox, executable, environment)


class ProgramWorker:
    """See `Worker`."""

    def __init__(
        self,
        harness: ProgramHarness,
        assignment: Assignment,
        proxy: Proxy,
        conversation: Conversation,
        prompt_log: PromptLog,
    ) -> None:
        self._harness = harness
        self._program = harness.installed.program
        self._assignment = assignment
        self._proxy = proxy
        self._conversation = conversation
        self._prompt_log = prompt_log
        self._deadline = time.monotonic() + limited(harness.config.agent, assignment.task).max_seconds
        self._stopped: StopReason | None = None
        self._written: Harvest | None = None
        self._unread: list[str] = []
        self.reviews_itself = harness.reviews_itself

    async def submit(self, prompt: str) -> StopReason:
        """See `Worker.submit`."""
        self._prompt_log.prompts.append(prompt)
        if not self._program.resumes and (earlier := self._prompt_log.prompts[:-1]):
            prompt = f"{earlier[0]}\n\nAn earlier attempt was rejected: {prompt}"
        before = len(self._conversations().main.steps)
        ended = await self._turn(prompt, self._deadline)
        if self._stopped:
            return self._stopped
        main, refusal = self._conversations().main, self._proxy.refusal
        worked = len(main.steps) > before
        if worked and main.stop != "ended":
            return main.stop
        if worked and self._answered(main):
            return "answered"
        if isinstance(refusal, ContextFull) and not (isinstance(refusal, NoRoomForReply) and not main.steps):
            return "context_full"
        if refusal:  # also of a first prompt for which the configured length of a reply leaves no room
            raise ModelError(f"{self._program.name} gave up, as its request was refused: {refusal}")
        if not worked:
            raise ProgramError(f"{self._program.name} ended without asking for a reply{_said(ended)}")
        return main.stop

    async def _turn(self, prompt: str, deadline: float, *, review: bool = False) -> Ended | None:
        """Gives the program a prompt. Ends it when a budget or the time is used up; sets `_stopped` then. A review that
        is asked for has budgets of its own.

        Re-raises a proxy failure, even if the program handled it. A program that broke its protocol after it had
        asked for a reply has ended.
        """
        self._proxy.begin_turn(review=review)
        before = len(self._proxy.exchanges)
        ended: list[Ended] = []
        failed: list[Exception] = []

        async def work() -> None:
            try:
                ended.append(await self._conversation.turn(prompt))
                await self._proxy.quiet(_QUIET_SECONDS if self._program_serves() else 0)
            except Exception as failure:  # else a group of exceptions would hide it
                failed.append(failure)
            group.cancel_scope.cancel()

        async def watch() -> None:
            await self._proxy.interrupted()
            group.cancel_scope.cancel()

        async def limit() -> None:
            await anyio.sleep(deadline - time.monotonic())
            self._proxy.end_turn()
            await self._proxy.quiet(0)  # a slow endpoint is not the program's failure
            self._stopped = "max_seconds"
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for task in (work, watch, limit):
                group.start_soon(task)
        if self._proxy.failure:
            raise self._proxy.failure
        if spent := self._proxy.review_spent if review else self._proxy.spent:
            self._stopped = spent
        if self._stopped:
            await self._conversation.aclose()
            return None
        if failed and isinstance(failed[0], ProgramError) and len(self._proxy.exchanges) > before:
            return Ended(1, "", str(failed[0]))
        if failed:
            raise failed[0]
        if not ended:  # stopped, as it only repeated requests that were refused
            await self._conversation.aclose()
            return None
        return ended[0]

    def _program_serves(self) -> bool:
        return isinstance(self._conversation, AcpConversation)

    def trajectory(self, stop: StopReason) -> Trajectory:
        """See `Worker.trajectory`."""
        conversations = self._conversations()
        found, answer = conversations.main.trajectory(stop), self._answered(conversations.main)
        found = msgspec.structs.replace(found, usage=conversations.work_usage)
        return msgspec.structs.replace(found, final_response=answer) if answer else found

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """See `Worker.add_tools`. A program takes no tools."""
        if tools:
            raise ConfigError(f"agent.program={self._program.name} cannot be given tools")

    async def review(self, verdicts: Sequence[Verdict]) -> Review | None:
        """See `Worker.review`. A program's own review is over: its process waited for it."""
        if self.reviews_itself:
            conversations = self._conversations()
            if not (reviews := conversations.reviews):
                return None
            last = reviews[-1].trajectory(self._proxy.review_spent or reviews[-1].stop)
            found = await self._harvested()
            return Review(
                trajectory=msgspec.structs.replace(last, usage=conversations.review_usage),
                writes=self._with_triggers(write for write in found.skills if write.origin == "review"),
                seconds=sum(review.seconds for review in reviews),
                memory=tuple(write for write in found.note_writes if write.origin == "review"),
            )
        if self._harness.config.agent.review == "none" or not self._program.skills or not self._program.resumes:
            return None
        return await self._ask(verdicts)

    async def _ask(self, verdicts: Sequence[Verdict]) -> Review:
        """Asks the program to review its work, in the same conversation. A failure is the review's alone."""
        before = await self._harvested()
        started, error, found = time.monotonic(), None, Harvest(before.library, before.notes)
        try:
            deadline = started + self._harness.config.agent.max_seconds
            await self._turn(f"{outcome_of(verdicts)}\n\n{self._prompt_log.asked}", deadline, review=True)
            found = await self._harvest(before.library, before.notes, lambda _: "review")
        except InfraError as failure:
            error = EpisodeError(failure.kind, str(failure))
        conversations, last = self._conversations(), None
        if reviews := conversations.reviews:
            last = reviews[-1].trajectory(self._stopped or reviews[-1].stop)
            last = msgspec.structs.replace(last, usage=conversations.review_usage)
        self._unread += found.unread
        return Review(
            trajectory=last,
            writes=self._with_triggers(found.skills),
            seconds=time.monotonic() - started,
            memory=tuple(found.note_writes),
            error=error,
        )

    async def _harvested(self) -> Harvest:
        """What the program wrote at work, and in its own review. Read once, before the lab asks for a review."""
        if self._written is None:
            written = "\n".join(
                texts(call.arguments)
                for review in self._conversations().reviews
                for message in review.messages[review.begins :]
                for call in message.tool_calls
                if call.name in self._program.writers
            )
            knowledge = self._assignment.knowledge
            self._written = await self._harvest(
                knowledge.library, knowledge.notes, lambda what: "review" if what in written else "foreground"
            )
            self._unread += self._written.unread
        return self._written

    async def _harvest(self, library: Library, notes: Notes, origin_of: OriginOf) -> Harvest:
        by = Writer(self._assignment.key, self._assignment.model.identity.name)
        home = self._assignment.sandbox.home
        return await anyio.to_thread.run_sync(harvest, home, self._program, library, notes, by, origin_of)

    async def work(self, trajectory: Trajectory) -> Work:
        """See `Worker.work`."""
        found, task, knowledge = await self._harvested(), self._assignment.task, self._assignment.knowledge
        conversations = self._conversations()
        listed = knowledge.library.listed if self._program.skills else {}
        loaded = loaded_skills(listed, trajectory.messages)
        used = SkillUse(
            snapshot=knowledge.library.snapshot,
            listed=tuple(listed),
            loaded=tuple(loaded),
            writes=self._with_triggers(write for write in found.skills if write.origin == "foreground"),
            traces=traces(
                knowledge.library,
                tuple(listed),
                loaded,
                task,
                trajectory,
                knowledge.learnt_from,
                conversations.children,
                lambda skill, result: shows(skill, result.content),
            ),
        )
        notes = tuple(write for write in found.note_writes if write.origin == "foreground")
        if lost := self._proxy.lost:
            _log.warning("%s sent %d images or files, which the record has only as a note", self._program.name, lost)
        before, after = await self._carried()
        for line in self._unread:
            _log.warning("%s cannot carry on what it wrote: %s", self._program.name, line)
        program = msgspec.structs.replace(
            self._harness.installed.use(),
            requests=len(self._proxy.exchanges),
            refused=self._proxy.refused,
            rejected=self._proxy.rejected,
            lost=self._proxy.lost,
            unread=tuple(self._unread),
            state_before=before,
            state_after=after,
            prompt=task.prompt,
        )
        return Work(used, MemoryUse(knowledge.notes_snapshot, notes), conversations.children, program)

    async def _carried(self) -> tuple[str, str]:
        """The archives of the program's own memory before and after the episode."""
        states, before = self._harness.states, self._assignment.knowledge.state
        if not states or self._assignment.review == "never":
            return before, before
        await self._conversation.aclose()  # the program may still write
        try:
            data = await anyio.to_thread.run_sync(pack_state, self._assignment.sandbox.home, self._program.state)
        except ToolError as error:
            self._unread.append(f"its own memory: {error}")
            return before, before
        return before, await anyio.to_thread.run_sync(states.keep, data) if data else ""

    def _with_triggers(self, writes: Iterable[SkillWrite]) -> tuple[SkillWrite, ...]:
        return with_triggers(writes, self._assignment.task)

    def _answered(self, main: Thread) -> str | None:
        """The answer of a program that ends its work by a tool call."""
        return self._program.answer(main.messages[main.steps[-1].message]) if main.steps else None

    def _conversations(self) -> Conversations:
        return self._proxy.conversations()


def _said(ended: Ended | None) -> str:
    if ended is None:
        return ""
    last = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
    return f" (status {ended.status}{f': {last[-1][:300]}' if last else ''})"
