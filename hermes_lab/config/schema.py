"""The run configuration: every field, with its default and its limits, and what of it decides a run's rows."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from hermes_lab.config.paths import InputPath, LibraryPath, ModelName, NameOrPath, OutputPath
from hermes_lab.types.trajectory import ToolFormat


class Section(BaseModel):
    """Frozen, and an unknown field is an error: a typo never becomes a default."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, coerce_numbers_to_str=True, allow_inf_nan=False
    )


class SamplingConfig(Section):
    """How the server samples. A field that is null is not sent: the endpoint's own default holds."""

    temperature: Annotated[float, Field(ge=0)] | None = 0.0
    """0 is greedy."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = 1.0
    """Nucleus mass."""
    max_tokens: Annotated[int, Field(gt=0)] | None = 1024
    """Completion tokens of one reply, reasoning included."""
    top_k: Annotated[int, Field(ge=-1)] | None = None
    """Sample from the k most likely tokens; vLLM, SGLang, llama.cpp, Ollama and Anthropic know it."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """The least probability, as a share of the most likely token's; vLLM, SGLang and llama.cpp know it."""
    seed: int | None = None
    """The server's own seed. Samples of one task then come out alike."""
    stop: Annotated[tuple[str, ...], Field(max_length=16)] = ()
    """Texts that end a reply."""
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    """Penalty on tokens that occurred."""
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    """Penalty on tokens by how often they occurred."""


class ServerConfig(Section):
    """The local vLLM that `provider: vllm` starts, watches and stops."""

    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """0 takes a free port."""
    max_model_len: Annotated[int, Field(gt=0)] = 4096
    """Context length in tokens."""
    startup_seconds: Annotated[float, Field(gt=0)] = 600.0
    """How long the server may take until it answers."""
    args: tuple[str, ...] = ()
    """Further command-line options of vLLM's OpenAI server."""


class PriceConfig(Section):
    """What an endpoint charges, in any one currency, for a million tokens."""

    prompt: Annotated[float, Field(ge=0)] = 0.0
    """A million prompt tokens."""
    completion: Annotated[float, Field(ge=0)] = 0.0
    """A million completion tokens, reasoning included."""
    cached: Annotated[float, Field(ge=0)] | None = None
    """A million prompt tokens that were read from a prompt cache; null: as `prompt`."""
    cache_write: Annotated[float, Field(ge=0)] | None = None
    """A million prompt tokens that were written to one; null: as `prompt`."""


def addresses(urls: str) -> tuple[str, ...]:
    """The addresses of a field that may hold several, with commas between them."""
    return tuple(url.strip() for url in urls.split(","))


