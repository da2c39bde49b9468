"""One flat row per episode: what every column of analysis means. `hermes_lab.analysis.data.columns` makes them from a
record."""

from msgspec import Struct


class EpisodeRow(Struct, frozen=True):
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
    family: str
    """The family of tasks, several joined by `+`; "" where the suite names none."""
    rule_type: str
    """The types of the hidden rules that decide the task, joined by `+`; "" where none does."""
    seen: bool | None
    """Whether all of those types occur in the training worlds, too; None where the suite does not say."""
    world: int
    """The draw of the hidden rules: the lane's, or in a lane without one the task's."""
    lane: str
    """`{arm}-r{replicate}-w{world}` in a learning run (and `-a{weights}` where weights are a factor), else `main`."""
    arm: str
    """The lane's arm; a lane without one is its own arm."""
    replicate: int
    """The lane's replicate, 0 where it has none."""
    weights: int
    """Which of `learning.adapters` the lane ran with, 0 where weights are no factor."""
    round: int
    """The round of the lane."""
    sample: int
    """Which of the rollouts of the same task."""
    experience: int
    """n: the tasks that the lane had finished when this episode's library was frozen."""
    place: int
    """The place within the round."""
    phase: str
    """`learn`, or `heldout` for a task of a held-out block: the same frozen library, no review, nothing learnt."""
    block: int
    """Which of the worlds that the lane goes through the task is from, in the order in which it meets them."""
    status: str
    """`ok`, or `errored` where the infrastructure failed: no attempt, no score."""
    error_kind: str
    """The part that failed, "" where none did."""
    error_message: str
    """The first line of what it said, "" where none did."""
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
    censored: bool
    """Whether a budget or a full context stopped it: what it needed is at least its seconds, iterations and tokens."""
    iterations: int
    """Turns in which the agent called tools, without the review's."""
    api_calls: int
    """Model calls, without the review's."""
    tool_calls: int
    """Tool calls, without the review's."""
    tool_errors: int
    """Tool calls that were answered with an error."""
    cut_replies: int | None
    """Model calls whose reply was cut at a limit, without the review's; None in records of before this was counted."""
    unparsed_calls: int | None
    """Tool calls that could not be parsed; None as above."""
    refused_calls: int | None
    """Tool calls that were refused before they ran, those included; None as above."""
    first_call: bool | None
    """Whether the first reply asked for a tool, in a format that is read or not; None where a record does not tell."""
    first_call_ok: bool | None
    """Whether the first reply held a well-formed call of a known tool with valid arguments."""
    prompt_tokens: int
    """As the server counted them, without the review's."""
    completion_tokens: int
    """As the server counted them, without the review's."""
    review_tokens: int
    """Prompt and completion tokens of the review."""
    review_completion_tokens: int
    """The completion tokens of it alone."""
    review_calls: int
    """Model calls of the review."""
    started_at: str
    """ISO 8601, UTC."""
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
    review_stop_reason: str
    """Why its loop ended, "" without a review."""
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
