"""Reads one run as it grows: each line of its log once, and what it does now."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from hermes_lab.activity import Running
from hermes_lab.analysis.report.transcript import conversation, transcript
from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import RunManifest, read_manifest
from hermes_lab.records import episode_files
from hermes_lab.runners.engine.running import LifeSigns, read_running
from hermes_lab.runners.engine.tally import arm_of
from hermes_lab.types import Episode, EpisodeError, Trajectory, Usage
from hermes_lab.types.episode import VERSION, episode_key

SLICE = 0.25
"""Seconds of reading or searching before an answer is given, with what was found until then."""
_POINTS = 12
"""Points of a curve; more values of experience are put together."""
_BUFFER = 1 << 20
CurvePoint = tuple[float, int, int, float, float]
"""Experience, successes, trials, and both ends of the Wilson interval."""


class _Verdict(msgspec.Struct):
    success: bool = False


class _Skills(msgspec.Struct):
    loaded: Sequence[str] = ()
    writes: Sequence[msgspec.Raw] = ()


class _Spent(msgspec.Struct):
    stop_reason: str = ""
    usage: Usage = Usage()


class _Review(msgspec.Struct):
    trajectory: _Spent | None = None
    writes: Sequence[msgspec.Raw] = ()
    seconds: float = 0.0


class _Task(msgspec.Struct):
    world: int = 0


class _Line(msgspec.Struct):
    """What the list of episodes needs of a record."""

    suite: str
    task_id: str
    lane: str
    round: int
    sample: int
    status: str
    v: int = 1
    experience: int = 0
    phase: str = "learn"
    task: _Task = msgspec.field(default_factory=_Task)
    seconds: float = 0.0
    success: bool | None = None
    error: EpisodeError | None = None
    verdicts: Sequence[_Verdict] = ()
    trajectory: _Spent | None = None
    skills: _Skills = msgspec.field(default_factory=_Skills)
    review: _Review | None = None

    @property
    def key(self) -> str:
        return episode_key(self.suite, self.task_id, self.lane, self.round, self.sample)

    @property
    def outcome(self) -> str:
        if self.status == "errored":
            return "errored"
        if self.success is None:
            return "not judged"
        if self.success:
            return "solved"
        return "solved after feedback" if any(verdict.success for verdict in self.verdicts) else "not solved"


class _Stopped(msgspec.Struct):
    stopped: str = ""


class _Place(NamedTuple):
    """Where a record is."""

    path: Path
    offset: int
    length: int


class Found(NamedTuple):
    """Episodes whose text holds what was searched for, by number; `searched` of all episodes are done."""

    hits: list[int]
    searched: int


class RunReader:
    """A run folder, as far as `refresh` has read it; threads take turns.

    An episode's number is its place in the list, which stays when a later record supersedes it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._manifest: tuple[int, RunManifest] | None = None
        self._life = LifeSigns()
        self._decoder = msgspec.json.Decoder(_Line)
        self._forget()

    def _forget(self) -> None:
        self.begun = time.time_ns()
        self._read: dict[Path, int] = {}
        self._numbers: dict[str, int] = {}
        self._places: list[_Place] = []
        self._outcomes: list[tuple[str, str]] = []
        self._changes: list[list[Any]] = []
        self._points: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
        self._added: list[tuple[str, int, bool] | None] = []
        self.damaged = 0
        self.complete = False

    def manifest(self) -> RunManifest | None:
        """None if it cannot be read."""
        try:
            written = (self.folder / "run.json").stat().st_mtime_ns
            if self._manifest is None or self._manifest[0] != written:
                self._manifest = written, read_manifest(self.folder)
        except (ConfigError, OSError):
            return None
        return self._manifest[1]

    def stopped(self) -> bool:
        """Whether its summary says that a stopping rule ended it."""
        try:
            summary = msgspec.json.decode((self.folder / "summary.json").read_bytes(), type=_Stopped)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return bool(summary.stopped)

    def refresh(self, until: float) -> None:
        """Reads new lines until that time of `time.monotonic`."""
        with self._lock:
            try:
                self._refresh(until)
            except OSError:  # removed meanwhile
                self._forget()

    def changes(self, since: int) -> tuple[list[list[Any]], int]:
        """The rows that are new or changed after the first `since` changes, and the number of all changes."""
        with self._lock:
            return self._changes[since:], len(self._changes)

    def counts(self) -> dict[str, int]:
        """Episodes by outcome."""
        with self._lock:
            return dict(Counter(outcome for outcome, _ in self._outcomes))

    def running(self) -> tuple[list[Running], str]:
        """The unfinished episodes, those that wait longest first, and the run's state: `running`, `stopped` (the
        process that ran them is gone) or ""."""
        files = read_running(self.folder)
        now, ticks = time.time(), time.monotonic()
        alive = [file for file in files if self._life.alive(file, now, ticks)]
        episodes = [episode for file in alive or files for episode in file.episodes]
        state = "running" if alive else "stopped" if files else ""
        return sorted(episodes, key=lambda episode: episode.since), state

    def transcript(self, number: int) -> dict[str, Any] | None:
        """An episode for the viewer; None if it is not there or cannot be read."""
        with self._lock:
            place = self._places[number] if 0 <= number < len(self._places) else None
        return place and _transcript(place)

    def curves(self) -> dict[str, list[CurvePoint]]:
        """By arm, while learning, in at most 12 points."""
        with self._lock:
            arms = {arm: {n: tuple(counts) for n, counts in points.items()} for arm, points in self._points.items()}
        return {arm: list(_points(points)) for arm, points in sorted(arms.items())}

    def search(self, query: str, since: int) -> Found:
        """Searches the texts of the episodes from number `since` on, for `SLICE` seconds."""
        with self._lock:
            places = self._places[since:]
        until = time.monotonic() + SLICE
        wanted = query.lower()
        hits = []
        number = since
        for number, place in enumerate(places, since):
            if _holds(_transcript(place), wanted):
                hits.append(number)
            if time.monotonic() >= until:
                break
        return Found(hits, number + 1 if places else since)

    def _refresh(self, until: float) -> None:
        files = episode_files(self.folder)
        if any(not path.exists() or path.stat().st_size < offset for path, offset in self._read.items()):
            self._forget()  # the run was removed and began anew
        self.complete = False
        for path in files:
            begin = self._read.get(path, 0)
            if path.stat().st_size == begin:
                continue
            with path.open("rb", buffering=_BUFFER) as file:
                file.seek(begin)
                for line in _whole_lines(file):
                    self._add(line, _Place(path, begin, len(line)))
                    begin += len(line)
                    self._read[path] = begin
                    if time.monotonic() >= until:
                        return
        self.complete = True

    def _add(self, line: bytes, place: _Place) -> None:
        try:
            record = self._decoder.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            self.damaged += 1
            return
        if record.v > VERSION:
            self.damaged += 1
            return
        number = self._numbers.setdefault(record.key, len(self._numbers))
        arm, outcome = arm_of(record.lane), record.outcome
        if number == len(self._places):
            self._places.append(place)
            self._outcomes.append((outcome, arm))
            self._added.append(None)
        self._places[number] = place
        self._outcomes[number] = (outcome, arm)
        if before := self._added[number]:
            self._count(*before, -1)
        self._added[number] = None
        if record.success is not None and record.phase == "learn":
            self._added[number] = (arm, record.experience, record.success)
            self._count(arm, record.experience, record.success, 1)
        self._changes.append(_row(number, arm, record))

    def _count(self, arm: str, experience: int, success: bool, by: int) -> None:
        point = self._points[arm][experience]
        point[0] += by * success
        point[1] += by


