"""Runs a plan under the trackers of `tracking.services`.

Trackers run in a thread of their own, so that one that fails or hangs costs one warning and no episode.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hermes_lab.config.masking import masked
from hermes_lab.runners.engine.episode_summary import EpisodeSummary
from hermes_lab.runners.engine.execute import Interrupted, Listener, RunPlan, RunResult, execute
from hermes_lab.runners.engine.tally import Progress, Tally
from hermes_lab.runners.trackers.services import openers
from hermes_lab.runners.trackers.tracker import Start, Tracker

_PATIENCE = 60.0
"""Seconds that the end of a run waits for a tracker."""


def execute_tracked(plan: RunPlan, *, resume: bool, listener: Listener) -> RunResult:
    """`execute`, followed by the trackers of the configuration."""
    config = plan.config.tracking
    if not config.services or plan.folder is None:
        return execute(plan, resume=resume, listener=listener)
    tracked = _Tracked(plan, listener, resume=resume)
    try:
        result = execute(plan, resume=resume, listener=tracked)
    except Interrupted as stop:
        tracked.end(stop.result, reported=False)  # whoever presses Ctrl-C does not wait for a report
        raise
    except BaseException:
        tracked.end(None, reported=False)
        raise
    tracked.end(result, reported=True)
    return result


class _Tracked(Listener):
    """Passes everything on to another listener, and the tally to the trackers."""

    def __init__(self, plan: RunPlan, shown: Listener, *, resume: bool) -> None:
        self._plan, self._shown, self._resumed = plan, shown, resume
        self._workers: list[_Worker] = []
        self._counted = _Counted(plan)

    def begin(self, plan: RunPlan, tally: Tally) -> None:
        """Opens the trackers: the folder is this run's now."""
        self._shown.begin(plan, tally)
        folder, config = plan.folder, plan.config
        assert folder is not None
        content = masked(config.model_dump(mode="json", exclude={"tracking"}))
        name = config.tracking.name or folder.absolute().name
        start = Start(folder, config.tracking.project, name, plan.command, content, self._resumed)
        every = openers()
        self._workers = [_Worker(service, every[service], start, self.warning) for service in config.tracking.services]

    def message(self, line: str) -> None:
        """Passes it on."""
        self._shown.message(line)

    def warning(self, line: str) -> None:
        """Passes it on."""
        self._shown.warning(line)

    def progress(self, tally: Tally) -> Progress:
        """The other listener's view, which also logs metrics."""
        return _LoggedProgress(self._shown.progress(tally), tally, self._log, self._counted, self._plan)

    def _log(self, metrics: Mapping[str, float], step: int) -> None:
        for worker in self._workers:
            worker.do(lambda tracker: tracker.log(metrics, step))

    def end(self, result: RunResult | None, *, reported: bool) -> None:
        """Gives the trackers the result, and waits for them, but not for ever."""
        if not self._workers:
            return
        summary = _numbers(result.summary) if result else {}
        verdict, report = "", None
        if result and reported:
            with _warned(self.warning, "tracking: no verdict or report"):
                verdict = _verdict(result.folder, self._plan.command)
                report = _report(result.folder)
        complete = result is not None and result.complete
        for worker in self._workers:
            worker.do(lambda tracker: tracker.finish(summary, verdict, report, complete=complete))
        until = time.monotonic() + _PATIENCE
        for worker in self._workers:
            worker.join(max(until - time.monotonic(), 0.1))


class _Worker:
    """A tracker in its own thread. After its first failure it does nothing more."""

    def __init__(
        self, service: str, opener: Callable[[Start], Tracker], start: Start, warn: Callable[[str], None]
    ) -> None:
        self._service, self._warn, self._failed = service, warn, False
        self._jobs: queue.SimpleQueue[Callable[[Tracker], None] | None] = queue.SimpleQueue()
        # A daemon: a tracker that hangs does not keep the process alive.
        self._thread = threading.Thread(target=self._work, args=(opener, start), daemon=True)
        self._thread.start()

    def do(self, job: Callable[[Tracker], None]) -> None:
        """Queues a call."""
        self._jobs.put(job)

    def join(self, seconds: float) -> None:
        """Waits until everything is done."""
        self._jobs.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive() and not self._failed:
            self._failed = True
            self._warn(
                f"tracking: {self._service} did not finish in {_PATIENCE:.0f} s, and may lack the last values; the run "
                "folder has everything"
            )

    def _work(self, opener: Callable[[Start], Tracker], start: Start) -> None:
        try:
            tracker = opener(start)
            while job := self._jobs.get():
                job(tracker)
        except (Exception, SystemExit) as error:
            if not self._failed:
                self._failed = True
                self._warn(f"tracking: {self._service} failed, and the run goes on without it: {_told(error)}")


def _told(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return f"no package {package}; pip install 'hermes-lab[{package}]'"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


class _Counted:
    """The cost so far of this start, at the model's prices."""

    def __init__(self, plan: RunPlan) -> None:
        self._price = plan.config.model.price
        self.cost = 0.0

    def add(self, episode: EpisodeSummary) -> None:
        """Adds an episode and its review."""
        from hermes_lab.agent.loop import cost_of

        spent = (episode.trajectory, episode.review.trajectory if episode.review else None)
        self.cost += sum(cost_of(part.usage, self._price) for part in spent if part)


class _LoggedProgress:
    def __init__(
        self,
        shown: Progress,
        tally: Tally,
        log: Callable[[Mapping[str, float], int], None],
        counted: _Counted,
        plan: RunPlan,
    ) -> None:
        self._shown, self._tally, self._log, self._counted = shown, tally, log, counted
        self._every, self._last = plan.config.tracking.every_seconds, time.monotonic()

    def __enter__(self) -> "_LoggedProgress":
        self._shown.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._shown.__exit__(*exc)
        finally:
            self._log(_metrics(self._tally, self._counted.cost), self._tally.total("finished"))

    def __call__(self, episode: EpisodeSummary) -> None:
        self._shown(episode)
        self._counted.add(episode)
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self._log(_metrics(self._tally, self._counted.cost), self._tally.total("finished"))


def _metrics(tally: Tally, cost: float) -> dict[str, float]:
    found: dict[str, float] = {f"episodes/{name}": tally.total(name) for name in ("finished", "errored", "wanted")}
    found |= {"tokens": tally.total("tokens"), "cost": cost, "uncounted_calls": tally.total("uncounted")}
    for name, arm in tally.arms.items():
        if arm.scored:
            found[f"success/{name.replace(', ', ' ')}"] = arm.solved / arm.scored
    return found


def _numbers(summary: Mapping[str, Any], at: str = "final/") -> dict[str, float]:
    """The numbers of a summary, one level deep."""
    return {
        f"{at}{name}": float(value)
        for name, value in summary.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _verdict(folder: Path, command: str) -> str:
    from hermes_lab.analysis.comparison.verdict import verdict

    return verdict(folder).sentence if command == "learn" else ""


def _report(folder: Path) -> Path:
    from hermes_lab.analysis.report.page import write_report
    from hermes_lab.runners.experiments.ground_truth import from_suite

    path = folder / "report.html"
    write_report([folder], path, from_suite=from_suite([folder]))
    return path


@contextmanager
def _warned(warn: Callable[[str], None], what: str) -> Iterator[None]:
    """Turns a failure into a warning."""
    try:
        yield
    except Exception as error:
        warn(f"{what}: {_told(error)}")