class ModelConfig(Section):
    """Which model answers."""

    provider: Literal["openai", "anthropic", "responses", "vllm", "scripted", "replay"] = "openai"
    """`openai`: any OpenAI-compatible chat-completions endpoint. `anthropic`: the Anthropic Messages API. `responses`:
    the OpenAI Responses API. `vllm`: a local server that Hermes Lab manages. `scripted`: the shipped test double, a
    Python policy named by `name`. `replay`: the replies that a run recorded."""
    name: ModelName = "packaged"
    """An endpoint: the model's name there. vllm: `packaged`, a folder, or a hub id. scripted: `module:factory`, as in
    `hermes_lab.tasks.learner:learner`; records name the lab's own policies without `hermes_lab.`. replay: a run
    folder."""
    base_url: str = "http://127.0.0.1:8000/v1"
    """An endpoint's address, `/v1` included; it may have a query (`?api-version=...`). Several servers of the same
    model stand with commas between them: a rollout goes to the one with the least to do and stays there, and one that
    fails is taken out until it answers again."""
    api_key_env: str | None = None
    """The environment variable that holds the key; the key itself is never stored. null: OPENAI_API_KEY, or
    ANTHROPIC_API_KEY with `provider: anthropic`. Empty: no key is sent. For several servers, one variable for all of
    them, or one each, with commas between them."""
    headers: dict[str, str] = {}
    """Further headers of each request. `${NAME}` stands for an environment variable, whose value is never stored."""
    extra_body: dict[str, Any] = {}
    """Further fields of each request's body, sent as they are, such as `chat_template_kwargs`. Fields that Hermes
    Lab sets itself take precedence."""
    adapter: NameOrPath = ""
    """A LoRA adapter: `packaged` (the one that comes with Hermes Lab, trained for the packaged model), a folder, or a
    name under which the endpoint serves it."""
    merge: bool = False
    """vllm only: merge the adapter into the weights before they are served, which is several times faster on a CPU."""
    max_retries: Annotated[int, Field(ge=0)] = 4
    """Tries after the first for a connection failure, a 429 or a 5xx."""
    timeout: Annotated[float, Field(gt=0)] = 600.0
    """Seconds for one reply."""
    limit_field: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    """openai only: the name under which `sampling.max_tokens` is sent. `auto`: `max_tokens`, and the other one from
    then on where the endpoint refuses that."""
    stream: bool = False
    """Ask for each reply as a stream. An endpoint that refuses anything else is found out by itself."""
    finish_reasons: tuple[str, ...] = ()
    """Further finish reasons of this endpoint that stand for a complete reply; `null` is that of a reply without one.
    Known words need not be listed. A reply with any other word is an error, never an answer."""
    overflow_pattern: str = ""
    """A regular expression for this endpoint's way to say that a prompt is too long, where it is not recognised."""
    prompt_cache: bool = True
    """anthropic only: mark the prompt for the provider's cache."""
    token_ids: bool = False
    """Ask for token ids and log-probabilities (vLLM gives them; scored groups need them)."""
    sampling: SamplingConfig = SamplingConfig()
    """How the server samples."""
    server: ServerConfig = ServerConfig()
    """vllm only."""
    options: dict[str, Any] = {}
    """scripted only: keyword arguments of the factory."""
    tool_parser: str = ""
    """openai and vllm only, with `agent.tool_format: native`: the model family whose calls are read from the text, of a
    server that leaves them there (hermes, mistral, llama, qwen, ...). Empty: the server reads them."""
    reasoning_effort: Literal["", "minimal", "low", "medium", "high", "xhigh", "max"] = ""
    """Passed to the endpoint; empty leaves it to the server."""
    price: PriceConfig = PriceConfig()
    """What tokens cost, for `agent.max_cost`."""

    @model_validator(mode="before")
    @classmethod
    def _name_as_recorded(cls, fields: Any) -> Any:
        """A shipped policy has one name in all records, also in those from when the lab's folders were import roots."""
        if isinstance(fields, Mapping) and fields.get("provider") == "scripted" and isinstance(fields.get("name"), str):
            return {**fields, "name": fields["name"].removeprefix("hermes_lab.")}
        return fields

    @field_validator("overflow_pattern")
    @classmethod
    def _is_a_pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return pattern

    @field_validator("api_key_env")
    @classmethod
    def _is_a_name(cls, names: str | None) -> str | None:
        """A key itself would be stored with the run. It is not repeated here."""
        if names and not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name.strip() or "_") for name in names.split(",")):
            raise ValueError("give the name of an environment variable, such as OPENAI_API_KEY, and no key")
        return names

    @property
    def servers(self) -> tuple[str, ...]:
        """The addresses in `base_url`."""
        return addresses(self.base_url)

    @property
    def key_variable(self) -> str:
        """`api_key_env`, or its default."""
        if self.api_key_env is None:
            return "ANTHROPIC_API_KEY" if self.provider == "anthropic" else "OPENAI_API_KEY"
        return self.api_key_env


