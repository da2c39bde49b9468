"""Whether the treatment of an arm happened: reviews, skills written, merged, listed, loaded and followed.

An arm whose agent never had anything to use does not measure an effect of skills. `summary`, `compare`, `fit` and the
report say so in the sentences of this module.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes_lab.analysis.skill_effects.rejected import Rejected, rejected_writes
from hermes_lab.analysis.skill_effects.timeline import read_merges
from hermes_lab.lane import LEARNING_ARMS, SKILL_ARMS
from hermes_lab.text.counted import counted

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    *("lane", "phase", "status", "stop_reason", "iterations", "reviewed", "review_error", "skills_written"),
    *("notes_written", "skills_listed", "skills_usable", "skills_loaded"),
    *("skills_followed", "noted"),
)
"""The columns of `EpisodeRow` that a treatment needs."""

Config = Mapping[str, Any]


def setting(config: Config, path: str) -> Any:
    """The value of a field; None if the configuration lacks it, as in older runs."""
    value: Any = config
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


class Treatment(NamedTuple):
    """The treatment of one arm, as counts of finished episodes. Learning is counted over all training tasks
    (`worked`), use over the compared `episodes`."""

    arm: str
    worked: int
    """Training tasks."""
    answered: int
    """Training tasks with a delivered answer; a review needs one."""
    reviewed: int
    reviews_failed: int
    written: int
    """Skill writes, of which the merges after rounds kept `merged` (None if no merge is on record)."""
    merged: int | None
    notes_written: int
    rejected: int
    """Writes of skills and notes that were rejected; counted only for a learning arm that wrote no skill."""
    first_rejection: str
    """Why the first of them was."""
    review_error: str
    """Why the first of the failed reviews failed."""
    longest: int
    """Training tasks of the longest lane."""
    iterations: int
    """Tool-calling iterations of the lane with the most, in training tasks."""
    lanes: int
    """Lanes with compared episodes."""
    lanes_given: int
    """Those in which an episode had a skill or a note."""
    episodes: int
    listed: int
    """Compared episodes with a skill in the prompt."""
    usable: int
    """Those in which a listed skill was relevant to the task, or this is not known."""
    loaded: int
    with_code: int
    """Those that loaded a skill with code; only of them is known whether they followed one."""
    followed: int | None
    """Those that ran a line of a loaded skill's code; None if skills were loaded, and none had code."""
    noted: int
    """Compared episodes with notes in the prompt."""

    @property
    def given(self) -> bool:
        """Whether any compared episode had something to use."""
        return bool(self.listed or self.loaded or self.noted)

    @property
    def learned(self) -> bool:
        """Whether it wrote any skill or note."""
        return bool(self.written or self.notes_written)

    @property
    def uses(self) -> str:
        """In how many compared episodes loaded skills were followed, such as "followed in 3 of 5 with code"."""
        if self.followed is None:
            return "followed in -"
        some = f" of {self.with_code:,} with code" if self.with_code < self.loaded else ""
        return f"followed in {self.followed:,}{some}"

    def sentence(self) -> str:
        """What happened, in one line. `sentences` says of several arms why a count is missing."""
        parts = []
        if self.arm in LEARNING_ARMS:
            failed = f" ({self.reviews_failed:,} failed)" if self.reviews_failed else ""
            parts.append(f"{self.reviewed:,} of {self.worked:,} episodes reviewed{failed}")
            rejected = f" ({self._rejections() if self.learned else f'{self.rejected:,} rejected'})"
            parts.append(f"{counted(self.written, 'skill write')}{self._kept()}{rejected if self.rejected else ''}")
            if self.notes_written:
                parts.append(counted(self.notes_written, "note write"))
        parts.append(f"skills listed in {self.listed:,} of {self.episodes:,} compared episodes")
        parts.append(f"loaded in {self.loaded:,}")
        parts.append(self.uses)
        if self.noted:
            parts.append(f"notes in {self.noted:,}")
        return f"{self.arm}: {', '.join(parts)}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict()

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> "Treatment":
        """The treatment that `report` says."""
        return cls(**report)

    def absence(self, config: Config) -> str:
        """Why the treatment did not happen, such as "`on` never learned (...)"; "" if it did. `config` is that of
        `run.json`, or empty if there is none."""
        if self.episodes == 0 or self.given:
            return ""
        if self.arm not in LEARNING_ARMS:
            limit = "; skills.max_listed is 0" if setting(config, "skills.max_listed") == 0 else ""
            return f"`{self.arm}` never had a skill (listed in 0 of {counted(self.episodes, 'episode')}{limit})"
        if not self.learned:
            return self.lesson(config)
        written = counted(self.written, "skill write")
        if self.notes_written:
            written += f" and {counted(self.notes_written, 'note write')}"
        return (
            f"`{self.arm}` never used what it learned ({written}{self._kept()}, but listed in 0 of "
            f"{counted(self.episodes, 'compared episode')})"
        )

    def lesson(self, config: Config) -> str:
        """Why a learning arm never learned; "" if it wrote anything, or is not a learning arm."""
        if self.arm not in LEARNING_ARMS or self.learned or self.worked == 0:
            return ""
        reviewed = f"{self.reviewed:,} of {counted(self.worked, 'episode')} {'was' if self.worked == 1 else 'were'}"
        if self.reviewed:
            failed = f", {self.reviews_failed:,} of these reviews failed" if self.reviews_failed else ""
            failed += f": {self.review_error}" if failed and self.review_error else ""
            wrote = f"{reviewed} reviewed, and none wrote a skill or a note{failed}"
            return f"`{self.arm}` never learned ({wrote}{self._rejections('; ')})"
        return f"`{self.arm}` never learned ({reviewed} reviewed{self._why_no_review(config)}{self._rejections('; ')})"

    def caveat(self) -> str:
        """Which part of the treatment did not happen, though some of it did; "" if nothing is missing."""
        if not self.given:
            return ""
        if self.lanes_given < self.lanes:
            missing = self.lanes - self.lanes_given
            return f"in {missing:,} of {counted(self.lanes, 'lane')} `{self.arm}` never had a skill"
        if self.arm in LEARNING_ARMS and not self.learned and self.worked:
            return f"`{self.arm}` learned nothing new, and used only the skills that it started with"
        return ""

    def unread(self) -> str:
        """That no skill's text was ever read, though skills were listed; "" otherwise."""
        if self.loaded or self.noted or not self.listed:
            return ""
        if not self.usable:
            return (
                f"no task of `{self.arm}` came back to what a skill is about (eligible in 0 of "
                f"{counted(self.episodes, 'episode')}); if the run is complete, use more rounds (learning.rounds)"
            )
        return (
            f"`{self.arm}` never loaded a skill (listed in {self.listed:,} of "
            f"{counted(self.episodes, 'episode')}, loaded in 0)"
        )

    def _rejections(self, mark: str = "") -> str:
        found = str(Rejected(self.rejected, self.first_rejection))
        return f"{mark}{found}" if found else ""

    def _kept(self) -> str:
        return "" if self.merged is None or self.merged == self.written else f", {self.merged:,} merged"

    def _why_no_review(self, config: Config) -> str:
        if self.answered == 0:
            return ": a review needs an answer, and none of them gave one"
        every = setting(config, "skills.review_every")
        if every is None:
            return ""
        if self.iterations >= every:
            return f": skills.review_every is {every:,} tool-calling iterations"
        return (
            f": skills.review_every is {every:,} tool-calling iterations, and no lane made more than "
            f"{self.iterations:,} in its {counted(self.longest, 'task')}"
        )


