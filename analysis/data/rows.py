"""The columns of the episode table, one row per episode. `hermes_lab.analysis.data.columns` computes them."""

from msgspec import Struct


class EpisodeRow(Struct, frozen=True):
    """The last attempt of one episode key, flattened. `None` means not measured or not applicable."""

    run: str
    """The run folder, as given."""
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
    """The task family, several joined by `+`; "" if the suite names none."""
    rule_type: str
    """The types of the hidden rules that decide the task, joined by `+`; "" if none does."""
    seen: bool | None
    """Whether all of these types also occur in training worlds; None if the suite does not say."""
    world: int
    """The world, i.e. the draw of hidden rules, by its number in the suite: the lane's first one, or the task's if the
    lane has none."""
    lane: str
    """`{arm}-r{replicate}-w{world}` in a learning run (plus `-a{weights}` if weights vary), else `main`."""
    arm: str
    """The lane's arm, or the lane's name if it has none."""
    replicate: int
    """The lane's replicate, 0 if it has none."""
    weights: int
    """Index into `learning.adapters`, 0 if weights do not vary."""
    round: int
    """The round of the lane."""
    sample: int
    """Index among the rollouts of the same task."""
    experience: int
    """n: tasks the lane had finished when this episode's library was frozen."""
    place: int
    """The position within the round."""
    phase: str
    """`learn`, or `heldout` for a held-out task: the same frozen library, no review, no learning."""
    block: int
    """Index of the task's world in the lane's sequence of worlds."""
    status: str
    """`ok`, or `errored` for an infrastructure failure, which has no score."""
    error_kind: str
    """The component that failed, or ""."""
    error_message: str
    """The first line of its error message, or ""."""
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
    """Whether a budget or a full context stopped it: its seconds, iterations and tokens are lower bounds."""
    iterations: int
    """Turns with tool calls, review excluded."""
    api_calls: int
    """Model calls, review excluded."""
    tool_calls: int
    """Tool calls, review excluded."""
    tool_errors: int
    """Tool calls that returned an error."""
    cut_replies: int | None
    """Model calls with a truncated reply, review excluded; None in older records."""
    unparsed_calls: int | None
    """Tool calls that could not be parsed; None in older records."""
    refused_calls: int | None
    """Tool calls rejected before execution, unparsed ones included; None in older records."""
    first_call: bool | None
    """Whether the first reply asked for a tool, in any format; None if the record does not say."""
    first_call_ok: bool | None
    """Whether the first reply had a well-formed call of a known tool with valid arguments; None if it asked for no
    tool."""
    prompt_tokens: int
    """As the server counted them, without the review's."""
    completion_tokens: int
    """As the server counted them, without the review's."""
    uncounted_calls: int
    """Model calls whose tokens the server did not report, child agents' and summaries included, without the review's:
    the two columns before leave them out."""
    review_tokens: int
    """Prompt and completion tokens of the review."""
    review_completion_tokens: int
    """Completion tokens of the review."""
    review_calls: int
    """Model calls of the review."""
    uncounted_review_calls: int
    """Those whose tokens the server did not report."""
    judge_votes: int
    """Replies of a model as a judge."""
    judge_tokens: int
    """Its prompt and completion tokens, which no other column includes."""
    judge_cost: float
    """Its cost at `judge.model.price`."""
    uncounted_votes: int
    """Those of its replies whose tokens the server did not report: neither its tokens nor its cost include them."""
    rescore_problem: str
    """Why `hermes-lab rescore` could not apply its verifier, or ""."""
    started_at: str
    """ISO 8601, UTC."""
    seconds: float
    """Wall clock of the episode, review excluded."""
    skills_listed: int
    """Skills listed in the prompt."""
    skills_loaded: int
    """Skills the agent loaded."""
    reused: bool
    """Whether it loaded any."""
    skills_written: int
    """Accepted skill writes, of the episode and its review."""
    notes_written: int
    """Accepted changes to its notes, of the episode and its review."""
    noted: bool
    """Whether its prompt had notes."""
    skills_eligible: int
    """Skills known to be relevant to the task."""
    skills_usable: int
    """Listed skills that are relevant to the task, or of which that is not known."""
    skills_followed: int | None
    """Loaded skills with a line of code that a later call ran; None if the agent loaded skills, and none has code."""
    recovered: bool | None
    """Whether the work succeeded after a failed call or a rejected submission."""
    learning_value: float | None
    """How much the episode was worth learning from, in [0, 1]."""
    reviewed: bool
    """Whether the agent reviewed it."""
    review_error: str
    """Why the review failed, or ""."""
    review_stop_reason: str
    """Why the review's loop ended, "" without a review."""
    review_seconds: float
    """Wall clock of the review."""
    children: int
    """Child agents the agent delegated to."""
    provider: str
    """The model provider."""
    model: str
    """The model's name."""
    adapter: str
    """The adapter's name, "" for the base model."""
    adapter_digest: str
    """sha256 of the adapter."""
    snapshot: str
    """The frozen skill library that the episode used."""
    config_digest: str
    """sha256 of the configuration."""