class DelegationConfig(Section):
    """Work that the agent gives to child agents."""

    max_depth: Annotated[int, Field(ge=1)] = 2
    """Children of children of the agent, at most."""
    max_iterations: Annotated[int, Field(ge=1)] = 50
    """Model calls that run tools, for one child."""
    at_once: Annotated[int, Field(ge=1)] = 3
    """Children of one agent that work side by side."""


class AgentConfig(Section):
    """The loop's shape and limits."""

    max_iterations: Annotated[int, Field(ge=1)] = 90
    """Model calls that run tools, per submission; one grace call to conclude comes after them."""
    max_seconds: Annotated[float, Field(gt=0)] = 1800.0
    """Wall clock of one episode, and again of its review. It ends running tools; a model call has `model.timeout`."""
    max_tokens: Annotated[int, Field(gt=0)] = 1_000_000
    """Prompt and completion tokens of one episode."""
    max_cost: Annotated[float, Field(ge=0)] = 0.0
    """What one episode may cost by `model.price`; 0 is no limit."""
    toolsets: tuple[str, ...] = ("terminal", "file", "skills")
    """Toolsets, or single tools, that the agent gets (`hermes-lab tools list`)."""
    distribution: str = ""
    """A named distribution from which every task draws its toolsets, by `run.seed`; in place of `toolsets`."""
    disabled_tools: tuple[str, ...] = ()
    """Tools to leave out, by name."""
    prompt: Literal["full", "compact"] = "full"
    """The system prompt: `compact` is short enough for small models."""
    context_tokens: Annotated[int, Field(ge=0)] = 0
    """The model's context, which compression stays within; 0: compress only where the model refuses a prompt."""
    compress_at: Annotated[float, Field(ge=0, le=1)] = 0.75
    """The share of `context_tokens` at which the middle turns are summarised; 0 never does."""
    tool_format: ToolFormat = "native"
    """`native`: the endpoint's tool calls. `hermes`: calls and answers as text in the conversation."""
    max_repeats: Annotated[int, Field(ge=0)] | None = None
    """End the work as `repeated` after the same call got the same result this many times in a row; 0 is no limit.
    null: 6 with `prompt: full`, no limit with `prompt: compact`."""
    delegation: DelegationConfig = DelegationConfig()
    """Limits of `delegate_task`."""


class SandboxConfig(Section):
    """The isolation of one episode, and its limits."""

    backend: Literal["bubblewrap", "docker", "local"] = "bubblewrap"
    """How commands are isolated. `local` does not isolate at all, and needs `allow_local`."""
    allow_local: bool = False
    """Lets `backend: local` run the agent's commands as you, on this machine, with your files and network."""
    image: str = "python:3.11-slim"
    """docker only: an image that is there already; it needs bash and setpriv."""
    timeout: Annotated[float, Field(gt=0)] = 180.0
    """Seconds for a command that names no timeout of its own."""
    memory_mb: Annotated[int, Field(ge=16)] = 1024
    """Address space of one process, and resident memory of all processes of an episode together."""
    processes: Annotated[int, Field(gt=0)] = 128
    """Processes at once."""
    file_mb: Annotated[int, Field(gt=0)] = 256
    """Size of one file that a command writes."""
    disk_mb: Annotated[int, Field(gt=0)] = 1024
    """Size of the whole workspace."""
    output_chars: Annotated[int, Field(gt=0)] = 50_000
    """Output of one command that reaches the model; the middle of longer output is cut."""


