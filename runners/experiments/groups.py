"""`STUDY/groups.json`: the groups of parts that a study set out to analyse, written before its first episode.

A group that the file does not name as it is now is exploratory: it was chosen after data could be seen.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from hermes_lab.manifest import read_manifest
from hermes_lab.records import episode_files, write_json
from hermes_lab.registration import content_digest, is_extended, read_plan, read_registered
from hermes_lab.runners.experiments.study import Study

FILE = "groups.json"
EXPLORATORY = "exploratory: the groups were not registered before the first run"
_SECONDS = len("2026-01-01T00:00:00")


class RegisteredGroup(msgspec.Struct, frozen=True, kw_only=True):
    """What one group analyses together: the parts of each variant, the variants that are compared, and trainings."""

    parts: Mapping[str, Sequence[str]]
    compare: Sequence[str]
    trainings: Mapping[str, Sequence[str]]


class RegisteredGroups(msgspec.Struct, frozen=True, kw_only=True):
    """The groups of a study. `digest` is a sha256 of all else."""

    v: int = 1
    registered_at: str
    digest: str = ""
    groups: Mapping[str, RegisteredGroup]


def register_groups(study: Study) -> None:
    """Writes `groups.json`, unless the study has no groups or a run of it has an episode."""
    if not study.groups or any(episode_files(run.folder) for run in study.runs):
        return
    registered_at = datetime.now(UTC).isoformat(timespec="seconds")
    registered = RegisteredGroups(registered_at=registered_at, groups=_groups_of(study))
    digest = content_digest(msgspec.to_builtins(registered))
    study.folder.mkdir(parents=True, exist_ok=True)
    write_json(study.folder / FILE, msgspec.structs.replace(registered, digest=digest))


def registered_groups(study: Study) -> frozenset[str]:
    """The names of the groups that were registered as they are, before the first episode of any run.

    `study` has all of its runs, finished or not. Raises `ConfigError` if `groups.json` was changed since.
    """
    registered = read_registered(study.folder / FILE, RegisteredGroups, "registered groups")
    if registered is None or _began_before(study, registered.registered_at):
        return frozenset()
    return frozenset(name for name, group in _groups_of(study).items() if registered.groups.get(name) == group)


def extended_runs(study: Study, group: str) -> list[str]:
    """The runs of a group to which worlds were added after their plans were registered."""
    folders = [folder for runs in study.of(group).values() for _, folder in runs if episode_files(folder)]
    return [str(each) for each in folders if is_extended(read_plan(each), read_manifest(each).wanted)]


def _groups_of(study: Study) -> dict[str, RegisteredGroup]:
    found = {}
    for name in study.groups:
        parts = {variant: sorted(part for part, _ in runs) for variant, runs in study.of(name).items()}
        trainings = {each: list(variants) for each, variants in study.trainings.items()}
        found[name] = RegisteredGroup(parts=parts, compare=list(study.compare or ()), trainings=trainings)
    return found


def _began_before(study: Study, registered_at: str) -> bool:
    """Whether an episode of any run started before this time."""
    from hermes_lab.analysis.data.columns import read_columns

    begun = [run.folder for run in study.runs if episode_files(run.folder)]
    starts = (start for folder in begun for (start,) in read_columns(folder, ["started_at"]))
    return any(start[:_SECONDS] < registered_at[:_SECONDS] for start in starts)
