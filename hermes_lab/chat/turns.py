"""The turns of chats as episodes, in the run `chats` of the Hermes home.

The suite is `chat`, the task a session and the sample a turn. A turn has no score until a person judges it.
"""

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import msgspec

from hermes_lab.agent.delegate import Delegation
from hermes_lab.commit import package_version
from hermes_lab.config.digest import config_digest
from hermes_lab.config.schema import RunConfig
from hermes_lab.harness.metrics import episode_metrics
from hermes_lab.manifest import RunManifest, versions
from hermes_lab.mcp.snapshot import tools_digest
from hermes_lab.records import EpisodeLog, files_of, read_attempts, write_json
from hermes_lab.skills.learning.listing import choose
from hermes_lab.skills.learning.observe import observe
from hermes_lab.skills.learning.trace import traces
from hermes_lab.skills.library import Library
from hermes_lab.tools.registry import ToolContext
from hermes_lab.transcript import visible
from hermes_lab.types import (
    Child,
    Compression,
    Episode,
    EpisodeError,
    MemoryUse,
    Message,
    ModelIdentity,
    Review,
    ServedTools,
    SkillUse,
    Task,
    TaskInfo,
    Trajectory,
    Verdict,
)
from hermes_lab.types.episode import CHAT, TURN_AT, TYPED

FOLDER = "chats"
RETRIED, PREFERRED = 0.0, 0.5
"""The scores that `/retry` gives to a turn and to the one that replaces it, so that they are a preference pair. Neither
is a verdict: `success` stays open until a person says `/good` or `/bad`."""
UNDONE = "undone"
"""In the metadata of a turn that the person took back with `/undo`."""
_IN_SESSION, _DIGEST, _RETRY_OF = "session_message", "digest", "retry_of"


class Mark(NamedTuple):
    """What identifies a turn of a session: the index of its user message, and a digest of its messages, since another
    turn may have stood at that place."""

    at: int
    digest: str


def mark(at: int, messages: Iterable[Message]) -> Mark:
    """The mark of a turn with these messages, without summaries of compressions."""
    said = [(message.role, message.content, [call.name for call in message.tool_calls]) for message in messages]
    return Mark(at, hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:16])


class TurnId(NamedTuple):
    """A turn of any session."""

    session: str
    mark: Mark

    def __str__(self) -> str:
        return f"{self.session} {self.mark.at} {self.mark.digest}"

    @classmethod
    def parse(cls, text: str) -> "TurnId":
        """The turn that a text names."""
        session, at, digest = text.split(" ")
        return cls(session, Mark(int(at), digest))


class _Known(NamedTuple):
    """What is known of a recorded turn without its record."""

    mark: Mark
    consent: bool


class _Retried(NamedTuple):
    """A turn that is tried again: the index of its user message, what was typed, and its sample."""

    at: int
    typed: str
    sample: int


