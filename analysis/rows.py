"""One flat row per episode: every column of analysis is defined here, and nowhere else."""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from hermes_lab.errors import ConfigError
from hermes_lab.records import read_episodes
from hermes_lab.types import Episode, Usage

_LANE = re.compile(r"(?P<arm>.+)-r(?P<replicate>\d+)-w(?P<world>\d+)")


class EpisodeRow(Struct, frozen=True, kw_only=True):
    """The last attempt of one episode key, flattened. `None` means not measured, or without a meaning."""

    run: str
    """The run folder, as it was given."""
    key: str
    """(suite, task, lane, round, sample) as one string."""
    suite: str
    """The suite's name."""
    task_id: str
    """The task."""
    domain: str
    """The task's domain."""
    split: str
    """The suite's split."""
    world: int
    """The draw of the hidden rules: the lane's, or in a lane without one the task's."""
    lane: str
    """`{arm}-r{replicate}-w{world}` in a learning run, else `main`."""
    arm: str
    """The lane's arm; a lane without one is its own arm."""
    replicate: int
    """The lane's replicate, 0 where it has none."""
    round: int
    """The round of the lane."""
    sample: int
    """Which of the rollouts of the same task."""
    experience: int
    """n: the tasks that the lane had finished when this episode's library was frozen."""
    place: int
    """The place within the round."""
    status: str
    """`ok`, or `errored` where the infrastructure failed: no attempt, no score."""
    error_kind: str
    """The part that failed, "" where none did."""
    score: float | None
    """[0, 1]."""
    success: bool | None
    """Whether the first submission was right."""
    accepted: bool | None
    """Whether any submission was right."""
    submissions: int
    """Judged submissions."""
    triggered: bool
    """Whether a hidden rule decides the task."""
    stop_reason: str
    """Why the loop ended, "" without a trajectory."""
    api_calls: int
    """Model calls, without the review's."""
    tool_calls: int
    """Tool calls, without the review's."""
    tool_errors: int
    """Tool calls that were answered with an error."""
    first_call_ok: bool | None
    """Whether the first reply held a well-formed call of a known tool with valid arguments."""
    prompt_tokens: int
    """As the server counted them, without the review's."""
    completion_tokens: int
    """As the server counted them, without the review's."""
    review_tokens: int
    """Prompt and completion tokens of the review."""
    seconds: float
    """Wall clock of the episode, without the review."""
    skills_listed: int
    """Skills that the prompt named."""
    skills_loaded: int
    """Skills that the agent read."""
    reused: bool
    """Whether it read any."""
    skills_written: int
    """Accepted writes, of the episode and of its review."""
    skills_eligible: int
    """Skills that were known to be about the task."""
    skills_followed: int
    """Skills of which a later call did what they say."""
    recovered: bool | None
    """Whether the work succeeded after a failed call or a rejected submission."""
    learning_value: float | None
    """[0, 1]: what the episode was worth learning from."""
    reviewed: bool
    """Whether the agent looked back on it."""
    review_error: str
    """Why that failed, "" where it did not."""
    review_seconds: float
    """Wall clock of the review."""
    children: int
    """Child agents that the agent gave work to."""
    provider: str
    """Who served the model."""
    model: str
    """The model's name."""
    adapter: str
    """The adapter's name, "" for the bare weights."""
    adapter_digest: str
    """sha256 of the adapter."""
    snapshot: str
    """The frozen library of skills that the episode met."""
    config_digest: str
    """sha256 of the configuration."""


def read_rows(run: Path) -> Iterator[EpisodeRow]:
    """A row for the last attempt of each key, one at a time: no more than the keys is held.

    Raises `ConfigError` where `run` is no run folder, or a line of its log is no episode.
    """
    if not (run / "episodes").is_dir() and not (run / "run.json").is_file():
        raise ConfigError(f"{run} has no episodes/; is it a run folder?")
    for episode in read_episodes(run):
        yield _row(str(run), episode)


def _row(run: str, e: Episode) -> EpisodeRow:
    lane = _LANE.fullmatch(e.lane)
    judged = e.status == "ok" and e.success is not None
    usage = e.trajectory.usage if e.trajectory else Usage()
    review = e.review.trajectory.usage if e.review and e.review.trajectory else Usage()
    first_call_ok = e.metrics.get("first_call_ok")
    return EpisodeRow(
        run=run,
        key=e.key,
        suite=e.suite,
        task_id=e.task_id,
        domain=e.task.domain,
        split=e.task.split,
        world=int(lane["world"]) if lane else e.task.world,
        lane=e.lane,
        arm=lane["arm"] if lane else e.lane,
        replicate=int(lane["replicate"]) if lane else 0,
        round=e.round,
        sample=e.sample,
        experience=e.experience,
        place=e.place,
        status=e.status,
        error_kind=e.error.kind if e.error else "",
        score=e.score if judged else None,
        success=e.success if judged else None,
        accepted=any(verdict.success for verdict in e.verdicts) if judged else None,
        submissions=len(e.verdicts),
        triggered=bool(e.task.triggers),
        stop_reason=e.trajectory.stop_reason if e.trajectory else "",
        api_calls=int(e.metrics.get("api_calls", 0)),
        tool_calls=int(e.metrics.get("tool_calls", 0)),
        tool_errors=int(e.metrics.get("tool_errors", 0)),
        first_call_ok=None if first_call_ok is None or e.status == "errored" else bool(first_call_ok),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        review_tokens=review.prompt_tokens + review.completion_tokens,
        seconds=e.seconds,
        skills_listed=len(e.skills.listed),
        skills_loaded=len(e.skills.loaded),
        reused=bool(e.skills.loaded),
        skills_written=len(e.skills.writes) + (len(e.review.writes) if e.review else 0),
        skills_eligible=sum(trace.eligible is True for trace in e.skills.traces),
        skills_followed=sum(trace.followed is True for trace in e.skills.traces),
        recovered=e.observation.recovered if e.observation else None,
        learning_value=e.observation.value if e.observation else None,
        reviewed=e.review is not None,
        review_error=e.review.error.message if e.review and e.review.error else "",
        review_seconds=e.review.seconds if e.review else 0.0,
        children=len(e.children),
        provider=e.model.provider,
        model=e.model.name,
        adapter=e.model.adapter,
        adapter_digest=e.model.adapter_digest,
        snapshot=e.skills.snapshot,
        config_digest=e.config_digest,
    )