class SkillsConfig(Section):
    """The skill library and how the agent learns."""

    library: LibraryPath = ""
    """A folder of skills to begin with; empty begins with none. `run` and `learn` only read it, and take RUN:LANE and
    the like, too (`hermes-lab skills`). A `chat` writes what it learns to it; empty means that of the Hermes home."""
    max_listed: Annotated[int, Field(ge=0)] = 200
    """Skills that a prompt names; of a larger library, those that are most like the task (`chat`, which begins before
    it has one: the first by name). `skills_list` has the others."""
    review_every: Annotated[int, Field(ge=0)] = 10
    """A review is due after so many tool-calling iterations since the last one; 0: after every episode."""
    review_iterations: Annotated[int, Field(ge=1)] = 16
    """Tool-calling iterations of one review."""
    learn_value: Annotated[float, Field(ge=0, le=1)] = 0.6
    """The learning value at which an episode is worth a review of its own, whatever `review_every` says."""
    learn_messages: Annotated[int, Field(ge=0)] = 10
    """And the messages that it must have."""
    update_similarity: Annotated[float, Field(ge=0, le=1)] = 0.9
    """A new skill that is this similar to another one updates that one instead."""
    ema_alpha: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Weight of the newest outcome in a skill's moving success rate."""
    rewrite_uses: Annotated[int, Field(ge=1)] = 10
    """Uses after which a skill is judged,"""
    rewrite_below: Annotated[float, Field(ge=0, le=1)] = 0.5
    """and the success rate under which it is taken out of prompts until it is rewritten."""
    heal_attempts: Annotated[int, Field(ge=0)] = 3
    """Tries to heal a compiled skill that fails its validation."""
    stale_days: Annotated[float, Field(gt=0)] = 30.0
    """Days without use after which the curator calls an agent-written skill stale,"""
    archive_days: Annotated[float, Field(gt=0)] = 90.0
    """and puts it away."""
    merge_similarity: Annotated[float, Field(ge=0, le=1)] = 0.9
    """Agent-written skills that are this similar are duplicates to the curator."""


class MemoryConfig(Section):
    """The agent's notes, and its memory of what was."""

    memory_chars: Annotated[int, Field(gt=0)] = 2200
    """Size of MEMORY.md, in characters."""
    user_chars: Annotated[int, Field(gt=0)] = 1375
    """Size of USER.md."""
    vectors: Literal["off", "sqlite", "postgres"] = "off"
    """`chat` only: where past work is remembered by its meaning. `sqlite` is a file of the Hermes home."""
    url_env: str = "HERMES_MEMORY_URL"
    """postgres only: the environment variable that holds the URL; the URL itself is never stored."""
    top_k: Annotated[int, Field(ge=1)] = 5
    """Memories recalled for one message, at most."""
    half_life_days: Annotated[float, Field(gt=0)] = 30.0
    """A memory's score is halved in so many days: it is score * exp(-ln 2 / half_life_days * age)."""
    relevance: Annotated[float, Field(ge=0, le=1)] = 0.35
    """Memories under this score are not recalled."""
    provider: str = ""
    """One external memory provider, by the name of its entry point in `hermes_lab.memory_providers`."""


