"""What a chat session draws on: the skills, notes and memories of a Hermes home."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from hermes_lab.chat.recall import recall_block, remember_episode, remember_library
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.memory.context_files import context_block, files_for, files_in
from hermes_lab.memory.notes import Notes, NotesEdit, NotesSession
from hermes_lab.memory.notes_store import NotesStore
from hermes_lab.memory.providers import GuardedProvider, open_provider
from hermes_lab.memory.stores import open_memory
from hermes_lab.memory.vector import VectorMemory
from hermes_lab.skills.conditions import TERMINAL, Place
from hermes_lab.skills.curator.upkeep import tend
from hermes_lab.skills.learning.stats import Use
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.skills.storage.bundled import is_synced, sync
from hermes_lab.skills.storage.proposals import Proposals
from hermes_lab.skills.storage.run_paths import store_in
from hermes_lab.types import MemoryWrite, Message, SkillEdit, SkillWrite
from hermes_lab.types.skill import Origin
from hermes_lab.types.trajectory import StopReason

_DONE = {"archive": "archived", "deprecate": "deprecated", "stale": "stale", "reactivate": "active again"}


class Views(NamedTuple):
    """The skills and notes that a session's tools edit. Writes reach the disk at once, and prompts from the next
    session on, unless they are proposals."""

    skills: SkillSession
    notes: NotesSession


class HomeKnowledge:
    """The knowledge of one Hermes home, with its skills in `store`, and the context files of the `working` folder.

    All methods may block, and raise `ConfigError` and `InfraError` as their parts do.
    """

    def __init__(self, home: Path, config: RunConfig, place: Place = TERMINAL, working: Path | None = None) -> None:
        self._home = home
        self._working = working
        self._place = place
        self._config = config
        self.store = store_in(_library_folder(config.skills.library) if config.skills.library else home / "skills")
        self._notes = NotesStore(home, config.memory)
        self._memory: VectorMemory | None = open_memory(config.memory, home, os.environ)
        self._provider: GuardedProvider | None = open_provider(config.memory.provider)

    def tend(self) -> str:
        """Runs the curator on the home's own skills if it is due. Returns a message for the user, or ""."""
        if self._config.skills.library:
            return ""
        named: dict[str, list[str]] = {}
        for step in tend(self.store, self._config.skills):
            named.setdefault(_DONE[step.action], []).append(step.names[0])
        if not named:
            return ""
        lines = [f"{len(names)} {state}: {', '.join(names)}" for state, names in named.items()]
        return f"skills {'; '.join(lines)}; `hermes-lab skills restore NAME` makes one active again"

    def sync_bundled(self) -> str:
        """Brings the home's own skills up to date with those of the package. Returns a message for the user, or ""."""
        if self._config.skills.library or not self._config.skills.bundled or is_synced(self.store):
            return ""
        done = sync(self.store)
        named = [*done.added, *done.updated]
        return f"bundled skills, now among yours: {', '.join(named)}" if named else ""

    def library(self) -> Library:
        """The current skills. Listed ones are also indexed for recall."""
        library = self.store.load().at(self._place)
        if self._memory:
            remember_library(self._memory, library, at=datetime.now(UTC))
        return library

    def broken(self) -> list[str]:
        """One message per skill that `library` omits: what is wrong and how to fix it."""
        return list(self.store.broken().values())

    def views(self, library: Library, *, session: str, model: str) -> Views:
        """A session's views of `library` and of the notes."""

        seen = library

        def commit_skills(edits: Sequence[SkillEdit], origin: Origin) -> tuple[Library, list[SkillWrite]]:
            if self._config.skills.proposals:
                nonlocal seen
                skill, writes = Proposals(self.store).commit(edits, origin, episode=session, model=model)
                seen = seen.with_changes({edits[0].name: skill})
                return seen, writes
            after, writes = self.store.commit(edits, origin, episode=session, model=model)
            return after.at(self._place), writes

        def commit_note(edit: NotesEdit, origin: Origin) -> tuple[Notes, MemoryWrite | None]:
            return self._notes.commit(edit, origin, episode=session, model=model)

        return Views(
            SkillSession(library, origin="foreground", episode=session, model=model, commit=commit_skills),
            NotesSession(
                self._notes.load(),
                config=self._config.memory,
                origin="foreground",
                episode=session,
                model=model,
                commit=commit_note,
                load=self._notes.load,
            ),
        )

    def background(self) -> list[str]:
        """What a new session's prompt contains before the skills: context files, then the notes."""
        return [context_block(self.context_files()), self._notes.load().render(self._config.memory)]

    def context_files(self) -> list[Path]:
        """The context files, each once: those of the home, then those of the working folder."""
        found = files_in(self._home)
        if self._working:
            found += [path for path in files_for(self._working, Path.home()) if path not in found]
        return found

    def recall(self, message: str) -> str:
        """Recalled memories for a message, fenced as background; "" if there are none."""
        config = self._config.memory
        found = (
            self._memory.search(
                message,
                k=config.top_k,
                now=datetime.now(UTC),
                floor=config.relevance,
                half_life_days=config.half_life_days,
            )
            if self._memory
            else ()
        )
        external = self._provider.recall(message, config.top_k) if self._provider else ()
        return recall_block(found, external) if found or external else ""

    def remember(
        self, turn: Sequence[Message], loaded: Sequence[str], *, stop: StopReason, answer: str | None, session: str
    ) -> None:
        """Stores a finished turn as a memory and counts the use of `loaded` skills."""
        now = datetime.now(UTC)
        for name in loaded:
            self.store.note_use(Use(name, None, now.isoformat(timespec="milliseconds")))
        if self._memory:
            remember_episode(self._memory, turn, stop=stop, answer=answer, source=session, at=now)
        if self._provider and answer:
            self._provider.remember(answer)

    def close(self) -> None:
        """Closes the memory's connections."""
        if self._memory:
            self._memory.close()


def _library_folder(library: str) -> Path:
    folder = Path(library).expanduser()
    if not folder.is_dir():
        raise ConfigError(
            f"skills.library: {library}: no such folder; create it (a chat writes to it), or leave this field empty"
        )
    return folder
