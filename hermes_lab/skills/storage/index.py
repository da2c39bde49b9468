"""The index of a library: everything known about each skill, in one SQLite table with semantic search.

All of it is derived from the skills and the store's history and uses, so the file may be deleted at any time. It is
updated whenever it is opened. The expensive steps, parsing, checking and embedding, run once per content of a skill.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import Struct

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.errors import InfraError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.compiled.validate import Problem, check_skill
from hermes_lab.skills.curator.health import health
from hermes_lab.skills.learning.stats import SkillStats, Use, stats
from hermes_lab.skills.library import Library
from hermes_lab.skills.sections import Anatomy, anatomy
from hermes_lab.skills.storage.history import Change
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import Skill
from hermes_lab.types.skill import Origin

if TYPE_CHECKING:
    import numpy as np

_VERSION = 3
"""Schema version of the table; a file with another version is rebuilt."""
_BUSY_SECONDS = 30.0


class Entry(Anatomy, frozen=True, kw_only=True):
    """A row of the index: one skill. `id` is the digest of its content.

    `created` is the time of the first change in the store's history; `changed`, `episode` and `model` are those of the
    last one. All are empty if there is none. The rates are None if no use was judged; `low` and `high` are as in
    `SkillStats`.
    """

    id: str
    name: str
    description: str
    state: skill_format.State
    pinned: bool
    origin: Origin
    problems: tuple[Problem, ...]
    episode: str = ""
    model: str = ""
    created: str = ""
    changed: str = ""
    uses: int = 0
    judged: int = 0
    solved: int = 0
    success_rate: float | None = None
    low: float | None = None
    high: float | None = None
    last_used: str = ""
    health: str = ""
    reason: str = ""


class Hit(Struct, frozen=True):
    """A search result. `score` is the cosine similarity of skill and query, in [-1, 1]."""

    score: float
    entry: Entry


_COLUMNS = Entry.__struct_fields__
_LISTS = ("parameters", "dependencies", "pitfalls", "tags", "problems")
_TABLE = f"CREATE TABLE skills ({', '.join(_COLUMNS)}, embedding BLOB, UNIQUE (name))"


class Index:
    """An open index. Several processes may open the same file."""

    def __init__(self, path: Path | None = None, config: SkillsConfig | None = None) -> None:
        """Opens or creates the file; without a path, the index is kept in memory."""
        self._config = config or SkillsConfig()
        self._db = _open(path)

    @classmethod
    def of(cls, store: SkillStore, config: SkillsConfig | None = None) -> Self:
        """Opens and updates the index of a store; a corrupt file is rebuilt."""
        try:
            return cls._of(store, config)
        except sqlite3.OperationalError as error:
            raise InfraError(f"{index_path(store)}: {error}") from None
        except sqlite3.DatabaseError:  # corrupt or not a database; nothing is lost, since all of it is derived
            return cls.rebuild(store, config)

    @classmethod
    def rebuild(cls, store: SkillStore, config: SkillsConfig | None = None) -> Self:
        """Rebuilds the index of a store."""
        index_path(store).unlink(missing_ok=True)
        return cls._of(store, config)

    @classmethod
    def _of(cls, store: SkillStore, config: SkillsConfig | None) -> Self:
        library = store.load()
        index = cls(index_path(store), config)
        index.refresh(library, history=store.history(), uses=store.uses())
        return index

    def refresh(self, library: Library, *, history: Iterable[Change] = (), uses: Iterable[Use] = ()) -> None:
        """Updates the rows to `library` if needed. `history` and `uses` must be complete and in order, oldest first."""
        changes, uses = list(history), list(uses)
        state = hashlib.sha256(
            f"{library.snapshot} {len(changes)} {len(uses)} {self._config.model_dump_json()}".encode()
        ).hexdigest()
        with _transaction(self._db) as db:
            if db.execute("SELECT value FROM state").fetchone() == (state,):
                return
            known = {entry.id: entry for entry in self.entries()}
            vectors = dict(db.execute("SELECT id, embedding FROM skills"))
            entries = _entries(library, changes, uses, self._config, known)
            unknown = [entry for entry in entries if entry.id not in vectors]
            vectors |= {entry.id: row.tobytes() for entry, row in zip(unknown, _embed(unknown), strict=True)}
            db.execute("DELETE FROM skills")
            marks = ", ".join("?" * (len(_COLUMNS) + 1))
            rows = [(*map(_to_cell, msgspec.structs.astuple(entry)), vectors[entry.id]) for entry in entries]
            db.executemany(f"INSERT INTO skills VALUES ({marks})", rows)
            db.execute("UPDATE state SET value = ?", (state,))

    def entries(self) -> list[Entry]:
        """Returns all skills, by name."""
        return [entry for entry, _ in self._rows()]

    def search(self, query: str, k: int) -> list[Hit]:
        """Returns the `k` skills whose name, description and triggers are most similar to `query`, best first."""
        from hermes_lab.memory.embed import embed

        return self._nearest(embed([query])[0])[:k]

    def _nearest(self, vector: np.ndarray) -> list[Hit]:
        import numpy as np

        rows = self._rows()
        if not rows:
            return []
        scores = np.frombuffer(b"".join(embedding for _, embedding in rows), np.float32).reshape(len(rows), -1) @ vector
        best = np.argsort(-scores, kind="stable")  # stable: ties stay in name order
        return [Hit(float(scores[index]), rows[index][0]) for index in best]

    def _rows(self) -> list[tuple[Entry, bytes]]:
        rows = self._db.execute("SELECT * FROM skills ORDER BY name")
        return [(_from_cells(cells), embedding) for *cells, embedding in rows]

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def index_path(store: SkillStore) -> Path:
    """Returns the path of a store's index."""
    return Path(store.root, ".hermes", "index.sqlite")