class TurnLog:
    """Writes the turns of one session. `config` is that of the session's model; `place` says where the chat is held.

    A turn is found by its `Mark`. Judging one writes its record again, which supersedes it. A turn has consent only if
    all turns before it, which its conversation holds, were recorded with consent, too.
    """

    def __init__(self, home: Path, session: str, config: RunConfig, library: Library, place: dict[str, Any]) -> None:
        self._run = home / FOLDER
        self._session = session
        self._config = config
        self._config_digest = config_digest(config)
        self._servers: Mapping[str, ServedTools] = {}
        self._library = library
        self._listed = tuple(skill.name for skill in choose(library, "", config.skills.max_listed))
        self._place = place
        self._log: EpisodeLog | None = None
        self._opening = anyio.Lock()
        self._known: dict[int, _Known] = {}
        self._others: Sequence[tuple[str, int]] | None = None
        self._latest: Episode | None = None
        self._retried: _Retried | None = None

    def use_servers(self, servers: Mapping[str, ServedTools]) -> None:
        """Says which MCP servers the turns from now on have."""
        self._servers = servers

    async def add(self, turn: "OpenTurn", own: Mark, model: ModelIdentity, result: Trajectory | EpisodeError) -> None:
        """Writes a turn that has ended. Raises `OSError`, and `ConfigError` for a damaged log."""
        # In a thread, since it reads the session's turns, and the first trace of skills loads their embeddings.
        episode = await anyio.to_thread.run_sync(self._episode, turn, own, model, result)
        if before := self._retried:
            again = (before.at, before.typed) == (turn.at, turn.typed)
            if again and isinstance(result, Trajectory):
                episode = _with(episode, score=PREFERRED, metadata={_RETRY_OF: before.sample})
            if not again or isinstance(result, Trajectory):
                self._retried = None
        await self._append(episode)

    async def judge(self, turn: Mark, *, good: bool | None, comment: str = "") -> bool:
        """Gives a turn a person's verdict, which replaces an earlier one; None takes it back. False if the turn has no
        answer or is not in the log. Raises as `add`."""
        if (episode := await self._find(turn)) is None or episode.trajectory is None:
            return False
        await self._append(_judged(episode, good, comment))
        return True

    async def retried(self, turn: Mark, typed: str) -> None:
        """Says that the turn is tried again: the person prefers another answer. Raises as `add`."""
        if (episode := await self._find(turn)) is None or episode.trajectory is None:
            return
        self._retried = _Retried(turn.at, typed, episode.sample)
        if not episode.verdicts:
            await self._append(_with(episode, score=RETRIED))

    async def undone(self, turns: Sequence[Mark]) -> None:
        """Says that the person took these turns back, with all that they were retries of: they are not exported. Raises
        as `add`."""
        records = await anyio.to_thread.run_sync(self._records)
        for turn in turns:
            episode = _last(records, turn)
            while episode is not None:
                metadata = episode.task.metadata
                task = msgspec.structs.replace(episode.task, metadata=metadata | {UNDONE: True})
                await self._append(msgspec.structs.replace(episode, task=task))
                episode = records.get(metadata.get(_RETRY_OF, -1))

    async def reviewed(self, turn: Mark, review: Review) -> None:
        """Adds the review that followed the turn. Raises as `add`."""
        if (episode := await self._find(turn)) is not None and episode.trajectory is not None:
            if review.trajectory:
                moved = _moved(review.trajectory, turn.at - int(episode.task.metadata[TURN_AT]))
                review = msgspec.structs.replace(review, trajectory=moved)
            await self._append(msgspec.structs.replace(episode, review=review))

    def close(self) -> None:
        """Closes the file."""
        if self._log:
            self._log.close()
            self._log = None

    def _episode(
        self, turn: "OpenTurn", own_mark: Mark, model: ModelIdentity, result: Trajectory | EpisodeError
    ) -> Episode:
        known = self._index()
        sample = max(known, default=-1) + 1
        agreed = {each.mark for each in known.values() if each.consent}
        consent = bool(self._place["consent"]) and agreed.issuperset(turn.before)
        fields: dict[str, Any] = {"status": "errored", "error": result}
        hidden, place = 0, self._place if isinstance(result, Trajectory) else self._place | {TYPED: turn.typed}
        if isinstance(result, Trajectory):
            own = msgspec.structs.replace(result, messages=result.messages[turn.at :])
            seen = turn.as_seen(result)
            hidden = len(result.messages) - len(seen.messages)
            fields = {
                "status": "ok",
                "trajectory": seen,
                "skills": turn.skills(self._library, self._listed, own, self._session),
                "memory": turn.memory(),
                "observation": observe(own, (), self._config.skills),
                "children": turn.children(),
                "metrics": episode_metrics(result, 0, turn.at),
            }
        return Episode(
            suite=CHAT,
            task_id=self._session,
            lane="main",
            round=0,
            sample=sample,
            experience=0,
            place=round(turn.started_at.timestamp() * 1000),
            task=TaskInfo(
                "open_ended",
                "train",
                metadata=place
                | {"consent": consent, _IN_SESSION: turn.at, _DIGEST: own_mark.digest, TURN_AT: turn.at - hidden},
            ),
            model=model,
            config_digest=tools_digest(self._config_digest, self._servers),
            mcp={name: served.digest for name, served in self._servers.items()},
            started_at=turn.started_at.isoformat(timespec="milliseconds"),
            seconds=time.monotonic() - turn.started,
            lab=package_version(),
            **fields,
        )

    async def _append(self, episode: Episode) -> None:
        async with self._opening:
            if self._log is None:
                self._log = await anyio.to_thread.run_sync(_open, self._run, self._session, self._config)
        await self._log.append(episode)
        self._latest = episode
        self._known[episode.sample] = _known(episode)

    def _index(self) -> Mapping[int, _Known]:
        """All recorded turns by sample. The log is read again only if another process has written to it, since reading
        all turns after each of them takes long in a long session."""
        own = self._log.path if self._log else None
        files = files_of(self._run, _worker(self._session)) if self._run.is_dir() else []
        others = [(path.name, path.stat().st_size) for path in files if path != own]
        if others != self._others:
            self._known |= {sample: _known(episode) for sample, episode in self._records().items()}
            self._others = others
        return self._known

    async def _find(self, turn: Mark) -> Episode | None:
        if self._latest is None or _mark_of(self._latest) != turn:
            records = await anyio.to_thread.run_sync(self._records)
            self._latest = _last(records, turn)
        return self._latest

    def _records(self) -> dict[int, Episode]:
        return _records(self._run, self._session)