def sentences(treatments: Iterable[Treatment]) -> Iterator[str]:
    """What happened in each arm, a line each, and why there is no count of followed skills, if so."""
    listed = list(treatments)
    yield from (each.sentence() for each in listed)
    yield from unfollowed(listed)


def unfollowed(treatments: Iterable[Treatment]) -> Iterator[str]:
    """A line that explains "followed in -"; nothing if every arm has that count."""
    if arms := list(dict.fromkeys(f"`{each.arm}`" for each in treatments if each.followed is None)):
        yield f"followed in -: not measured: these skills have no code (loaded skills of {', '.join(arms)})"


def not_measured(before: Treatment | None, after: Treatment | None, config: Config) -> str:
    """Why a comparison of two arms does not measure their difference in treatment; "" if it does. A side that gives no
    skills, such as `off`, is None."""
    sides = [side for side in (after, before) if side]
    for side in sides:
        if absent := side.absence(config):
            return absent
    if after and before and {before.arm, after.arm} == {"frozen", "on"}:  # both start with the same library
        learner = after if after.arm == "on" else before
        return learner.lesson(config)
    return ""


def treatments_of(rows: "pd.DataFrame", compared: "pd.DataFrame") -> list[Treatment]:
    """The treatment of each arm with skills in `rows`, as used in the `compared` ones. Both are of `load_episodes`,
    with `COLUMNS`, `arm` and `run`."""
    merged: Counter[str] = Counter()
    for run in rows["run"].unique():
        merged.update(merges_of(Path(run)))
    found = []
    for arm in (arm for arm in SKILL_ARMS if (rows["arm"] == arm).any()):
        tally = TreatmentTally()
        for row in _rows(rows, arm):
            tally.add_lesson(row)
        for row in _rows(compared, arm):
            tally.add_use(row)
        found.append(tally.treatment(arm, merged, map(Path, rows["run"].unique())))
    return found