def current_uses(uses: Iterable[Use], changes: Iterable[Change]) -> list[Use]:
    """Returns the uses since each skill's last write; earlier ones were of a different text."""
    written = last_written(changes)
    return [use for use in uses if use.at >= written.get(use.name, "")]


def last_written(changes: Iterable[Change]) -> dict[str, str]:
    """Returns when each skill was last written, by name. Marks such as a pin, changes by the curator and rollbacks are
    not writes."""
    written = {}
    for change in changes:
        if change.action is not None:
            written[change.name] = change.at
        elif change.origin == "installed":
            written |= dict.fromkeys(change.changed, change.at)
    return written


def last_touched(changes: Iterable[Change]) -> dict[str, str]:
    """Returns when each skill was last changed by anybody but the curator, by name.

    Restoring a skill counts, so that the curator does not archive it again at once.
    """
    return {name: change.at for change in changes if change.origin != "curator" for name in change.changed}


def _entries(
    library: Library,
    changes: Sequence[Change],
    uses: Sequence[Use],
    config: SkillsConfig,
    known: Mapping[str, Entry],
) -> list[Entry]:
    entries = [_of_content(skill, library.digests[name], known) for name, skill in library.skills.items()]
    outcomes = stats(current_uses(uses, changes), alpha=config.ema_alpha)
    problems = {entry.name: entry.problems for entry in entries}
    verdicts = {verdict.name: verdict for verdict in health(library, outcomes, problems, config)}
    first: dict[str, Change] = {}
    last: dict[str, Change] = {}
    for change in changes:
        for name in change.changed:
            first.setdefault(name, change)
            last[name] = change
    return [
        msgspec.structs.replace(
            entry,
            **_provenance(first.get(entry.name), last.get(entry.name)),
            **_outcomes(outcomes.get(entry.name)),
            health=verdicts[entry.name].verdict,
            reason=verdicts[entry.name].reason,
        )
        for entry in entries
    ]


def _of_content(skill: Skill, digest: str, known: Mapping[str, Entry]) -> Entry:
    """Returns the known row for this content, or a new one without history and outcomes."""
    if digest in known:
        return known[digest]
    return Entry(
        id=digest,
        name=skill.name,
        description=skill.description,
        state=skill_format.state(skill),
        pinned=skill_format.pinned(skill),
        origin=skill_format.origin(skill),
        problems=tuple(check_skill(skill)),
        **msgspec.structs.asdict(anatomy(skill)),
    )


def _provenance(first: Change | None, last: Change | None) -> dict[str, str]:
    if first is None or last is None:
        return {"created": "", "changed": "", "episode": "", "model": ""}
    return {"created": first.at, "changed": last.at, "episode": last.episode, "model": last.model}


def _outcomes(outcomes: SkillStats | None) -> dict[str, Any]:
    if outcomes is None or not outcomes.judged:
        unjudged = dict.fromkeys(("success_rate", "low", "high"))
        uses, last_used = (outcomes.uses, outcomes.last_used) if outcomes else (0, "")
        return {"uses": uses, "judged": 0, "solved": 0, "last_used": last_used, **unjudged}
    measured = msgspec.structs.asdict(outcomes)
    del measured["mean"], measured["ema"]  # the index has the observed rate instead of these estimates
    return {**measured, "success_rate": outcomes.solved / outcomes.judged}


def _embed(entries: Sequence[Entry]) -> np.ndarray:
    from hermes_lab.memory.embed import embed

    return embed([f"{entry.name.replace('-', ' ')}: {entry.description} {entry.triggers}" for entry in entries])


def _to_cell(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, tuple) else value


def _from_cells(cells: Sequence[Any]) -> Entry:
    row = dict(zip(_COLUMNS, cells, strict=True))
    for name in _LISTS:
        row[name] = msgspec.json.decode(row[name])
    return msgspec.convert({**row, "pinned": bool(row["pinned"])}, Entry)


def _open(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path or ":memory:", timeout=_BUSY_SECONDS, isolation_level=None)
    with _transaction(db):
        if db.execute("PRAGMA user_version").fetchone() != (_VERSION,):
            db.execute("DROP TABLE IF EXISTS skills")
            db.execute("DROP TABLE IF EXISTS state")
            db.execute(_TABLE)
            db.execute("CREATE TABLE state (value)")
            db.execute("INSERT INTO state VALUES ('')")
            db.execute(f"PRAGMA user_version = {_VERSION}")
    if db.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise sqlite3.DatabaseError("broken")
    return db


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """An atomic transaction that blocks other writers."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
