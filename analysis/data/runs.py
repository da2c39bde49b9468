"""Run folders given to a command: validation and progress."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hermes_lab.analysis.data.columns import read_columns
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import RunManifest, config_differences, read_manifest
from hermes_lab.records import episode_files
from hermes_lab.registration import may_stop


class OpenRun(NamedTuple):
    """A run with at least one episode. `finished` and `errored` count the last attempts of its `wanted` episodes."""

    folder: Path
    manifest: RunManifest
    finished: int
    errored: int
    ended: str = ""
    """The decision by which a stopping rule ended it early."""

    @property
    def wanted(self) -> int:
        """The episodes of the whole run."""
        return self.manifest.wanted

    @property
    def pending(self) -> int:
        """Episodes without a result: not started, running or errored. Those that a stopping rule left out are not."""
        return 0 if self.ended else max(self.wanted - self.finished, 0)

    def warning(self) -> str:
        """A warning that the run is incomplete, or ""."""
        if self.ended:
            return f"{self.folder}: ended early, {self.ended}; {self.finished} of {self.wanted} episodes were run"
        if not self.pending:
            return ""
        errored = f", {self.errored} errored" if self.errored else ""
        return (
            f"{self.folder}: {self.finished} of {self.wanted} episodes finished{errored}; the run is in progress or "
            "was interrupted and --resume continues it"
        )


def open_runs(*runs: str | Path) -> list[OpenRun]:
    """Raises `ConfigError` if a folder has no run, no episode yet or a changed plan, and as `refuse_copies`."""
    if not runs:
        raise ConfigError("give a run folder")
    refuse_copies(runs)
    return [_open(Path(run)) for run in runs]


def refuse_copies(runs: Sequence[str | Path]) -> None:
    """Raises `ConfigError` for a run that is given twice, or beside a copy of it: its episodes would count twice."""
    folders = [Path(run) for run in runs]
    if twice := [folder for folder, count in Counter(map(Path.resolve, folders)).items() if count > 1]:
        raise ConfigError(f"{twice[0]}: the same run is given twice")
    seen: dict[bytes, Path] = {}
    for folder in folders:
        # A record has the time at which its episode started.
        for path in episode_files(folder)[:1]:
            with path.open("rb") as file:
                first = file.readline()
            if first and first in seen:  # a killed run may have an empty file
                raise ConfigError(f"{folder}: a copy of {seen[first]}, since it has the same episodes; leave one out")
            seen[first] = folder


_EXTENT = frozenset(
    {
        *("suite.seed", "suite.world", "suite.count", "run.samples", "learning.stop", "learning.stop.when"),
        *("learning.arms", "learning.replicates", "learning.worlds", "learning.rounds", "learning.order"),
        *("model.name", "model.adapter", "model.merge", "learning.adapters"),
    }
)
"""Fields in which runs of one curve may differ: how much was run, and the weights, which have curves of their own."""
_NAMED = 5


def differences(runs: Mapping[Path, RunManifest]) -> Iterator[str]:
    """A line for each further run whose settings differ from those of the first, since one curve is fitted to both."""
    before = next(iter(runs), Path())
    for folder, manifest in list(runs.items())[1:]:
        fields = [name for name, *_ in config_differences(runs[before], manifest) if name not in _EXTENT]
        if runs[before].prompts != manifest.prompts:
            fields.insert(0, "the version of the prompts")
        if fields:
            told = ", ".join(fields[:_NAMED]) + (f" and {len(fields) - _NAMED} more" if len(fields) > _NAMED else "")
            yield f"{before} and {folder} differ in {told}, but share their curves; fit each alone"


def _open(folder: Path) -> OpenRun:
    manifest = read_manifest(folder)
    status = Counter(status for (status,) in read_columns(folder, ["status"]))
    if not status:
        if not manifest.wanted:
            raise ConfigError(f"{folder}: no episodes yet")
        raise ConfigError(f"{folder}: none of {manifest.wanted} episodes has finished yet; wait, or use --resume")
    return OpenRun(folder, manifest, status["ok"], status["errored"], ended_early(folder))


def ended_early(run: str | Path) -> str:
    """The decision by which a stopping rule ended a run before all of its episodes; "" if none did."""
    folder = Path(run)
    if not may_stop(folder):
        return ""
    from hermes_lab.analysis.comparison.sequential import stopped_early  # needs pandas

    return str(stopped_early(folder) or "")