class WebConfig(Section):
    """Where `web_search` and `web_extract` look, unless a task brings its own pages. By default nowhere."""

    provider: Literal["none", "corpus", "tavily", "brave", "exa"] = "none"
    """`corpus`: pages on this machine. The others are services that need a key; `brave` searches only."""
    corpus: InputPath = ""
    """corpus only: a JSONL file of pages, or a folder of .md and .txt files."""
    api_key_env: str = ""
    """The environment variable that holds the key, never stored; empty is TAVILY_API_KEY, BRAVE_API_KEY or
    EXA_API_KEY."""
    base_url: str = ""
    """Where the service is; empty is its public address."""
    timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds for one reply."""
    max_retries: Annotated[int, Field(ge=0)] = 3
    """Tries after the first for a connection failure, a 429 or a 5xx."""

    @model_validator(mode="after")
    def _corpus_where_named(self) -> "WebConfig":
        if (self.provider == "corpus") != bool(self.corpus):
            raise ValueError("give `corpus` with `provider: corpus`, and only there")
        return self


class SuiteConfig(Section):
    """Which tasks."""

    name: str = ""
    """A suite by name (`hermes-lab tasks list`)."""
    path: InputPath = ""
    """Or a JSONL file of tasks."""
    split: str = "train"
    """The part of the suite."""
    count: Annotated[int, Field(ge=0)] = 0
    """Tasks; 0 is all of a finite suite."""
    seed: int = 0
    """Draws the tasks."""
    world: Annotated[int, Field(ge=0)] = 0
    """Draws the hidden rules, in suites that have them; of `learn` the first of `learning.worlds`. `seed` draws other
    tasks of the same world."""
    options: dict[str, Any] = {}
    """Keyword arguments of the suite, such as how many rules a world has."""

    @model_validator(mode="after")
    def _one_source(self) -> "SuiteConfig":
        if self.name and self.path:
            raise ValueError("give `name` or `path`, not both")
        return self


class RewardConfig(Section):
    """What a rollout earns: the sum of weight times term, by the terms of `hermes_lab.rewards`. A weight of 0 leaves a
    term out. It is what training and environments go by; scores and success stay those of the verifier."""

    score: float = 1.0
    """The verifier's score of the first submission, in [0, 1]."""
    accepted: float = 0.0
    """1 where the last submission was accepted."""
    answered: float = 0.0
    """1 where the work ended with an answer, right or wrong."""
    tool_calls: float = 0.0
    """Every tool call. Published recipes give 0.1, which is earned without solving anything; a weight below 0 is a
    price on calls."""

    @model_validator(mode="after")
    def _of_something(self) -> "RewardConfig":
        if not any(self.weights.values()):
            raise ValueError("every weight is 0; give at least one")
        return self

    @property
    def weights(self) -> dict[str, float]:
        """The terms that count."""
        return {term: weight for term, weight in self.model_dump().items() if weight}


class RayConfig(Section):
    """The Ray cluster that rollouts go to; docs/scaling.md. Its nodes have this package and the same Python."""

    address: str = ""
    """`auto` or `HOST:PORT`; "": $RAY_ADDRESS, or else a cluster of this machine alone, for the time of the run."""
    workers: Annotated[int, Field(ge=0)] = 0
    """Processes that run rollouts, `run.concurrency` at once in all together; 0: as many as there is room for."""
    cpus: Annotated[float, Field(gt=0)] = 1.0
    """CPUs that each of them takes."""
    resources: dict[str, Annotated[float, Field(gt=0)]] = {}
    """What else each takes: `GPU`, `memory` (bytes), or a name of your own such as `docker: 1`. It goes to a node that
    has it (`ray start --resources`)."""

    @field_validator("resources")
    @classmethod
    def _has_no_field_of_its_own(cls, resources: dict[str, float]) -> dict[str, float]:
        if "CPU" in resources:
            raise ValueError("CPU is run.ray.cpus")
        if "object_store_memory" in resources:
            raise ValueError("object_store_memory is no resource of a worker; memory is")
        return resources


class RunSection(Section):
    """How the batch is run."""

    samples: Annotated[int, Field(ge=1)] = 1
    """Rollouts of each task."""
    seed: int = 0
    """Draws what is drawn for each rollout, such as its toolsets."""
    concurrency: Annotated[int, Field(ge=1)] = 16
    """Rollouts at once."""
    executor: Literal["local", "processes", "ray"] = "local"
    """Where rollouts run: in this process, in several processes of this machine, or on a Ray cluster. It decides no
    row."""
    processes: Annotated[int, Field(ge=0)] = 0
    """The number of processes of executor `processes`; 0: one for each CPU."""
    ray: RayConfig = RayConfig()
    """The cluster of executor `ray`."""
    out: OutputPath = ""
    """The run folder; `--out` goes before it."""


Arm = Literal["off", "on", "frozen", "oracle", "placebo"]