def _rows(frame: "pd.DataFrame", arm: str) -> Iterator[Any]:
    """The rows of an arm, with None for a missing value."""
    chosen = frame.loc[frame["arm"] == arm, list(COLUMNS)].astype(object)
    yield from chosen.where(chosen.notna(), None).itertuples(index=False)


def merges_of(run: Path) -> Counter[str]:
    """Skill writes that merges kept, by lane; empty if no merge is on record."""
    merged: Counter[str] = Counter()
    for lane, merge in read_merges(run):
        merged[lane] += len(merge.merged)
    return merged


class TreatmentTally:
    """Counts the treatment of one arm over rows in any order."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._tasks: Counter[str] = Counter()
        self._iterations: Counter[str] = Counter()
        self._lanes: set[str] = set()
        self._given: set[str] = set()
        self._review_error = ""

    def add_lesson(self, row: Any) -> None:
        """Counts what a training task taught, given a row with `COLUMNS`; other rows are ignored."""
        if row.status != "ok" or row.phase != "learn":
            return
        self._tasks[row.lane] += 1
        self._iterations[row.lane] += row.iterations
        self._counts["worked"] += 1
        self._counts["answered"] += row.stop_reason == "answered"
        self._counts["reviewed"] += row.reviewed
        self._counts["reviews_failed"] += bool(row.review_error)
        self._review_error = self._review_error or " ".join(row.review_error.split())
        self._counts["written"] += row.skills_written
        self._counts["notes_written"] += row.notes_written

    def add_use(self, row: Any) -> None:
        """Counts what a compared episode used, given a row with `COLUMNS`."""
        if row.status != "ok":
            return
        self._lanes.add(row.lane)
        self._counts["episodes"] += 1
        self._counts["listed"] += row.skills_listed > 0
        self._counts["usable"] += row.skills_usable > 0
        self._counts["loaded"] += row.skills_loaded > 0
        if row.skills_loaded and row.skills_followed is not None:
            self._counts["with_code"] += 1
            self._counts["followed"] += row.skills_followed > 0
        self._counts["noted"] += row.noted
        if row.skills_listed or row.skills_loaded or row.noted:
            self._given.add(row.lane)

    def treatment(self, arm: str, merged: Mapping[str, int], runs: Iterable[Path]) -> Treatment:
        """The counts; `merged` has the kept skill writes by lane. The `runs` are read once more if the arm should have
        written skills and wrote none, for the reason."""
        silent = arm in LEARNING_ARMS and self._tasks and not self._counts["written"]
        rejected = rejected_writes(runs, self._tasks.keys()) if silent else Rejected()
        counts: dict[str, Any] = dict.fromkeys(_COUNTED, 0) | self._counts
        if counts["loaded"] and not counts["with_code"]:
            counts["followed"] = None
        return Treatment(
            arm=arm,
            rejected=rejected.writes,
            first_rejection=rejected.first,
            review_error=self._review_error,
            merged=sum(merged[lane] for lane in known) if (known := self._tasks.keys() & merged.keys()) else None,
            longest=max(self._tasks.values(), default=0),
            iterations=max(self._iterations.values(), default=0),
            lanes=len(self._lanes),
            lanes_given=len(self._given),
            **counts,
        )


_COUNTED = (
    *("worked", "answered", "reviewed", "reviews_failed", "written", "notes_written"),
    *("episodes", "listed", "usable", "loaded", "with_code", "followed", "noted"),
)