def running_row(episode: Running) -> list[Any]:
    """Key, state, since, started, turn and phase: what the list needs of a running episode."""
    times = round(episode.since, 1), round(episode.started, 1)
    return [episode.key, episode.state, *times, episode.turn, episode.phase]


def running_transcript(episode: Running) -> dict[str, Any]:
    """The conversation so far for the viewer."""
    items = list(conversation(Trajectory(tuple(episode.messages), (), "native", "answered")))
    return {"key": episode.key, "items": items, "left_out": episode.left_out}


def _row(number: int, arm: str, record: _Line) -> list[Any]:
    """One row of the list, in the order of `COLUMNS` in `live_store.js`."""
    review = record.review
    spent = [part.usage for part in (record.trajectory, review.trajectory if review else None) if part]
    return [
        number,
        record.suite,
        record.task_id,
        record.lane,
        arm,
        record.phase,
        record.round,
        record.sample,
        record.task.world,
        record.experience,
        record.outcome,
        len(record.skills.loaded),
        len(record.skills.writes) + (len(review.writes) if review else 0),
        sum(usage.prompt_tokens + usage.completion_tokens for usage in spent),
        round(record.seconds + (review.seconds if review else 0.0), 2),
    ]


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    for line in file:
        if not line.endswith(b"\n"):
            return
        yield line


def _transcript(place: _Place) -> dict[str, Any] | None:
    try:
        with place.path.open("rb") as file:
            file.seek(place.offset)
            return transcript(msgspec.json.decode(file.read(place.length), type=Episode))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _holds(content: Any, query: str) -> bool:
    """Whether a text of a transcript holds the query."""
    if isinstance(content, str):
        return query in content.lower()
    if isinstance(content, dict):
        return any(_holds(value, query) for value in content.values())
    return isinstance(content, list | tuple) and any(_holds(value, query) for value in content)


def _points(counts: dict[int, tuple[int, ...]]) -> Iterator[tuple[float, int, int, float, float]]:
    measured = {n: point for n, point in counts.items() if point[1]}
    first, last = min(measured, default=0), max(measured, default=0)
    width = (last - first + 1) / _POINTS if len(measured) > _POINTS else 0
    groups: dict[float, list[tuple[int, int, int]]] = defaultdict(list)
    for n, (solved, trials) in measured.items():
        groups[(n - first) // width if width else n].append((n, solved, trials))
    for _, points in sorted(groups.items()):
        solved, trials = sum(point[1] for point in points), sum(point[2] for point in points)
        low, high = Rate(solved, trials).interval
        yield sum(n * times for n, _, times in points) / trials, solved, trials, low, high