class HeldoutConfig(Section):
    """Tasks of the lane's own worlds that nothing is learnt from: measured against the library as it then is."""

    tasks: Annotated[int, Field(ge=0)] = 0
    """Held-out tasks of each world, the same ones in all arms and in every check; 0: none."""
    every: Annotated[int, Field(ge=0)] = 0
    """Rounds between two checks. 0: there are only those before the first round, at each border of `blocks` and after
    the last round, which are there in any case."""

    @model_validator(mode="after")
    def _every_of_something(self) -> "HeldoutConfig":
        if self.every and not self.tasks:
            raise ValueError("give `tasks`, too: how many are held out")
        return self


class ExpectedEffect(Section):
    """What the calculation of power assumes before anything is measured."""

    baseline: Annotated[float, Field(gt=0, lt=1)] = 0.6
    """The success rate without the change."""
    effect: Annotated[float, Field(gt=-1, lt=1)] = 0.16
    """The change to detect; 0.16 is 16 points."""

    @model_validator(mode="after")
    def _still_a_rate(self) -> "ExpectedEffect":
        if not 0 < self.baseline + self.effect < 1:
            raise ValueError(f"baseline + effect is {self.baseline + self.effect:g}, which is no success rate")
        return self


class LearningConfig(Section):
    """What `learn` compares."""

    arms: Annotated[tuple[Arm, ...], Field(min_length=1)] = ("off", "on")
    """`off`: no skills at all. `on`: begins with `skills.library`, and reviews write skills for the rounds after.
    `frozen`: `skills.library` as it is. `oracle`: skills that tell the suite's hidden rules. `placebo`: as `on`, but
    what skills and notes say is replaced by as many characters of no relevance."""
    replicates: Annotated[int, Field(ge=1)] = 1
    """Independent repetitions of every arm and world, with other tasks."""
    worlds: Annotated[int, Field(ge=1)] = 1
    """Draws of the hidden rules."""
    rounds: Annotated[int, Field(ge=1)] = 10
    """Rounds of a lane; the library changes only between them."""
    round_size: Annotated[int, Field(ge=1)] = 1
    """Tasks of one round, all run against the same snapshot."""
    blocks: Annotated[int, Field(ge=1)] = 1
    """Worlds that a lane goes through, one after the other; each has its share of the rounds. With held-out tasks, all
    of its worlds are measured every time, which tells transfer and forgetting."""
    order: Literal["drawn", "random", "latin"] = "drawn"
    """`drawn`: each replicate has tasks of its own. Else all replicates have the same tasks, in an order of their own:
    `random`, or rows of a balanced Latin square, in which every task stands in every place equally often."""
    heldout: HeldoutConfig = HeldoutConfig()
    """What learning is measured on besides the tasks that are learnt from."""
    adapters: tuple[NameOrPath, ...] = ()
    """The weights as a factor: each arm is run under each of them. An adapter as in `model.adapter`, "" for the bare
    model. Empty: `model.adapter` alone."""
    expect: ExpectedEffect = ExpectedEffect()
    """For the calculation of power."""

    @field_validator("arms", mode="before")
    @classmethod
    def _yaml_switches(cls, arms: Any) -> Any:
        # YAML 1.1 reads a bare off or on as a boolean.
        return [{True: "on", False: "off"}.get(arm, arm) for arm in arms] if isinstance(arms, list) else arms

    @field_validator("arms")
    @classmethod
    def _arms_differ(cls, arms: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(arms)) < len(arms):
            raise ValueError("an arm stands there twice; for repetitions use learning.replicates")
        return arms

    @field_validator("adapters")
    @classmethod
    def _adapters_differ(cls, adapters: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(adapters)) < len(adapters):
            raise ValueError("an adapter stands there twice; for repetitions use learning.replicates")
        return adapters


class BudgetConfig(Section):
    """What a run may spend; 0 is no limit. Once that is spent nothing new begins; a resume may have a larger one."""

    tasks: Annotated[int, Field(ge=0)] = 0
    """Episodes, those of earlier starts included."""
    tokens: Annotated[int, Field(ge=0)] = 0
    """Prompt and completion tokens, reviews and earlier starts included."""
    hours: Annotated[float, Field(ge=0)] = 0.0
    """Wall clock of one start."""