class OpenTurn:
    """A turn under way, which begins with the user message of index `at`, and what the session had `before` it."""

    def __init__(
        self,
        at: int,
        typed: str,
        context: ToolContext,
        before: Sequence[Mark],
        compressions: Sequence[Compression],
    ) -> None:
        self.at = at
        self.before = before
        self.typed = typed
        self.started_at = datetime.now(UTC)
        self.started = time.monotonic()
        self._context = context
        self._compressions = tuple(compressions)
        skills, notes = context.skills, context.notes
        self._snapshot = skills.library.snapshot if skills else ""
        self._loaded = len(skills.loaded) if skills else 0
        self._written = len(skills.writes) if skills else 0
        self._noted = len(notes.writes) if notes else 0
        self._notes = notes.notes.snapshot if notes else ""

    def as_seen(self, whole: Trajectory) -> Trajectory:
        """The trajectory without the turns that earlier compressions hid, so that it is a conversation as the model saw
        it. Where another compression came in this turn, it is kept whole."""
        if not self._compressions or len(whole.compressions) > len(self._compressions):
            return whole
        before = visible(whole.messages[: self.at], self._compressions)
        seen = (*before, *whole.messages[self.at :])
        moved = _moved(whole, self.at - len(before))
        return msgspec.structs.replace(moved, messages=seen, compressions=())

    def skills(self, library: Library, listed: tuple[str, ...], own: Trajectory, session: str) -> SkillUse:
        """The skills of the turn, whose `own` messages are given."""
        skills = self._context.skills
        loaded = tuple(dict.fromkeys(skills.loaded[self._loaded :])) if skills else ()
        task = Task(id=session, suite=CHAT, prompt=self.typed)
        return SkillUse(
            snapshot=self._snapshot,
            listed=listed,
            loaded=loaded,
            writes=tuple(skills.writes[self._written :]) if skills else (),
            traces=traces(library, listed, loaded, task, own, {}, self.children()),
        )

    def memory(self) -> MemoryUse:
        """The notes of the turn."""
        notes = self._context.notes
        return MemoryUse(self._notes, tuple(notes.writes[self._noted :]) if notes else ())

    def children(self) -> tuple[Child, ...]:
        """The child agents of the turn."""
        delegation = self._context.delegate
        return delegation.children if isinstance(delegation, Delegation) else ()


def _moved(trajectory: Trajectory, hidden: int) -> Trajectory:
    """The trajectory with the places of its replies moved to the front by as many messages as are `hidden`."""
    steps = tuple(msgspec.structs.replace(step, message=step.message - hidden) for step in trajectory.steps)
    return msgspec.structs.replace(trajectory, steps=steps)


async def judge_turn(home: Path, turn: TurnId, *, good: bool | None) -> bool:
    """As `TurnLog.judge`, for a session that no chat has open."""
    run = home / FOLDER
    records = await anyio.to_thread.run_sync(_records, run, turn.session)
    if (episode := _last(records, turn.mark)) is None or episode.trajectory is None:
        return False
    log = await anyio.to_thread.run_sync(EpisodeLog, run, _worker(turn.session))
    try:
        await log.append(_judged(episode, good))
    finally:
        log.close()
    return True


def delete_turns(home: Path, session: str) -> None:
    """Deletes the turns of a session from the log."""
    for path in files_of(home / FOLDER, _worker(session)):
        path.unlink(missing_ok=True)


def _mark_of(episode: Episode) -> Mark:
    metadata = episode.task.metadata
    return Mark(metadata.get(_IN_SESSION, -1), metadata.get(_DIGEST, ""))


def _judged(episode: Episode, good: bool | None, comment: str = "") -> Episode:
    """The turn with a person's verdict; without one if `good` is None."""
    if good is None:
        score = PREFERRED if _RETRY_OF in episode.task.metadata else None
        return msgspec.structs.replace(episode, score=score, success=None, verdicts=())
    score = 1.0 if good else 0.0
    verdict = Verdict(score, good, {"person": score}, reasons={"person": comment} if comment else {})
    return msgspec.structs.replace(episode, score=score, success=good, verdicts=(verdict,))


def _open(run: Path, session: str, config: RunConfig) -> EpisodeLog:
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (run / "run.json").exists():
        write_json(run / "run.json", _manifest(config))
    return EpisodeLog(run, _worker(session))


def _records(run: Path, session: str) -> dict[int, Episode]:
    """The last record of each turn, by sample. Another process may have written some meanwhile."""
    if not run.is_dir():
        return {}
    return {episode.sample: episode for episode in read_attempts(run, Episode, _worker(session))}


def _last(records: Mapping[int, Episode], turn: Mark) -> Episode | None:
    """The turn's record; the last one if it was tried again with the same answer."""
    return max((each for each in records.values() if _mark_of(each) == turn), key=lambda e: e.sample, default=None)


def _known(episode: Episode) -> _Known:
    return _Known(_mark_of(episode), bool(episode.task.metadata.get("consent")))


def _worker(session: str) -> str:
    return session.replace("-", "_")


def _with(episode: Episode, *, score: float, metadata: dict[str, Any] | None = None) -> Episode:
    task = msgspec.structs.replace(episode.task, metadata=episode.task.metadata | (metadata or {}))
    return msgspec.structs.replace(episode, score=score, task=task)


def _manifest(config: RunConfig) -> RunManifest:
    """That of the run of all chats, which never ends. Each turn has its own model and digest; the configuration is that
    of the first chat."""
    suite = config.suite.model_copy(update={"name": CHAT})
    return RunManifest(
        command=CHAT,
        config=config.model_copy(update={"suite": suite}).model_dump(mode="json"),
        config_digest="",
        tasks_digest="",
        wanted=0,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
    )
