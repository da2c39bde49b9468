"""MEMORY.md and USER.md: the agent's own notes, and what it knows about the user.

`Notes` are immutable. A prompt shows them as of the start of its session; what the session writes (`NotesSession`)
appears in the next one. In a batch, the writes of a round are merged at its end (`merge_notes`); in a chat they reach
the disk at once (`notes_store.NotesStore`).
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from hermes_lab.config.schema import MemoryConfig
from hermes_lab.errors import ToolError
from hermes_lab.memory.scan import refusal, scan
from hermes_lab.types.memory import MemoryWrite, Target
from hermes_lab.types.skill import Origin

FILES: dict[Target, str] = {"memory": "MEMORY.md", "user": "USER.md"}
_TITLES: dict[Target, str] = {"memory": "your notes", "user": "what you know about the user"}
_SEPARATOR = re.compile(r"^[ \t]*§[ \t]*$", re.MULTILINE)
_LISTED = 120


class NotesEdit(NamedTuple):
    """A requested change. `old` is a substring of the one entry to change."""

    action: Literal["add", "replace", "remove"]
    target: Target
    text: str = ""
    old: str = ""


Commit = Callable[[NotesEdit, Origin], "tuple[Notes, MemoryWrite | None]"]
"""Applies an edit to notes on disk, which others may have changed meanwhile, and returns those notes."""
Gate = Callable[[NotesEdit], None]
"""Raises `ToolError` for an edit that is not allowed."""


@dataclass(frozen=True)
class Notes:
    """The entries of both files. Changes return new notes; equal entries have equal snapshots."""

    memory: tuple[str, ...] = ()
    user: tuple[str, ...] = ()

    @property
    def snapshot(self) -> str:
        """The digest of all entries: 16 hexadecimal digits."""
        content = "\0".join(render_file(self.of(target)) for target in FILES)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def of(self, target: Target) -> tuple[str, ...]:
        """The entries of one file."""
        return self.memory if target == "memory" else self.user

    def having(self, target: Target, entries: Iterable[str]) -> "Notes":
        """A copy with other entries in one file."""
        entries = tuple(entries)
        return Notes(entries, self.user) if target == "memory" else Notes(self.memory, entries)

    def after(self, write: MemoryWrite) -> "Notes":
        """The notes after `write`, as far as it applies: a missing entry is not replaced, and no entry is
        duplicated."""
        entries = list(self.of(write.target))
        if write.action == "add":
            entries.append(write.text)
        elif write.old in entries:
            place = entries.index(write.old)
            entries[place : place + 1] = [write.text] if write.action == "replace" else []
        return self.having(write.target, dict.fromkeys(entries))

    def render(self, config: MemoryConfig) -> str:
        """The prompt block, "" without entries.

        Entries that the scanner refuses or that exceed the size, both possible only after manual edits, are left out,
        with a notice.
        """
        parts = [_shown(target, self.of(target), size(target, config)) for target in FILES if self.of(target)]
        return "<memory>\n" + "\n\n".join(parts) + "\n</memory>" if parts else ""


def size(target: Target, config: MemoryConfig) -> int:
    """Maximum characters of a file."""
    return config.memory_chars if target == "memory" else config.user_chars


def usage(notes: Notes, target: Target, config: MemoryConfig) -> str:
    """How full a file is, as in `1,204/2,200`."""
    return f"{len(render_file(notes.of(target))):,}/{size(target, config):,}"


def render_file(entries: Iterable[str]) -> str:
    """The text of a file: entries separated by a line with a section sign."""
    return "\n§\n".join(entries)


def parse_file(text: str) -> tuple[str, ...]:
    """The entries of a file, however it was edited; blank and duplicate ones are dropped."""
    return tuple(dict.fromkeys(filter(None, map(_tidy, _SEPARATOR.split(_tidy(text))))))


def apply(
    notes: Notes, edit: NotesEdit, *, config: MemoryConfig, origin: Origin, episode: str, model: str
) -> tuple[Notes, MemoryWrite | None]:
    """The notes after `edit`, and its record; None if nothing changes because the entry exists already.

    Raises `ToolError` that says how to fix the edit.
    """
    entries = notes.of(edit.target)
    text = "" if edit.action == "remove" else _checked(edit.text)
    old = "" if edit.action == "add" else _one_entry(entries, edit.old)
    write = MemoryWrite(edit.action, edit.target, origin, episode, model, notes.snapshot, "", text, old)
    after = notes.after(write)
    if after == notes:
        return notes, None
    _check_size(notes, after, edit.target, config)
    return after, msgspec.structs.replace(write, after=after.snapshot)


def merge_notes(notes: Notes, episodes: Iterable[Iterable[MemoryWrite]], config: MemoryConfig) -> Notes:
    """The notes after a round: all episodes' writes, in the given order.

    All were made against the same notes, independently. An edit is dropped if its entry no longer fits, or was changed
    by an earlier episode.
    """
    for writes in episodes:
        for write in writes:
            after = notes.after(write)
            if _fits(notes, after, write.target, config):
                notes = after
    return notes


class NotesSession:
    """The state behind the `memory` tool. Later calls in the session see its writes; its prompt does not."""

    def __init__(
        self,
        notes: Notes,
        *,
        config: MemoryConfig,
        origin: Origin,
        episode: str,
        model: str,
        commit: Commit | None = None,
        gate: Gate | None = None,
        load: Callable[[], Notes] | None = None,
    ) -> None:
        self.notes = notes
        self.writes: list[MemoryWrite] = []
        self._config = config
        self._origin = origin
        self._episode = episode
        self._model = model
        self._commit = commit
        self._gate = gate
        self._load = load

    def fork(self, origin: Origin, gate: Gate | None = None) -> "NotesSession":
        """A session over the same state whose writes are recorded separately."""
        return NotesSession(
            self.notes,
            config=self._config,
            origin=origin,
            episode=self._episode,
            model=self._model,
            commit=self._commit,
            gate=gate,
            load=self._load,
        )

    def read(self, target: Target, piece: str = "") -> list[str]:
        """The entries as they are now, or those that contain `piece`, as a prompt shows them.

        Raises `ToolError` if no entry contains `piece`.
        """
        if self._load is not None:
            self.notes = self._load()
        entries = self.notes.of(target)
        shown = zip(entries, _lines(target, entries, size(target, self._config)), strict=True)
        found = [line for entry, line in shown if piece in entry]
        if piece and not found:
            raise ToolError(f"old_text: not found in any entry; the entries are:\n{_listing(entries)}")
        return found

    def add(self, target: Target, text: str) -> None:
        """Adds an entry; an existing one changes nothing."""
        self.edit(NotesEdit("add", target, text))

    def replace(self, target: Target, old: str, text: str) -> None:
        """Replaces the one entry that contains `old`."""
        self.edit(NotesEdit("replace", target, text, old))

    def remove(self, target: Target, old: str) -> None:
        """Removes the one entry that contains `old`."""
        self.edit(NotesEdit("remove", target, old=old))

    def edit(self, edit: NotesEdit) -> None:
        """Applies and records an edit. Raises `ToolError` if it is not allowed."""
        if self._gate is not None:
            self._gate(edit)
        if self._commit is not None:
            self.notes, write = self._commit(edit, self._origin)
        else:
            self.notes, write = apply(
                self.notes, edit, config=self._config, origin=self._origin, episode=self._episode, model=self._model
            )
        if write is not None:
            self.writes.append(write)

    def usage(self, target: Target) -> str:
        """How full a file is."""
        return usage(self.notes, target, self._config)


def _shown(target: Target, entries: tuple[str, ...], limit: int) -> str:
    full = f"{len(render_file(entries)):,}/{limit:,} characters"
    return f"{FILES[target]}, {_TITLES[target]} ({full}):\n" + "\n§\n".join(_lines(target, entries, limit))


def _lines(target: Target, entries: tuple[str, ...], limit: int) -> list[str]:
    """What a model may read of each entry: a notice in place of one that is refused or beyond the limit."""
    lines, used = [], 0
    for number, entry in enumerate(entries, 1):
        if findings := scan(entry):
            lines.append(f"[entry {number} of {FILES[target]} was refused: {refusal(findings)}]")
        elif used + len(entry) > limit:
            lines.append(f"[entry {number} of {FILES[target]} is left out: the file is over {limit:,} characters]")
        else:
            lines.append(entry)
            used += len(entry) + len("\n§\n")
    return lines


def _tidy(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").strip(" \t\n\ufeff")


def _checked(text: str) -> str:
    """The normalised entry. Raises `ToolError` for invalid ones, and for content that must not reach a prompt."""
    text = _tidy(text)
    if not text:
        raise ToolError("content: must not be empty")
    if _SEPARATOR.search(text):
        raise ToolError("content: a line with only § separates entries; add them one at a time")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ToolError("content: contains half a character (a lone surrogate), which cannot be saved")
    if findings := scan(text):
        raise ToolError(f"content: refused: {refusal(findings)}; notes must be plain facts in plain characters")
    return text


def _one_entry(entries: tuple[str, ...], old: str) -> str:
    if (whole := _tidy(old)) in entries:
        return whole
    found = [entry for entry in entries if whole and old in entry]
    if len(found) != 1:
        where = f"found in {len(found)} entries, must be in exactly one"
        raise ToolError(f"old_text: {where}; the entries are:\n{_listing(entries)}")
    return found[0]


def _fits(before: Notes, after: Notes, target: Target, config: MemoryConfig) -> bool:
    """Whether the file is within its size, or at least does not grow."""
    length = len(render_file(after.of(target)))
    return length <= max(size(target, config), len(render_file(before.of(target))))


def _check_size(before: Notes, after: Notes, target: Target, config: MemoryConfig) -> None:
    if not _fits(before, after, target, config):
        over = len(render_file(after.of(target))) - size(target, config)
        raise ToolError(
            f"{target} is full ({usage(before, target, config)} characters; {over:,} too many with this entry): first "
            f"shorten, merge or remove entries; the entries are:\n{_listing(before.of(target))}"
        )


def _listing(entries: tuple[str, ...]) -> str:
    """All entries, long ones cut: enough to identify one by a substring. Those that the scanner refuses are not
    quoted."""
    lines = (f"[refused: {refusal(findings)}]" if (findings := scan(entry)) else _cut(entry) for entry in entries)
    return "\n".join(f"- {line}" for line in lines) or "none yet"


def _cut(entry: str) -> str:
    return entry if len(entry) <= _LISTED else entry[:_LISTED] + "…"