class RunConfig(Section):
    """Everything that decides a run's rows."""

    model: ModelConfig = ModelConfig()
    """Which model answers."""
    auxiliary: ModelConfig | None = None
    """A cheaper model that writes the summaries of compression, at an endpoint; null: the model itself."""
    agent: AgentConfig = AgentConfig()
    """The loop."""
    sandbox: SandboxConfig = SandboxConfig()
    """The isolation."""
    skills: SkillsConfig = SkillsConfig()
    """The library."""
    memory: MemoryConfig = MemoryConfig()
    """Notes and memories."""
    web: WebConfig = WebConfig()
    """What can be searched and read."""
    suite: SuiteConfig = SuiteConfig()
    """The tasks."""
    reward: RewardConfig = RewardConfig()
    """What training goes by."""
    run: RunSection = RunSection()
    """The batch."""
    learning: LearningConfig = LearningConfig()
    """The lanes of `learn`."""
    budget: BudgetConfig = BudgetConfig()
    """What may be spent."""

    @field_validator("auxiliary")
    @classmethod
    def _is_not_started(cls, auxiliary: ModelConfig | None) -> ModelConfig | None:
        if auxiliary and auxiliary.provider == "vllm":
            raise ValueError("provider vllm starts one server, for the model; give an endpoint (`hermes-lab serve`)")
        return auxiliary


def config_digest(config: RunConfig) -> str:
    """sha256 of all that decides a run's rows. The usual reward is left out, as are terms of no weight, and fields at
    the value at which a run is what it was before there was such a field."""
    rows = decisive(config.model_dump(mode="json", exclude={"reward"}))
    if config.reward != RewardConfig():
        rows["reward"] = config.reward.weights
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


_REACHING = ("base_url", "api_key_env", "timeout", "max_retries", "limit_field", "stream")
_ADDED: Mapping[str, Mapping[str, Any]] = {
    "model": {"headers": {}, "extra_body": {}, "finish_reasons": [], "overflow_pattern": "", "prompt_cache": True},
    "sampling": {**dict.fromkeys(("top_k", "min_p", "seed", "presence_penalty", "frequency_penalty")), "stop": []},
    "price": {"cached": None, "cache_write": None},
    "agent": {"max_repeats": None},
}
"""Fields that were added since runs have digests, with the value that stands for what was before."""


def decisive(content: dict[str, Any]) -> dict[str, Any]:
    """A dumped configuration without where the run is written, where it runs and how much at once, and where and how
    hard it looks for its model and its search service: a server may come back under another address. What may be spent
    decides how far a run comes, and what is expected of it what its plan says, but neither decides a row."""
    rows = {name: value for name, value in content.items() if name not in ("budget", "auxiliary")}
    if auxiliary := content.get("auxiliary"):
        rows["auxiliary"] = _decisive_model(auxiliary)
    return rows | {
        "model": _decisive_model(content["model"]),
        "agent": _as_before("agent", content["agent"]),
        "learning": _without(content["learning"], "expect"),
        "web": _without(content.get("web", {}), *_REACHING),
        "run": _without(content["run"], "out", "concurrency", "executor", "processes", "ray"),
    }


def _decisive_model(model: dict[str, Any]) -> dict[str, Any]:
    rows = _as_before("model", _without(model, *_REACHING)) | {
        "server": _without(model["server"], "port", "startup_seconds")
    }
    return rows | {name: _as_before(name, model[name]) for name in ("sampling", "price")}


def _without(section: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in section.items() if name not in names}


def _as_before(name: str, section: dict[str, Any]) -> dict[str, Any]:
    added = _ADDED[name]
    return {field: value for field, value in section.items() if field not in added or value != added[field]}
