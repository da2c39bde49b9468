"""The run configuration: every field with its default and limits, and which fields affect results."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from hermes_lab.config.mcp import McpConfig
from hermes_lab.config.paths import InputPath, LibraryPath, ModelName, NameOrPath, OutputPath
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.section import Section
from hermes_lab.config.units import Unit
from hermes_lab.types.trajectory import ToolFormat


class SamplingConfig(Section):
    """Sampling parameters. A field that is null is not sent, so the endpoint's default applies."""

    temperature: Annotated[float, Field(ge=0)] | None = 0.0
    """Sampling temperature; 0 is greedy decoding."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = 1.0
    """Nucleus sampling: the probability mass to sample from."""
    max_tokens: Annotated[int, Field(gt=0), Unit("tokens")] | None = 1024
    """Maximum completion tokens per reply, including reasoning."""
    top_k: Annotated[int, Field(ge=-1)] | None = None
    """Sample from the k most likely tokens. Supported by vLLM, SGLang, llama.cpp, Ollama and Anthropic."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Minimum probability relative to the most likely token. Supported by vLLM, SGLang and llama.cpp."""
    seed: int | None = None
    """The server's sampling seed. With a fixed seed, the samples of a task may be identical."""
    stop: Annotated[tuple[str, ...], Field(max_length=16)] = ()
    """Stop sequences: texts that end a reply."""
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    """Penalty on tokens that have occurred."""
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    """Penalty on tokens in proportion to their number of occurrences."""


class ServerConfig(Section):
    """The local vLLM server that `provider: vllm` starts, watches and stops."""

    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Port of the server; 0 picks a free one."""
    max_model_len: Annotated[int, Field(gt=0), Unit("tokens")] = 4096
    """Context length in tokens: a prompt and its reply together, so more than `sampling.max_tokens`."""
    startup_seconds: Annotated[float, Field(gt=0), Unit("seconds")] = 600.0
    """Seconds to wait until the server is ready."""
    args: tuple[str, ...] = ()
    """Additional command-line options for vLLM's OpenAI server."""


class PriceConfig(Section):
    """Prices per million tokens, in any one currency."""

    prompt: Annotated[float, Field(ge=0), Unit("currency per million tokens")] = 0.0
    """Price per million prompt tokens."""
    completion: Annotated[float, Field(ge=0), Unit("currency per million tokens")] = 0.0
    """Price per million completion tokens, including reasoning."""
    cached: Annotated[float, Field(ge=0), Unit("currency per million tokens")] | None = None
    """Price per million prompt tokens read from a prompt cache; null: as `prompt`."""
    cache_write: Annotated[float, Field(ge=0), Unit("currency per million tokens")] | None = None
    """Price per million prompt tokens written to a prompt cache; null: as `prompt`."""


def addresses(urls: str) -> tuple[str, ...]:
    """Splits a field that may contain several addresses, separated by commas."""
    return tuple(url.strip() for url in urls.split(","))


class ModelConfig(Section):
    """The model to run."""

    provider: Literal["openai", "anthropic", "responses", "vllm", "scripted", "replay"] = "openai"
    """`openai`: any OpenAI-compatible chat-completions endpoint. `anthropic`: the Anthropic Messages API. `responses`:
    the OpenAI Responses API. `vllm`: a local server managed by Hermes Lab. `scripted`: a test double, the Python policy
    given by `name`. `replay`: the recorded replies of a run."""
    name: ModelName = "packaged"
    """The model's name at the endpoint. vllm: `packaged`, a folder, or a hub id. scripted: `module:factory`, such as
    `hermes_lab.tasks.learner:learner`; records omit `hermes_lab.` for built-in policies. replay: a run folder."""
    base_url: str = "http://127.0.0.1:8000/v1"
    """The endpoint's address including `/v1`; it may have a query (`?api-version=...`). Several servers of the same
    model are separated by commas: each rollout goes to the least busy one and stays there, and a server that fails is
    taken out until it answers again."""
    api_key_env: str | None = None
    """The environment variable with the API key; the key itself is never stored. null: OPENAI_API_KEY, or
    ANTHROPIC_API_KEY with `provider: anthropic`. Empty: no key is sent. With several servers, one variable for all, or
    one for each, separated by commas."""
    headers: dict[str, str] = {}
    """Additional request headers. `${NAME}` is replaced by an environment variable, whose value is never stored."""
    extra_body: dict[str, Any] = {}
    """Additional fields of the request body, sent unchanged, such as `chat_template_kwargs`. Fields that Hermes Lab
    sets itself take precedence."""
    adapter: NameOrPath = ""
    """A LoRA adapter: `packaged` (shipped with Hermes Lab, for the packaged model), a folder, or the name under which
    the endpoint serves it."""
    merge: bool = False
    """vllm only: merge the adapter into the weights before serving, which is several times faster on a CPU."""
    max_retries: Annotated[int, Field(ge=0)] = 4
    """Retries after a connection failure, a 429 or a 5xx."""
    timeout: Annotated[float, Field(gt=0), Unit("seconds")] = 600.0
    """Timeout for one reply, in seconds; for a streamed reply, the longest pause in it."""
    limit_field: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    """openai only: the field in which `sampling.max_tokens` is sent. `auto`: `max_tokens`, and the other one once the
    endpoint refuses that."""
    stream: bool = False
    """Request streamed replies. Endpoints that only stream are detected automatically."""
    finish_reasons: tuple[str, ...] = ()
    """Additional finish reasons that mean a complete reply at this endpoint; `null` means that none is given.
    Common ones are built in. A reply with any other finish reason is an error, never an answer."""
    overflow_pattern: str = ""
    """A regular expression that matches this endpoint's error for a prompt that is too long, if it is not
    recognised."""
    prompt_cache: bool = True
    """anthropic only: mark the prompt for the provider's prompt cache."""
    token_ids: bool = False
    """Request token ids and log-probabilities, as scored groups need. Supported by vLLM."""
    sampling: SamplingConfig = SamplingConfig()
    """Sampling parameters."""
    server: ServerConfig = ServerConfig()
    """vllm only: the local server."""
    options: dict[str, Any] = {}
    """scripted only: keyword arguments for the factory."""
    tool_parser: str = ""
    """openai and vllm only, with `agent.tool_format: native`: the model family (hermes, mistral, llama, qwen, ...)
    whose tool calls are parsed from the text, for servers that do not parse them. Empty: the server parses them."""
    reasoning_effort: Literal["", "minimal", "low", "medium", "high", "xhigh", "max"] = ""
    """Reasoning effort passed to the endpoint; empty: the endpoint's default."""
    price: PriceConfig = PriceConfig()
    """Token prices, for `agent.max_cost`."""

    @model_validator(mode="before")
    @classmethod
    def _name_as_recorded(cls, fields: Any) -> Any:
        """Records name built-in policies without `hermes_lab.`, as they did when the lab's folders were top-level
        packages."""
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
        """Rejects a literal key, which would be stored with the run. The message does not repeat it."""
        if names and not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name.strip() or "_") for name in names.split(",")):
            raise ValueError("give the name of an environment variable, such as OPENAI_API_KEY, not the key itself")
        return names

    @property
    def servers(self) -> tuple[str, ...]:
        """The addresses in `base_url`."""
        return addresses(self.base_url)

    @property
    def key_variable(self) -> str:
        """`api_key_env` or its default."""
        if self.api_key_env is None:
            return "ANTHROPIC_API_KEY" if self.provider == "anthropic" else "OPENAI_API_KEY"
        return self.api_key_env


class DelegationConfig(Section):
    """Limits of `delegate_task`, which runs child agents."""

    max_depth: Annotated[int, Field(ge=1)] = 2
    """Maximum depth of nested child agents."""
    max_iterations: Annotated[int, Field(ge=1)] = 50
    """Maximum tool-calling iterations per child."""
    at_once: Annotated[int, Field(ge=1)] = 3
    """Maximum number of children of one agent that run concurrently."""


class AgentConfig(Section):
    """The agent loop and its limits."""

    max_iterations: Annotated[int, Field(ge=1)] = 90
    """Maximum tool-calling iterations (model calls that run tools) per submission, followed by one grace call to
    conclude."""
    max_seconds: Annotated[float, Field(gt=0), Unit("seconds")] = 1800.0
    """Wall-clock limit of an episode, and separately of its review, in seconds. It stops running tools; model calls are
    limited by `model.timeout`."""
    max_tokens: Annotated[int, Field(gt=0), Unit("tokens")] = 1_000_000
    """Maximum prompt and completion tokens per episode."""
    max_cost: Annotated[float, Field(ge=0), Unit("currency")] = 0.0
    """Maximum cost per episode at `model.price`; 0: no limit."""
    toolsets: tuple[str, ...] = ("terminal", "file", "skills")
    """The agent's toolsets, or single tools (`hermes-lab tools list`)."""
    distribution: str = ""
    """A named distribution from which each task draws its toolsets (seeded by `run.seed`), instead of `toolsets`."""
    disabled_tools: tuple[str, ...] = ()
    """Tools to exclude, by name."""
    prompt: Literal["full", "compact"] = "full"
    """The system prompt; `compact` is short enough for small models."""
    context_tokens: Annotated[int, Field(ge=0), Unit("tokens")] = 0
    """The model's context length, for compression; 0: compress only if the model refuses a prompt."""
    compress_at: Annotated[float, Field(ge=0, le=1)] = 0.75
    """Share of `context_tokens` at which the middle turns are summarised; 0: never."""
    tool_format: ToolFormat = "native"
    """`native`: the endpoint's own tool calls. `hermes`: calls and results as text in the conversation."""
    max_repeats: Annotated[int, Field(ge=0)] | None = None
    """Stop as `repeated` after the same call got the same result this many times in a row; 0: no limit. null: 6 with
    `prompt: full`, no limit with `prompt: compact`."""
    delegation: DelegationConfig = DelegationConfig()
    """Limits of `delegate_task`."""
    program: str = ""
    """A program that does the work instead of the lab's own agent loop, such as `hermes`, `claude` or `codex`
    (`hermes-lab agents list`); empty: the lab's own loop. Sampling parameters that are not set are then the program's
    own."""
    at: InputPath = ""
    """Where the program is installed: a virtual environment, a folder with `node_modules`, or the executable itself.
    Empty: on the PATH."""
    review: Literal["auto", "own", "asked", "none"] = "auto"
    """Who has the program review its work where a lane learns. `own`: the program itself. `asked`: the lab asks for it
    after the verdict, in the same conversation. `auto`: `own` if the program reviews its work, else `asked`."""
    settings: dict[str, Any] = {}
    """The program's own settings (`hermes-lab agents list`)."""
    carry_state: bool = False
    """Let arm `on` carry the program's own memory, such as a database of past sessions, from episode to episode,
    besides its skills and notes. Needs `learning.round_size: 1`. Not with the arms `placebo` and
    `oracle`, because the lab can neither blank this memory nor write the rules into it."""

    @field_validator("program", mode="before")
    @classmethod
    def _no_program(cls, program: Any) -> Any:
        """null means none: the field looks as if it took it, and files say so."""
        return "" if program is None else program

    @model_validator(mode="after")
    def _settings_of_a_program(self) -> "AgentConfig":
        if not self.program:
            for name in ("at", "settings", "carry_state"):
                if getattr(self, name):
                    raise ValueError(
                        f"`{name}` has no effect while agent.program is empty (the lab's own loop); name a program "
                        f"there, or leave `{name}` out"
                    )
            if self.review != "auto":
                raise ValueError(
                    "`review` has no effect without `program`; the lab's own loop follows skills.review_every"
                )
        return self


class SkillsConfig(Section):
    """The skill library, and how the agent learns."""

    library: LibraryPath = ""
    """The initial skill library, a folder; empty: no skills. `run` and `experiment` only read it, and also accept
    references such as RUN:LANE and `+home` (`hermes-lab skills`). `chat` writes to it; empty there means the
    library of the Hermes home."""
    proposals: bool = False
    """For `chat`, the gateway and scheduled jobs: whether a skill that the agent writes is a proposal, which no prompt
    lists until `hermes-lab skills promote` makes it live."""
    inline_shell: Literal["isolated", "always", "off"] = "isolated"
    """Whether commands in a skill, such as !`git status`, run when it is loaded by /skill-name; their output takes
    their place. `isolated`: only in a sandbox that isolates. `always`: also with backend `local`, on your machine."""
    sources: tuple[str, ...] = ("anthropics/skills", "openai/skills")
    """Where `hermes-lab skills search` looks for skills to install: folders, USER/REPO or Git URLs. Nothing is fetched
    before `--refresh`."""
    bundled: bool = True
    """`chat` only: an interactive chat adds the skills of this package to those of the Hermes home, at its first start
    and after an upgrade (`hermes-lab skills sync`)."""
    max_listed: Annotated[int, Field(ge=0)] = 200
    """Maximum number of skills listed in a prompt. From a larger library, those most similar to the task are listed (in
    `chat`, which has no task yet, the first by name); `skills_list` shows the others."""
    review_every: Annotated[int, Field(ge=0)] = 10
    """Tool-calling iterations after which a review is due; 0: after every episode."""
    review_iterations: Annotated[int, Field(ge=1)] = 16
    """Maximum tool-calling iterations of a review."""
    learn_value: Annotated[float, Field(ge=0, le=1)] = 0.6
    """Learning value from which an episode of at least `learn_messages` messages gets a review regardless of
    `review_every`."""
    learn_messages: Annotated[int, Field(ge=0)] = 10
    """Messages that an episode needs for a review by `learn_value`."""
    update_similarity: Annotated[float, Field(ge=0, le=1)] = 0.9
    """A new skill at least this similar to an existing one updates that instead."""
    ema_alpha: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Weight of the newest outcome in a skill's moving average success rate."""
    rewrite_uses: Annotated[int, Field(ge=1)] = 10
    """Number of uses after which a skill is judged by `rewrite_below`."""
    rewrite_below: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Success rate below which a skill that was used often enough is hidden from prompts until it is rewritten."""
    heal_attempts: Annotated[int, Field(ge=0)] = 3
    """Attempts to fix a compiled skill that fails its validation."""
    stale_days: Annotated[float, Field(gt=0), Unit("days")] = 30.0
    """Days without use after which the curator marks an agent-written skill as stale."""
    archive_days: Annotated[float, Field(gt=0), Unit("days")] = 90.0
    """Days without use after which the curator archives an agent-written skill."""
    merge_similarity: Annotated[float, Field(ge=0, le=1)] = 0.9
    """Similarity from which the curator treats agent-written skills as duplicates."""


class MemoryConfig(Section):
    """The agent's notes and memories."""

    memory_chars: Annotated[int, Field(gt=0), Unit("characters")] = 2200
    """Maximum size of MEMORY.md in characters."""
    user_chars: Annotated[int, Field(gt=0), Unit("characters")] = 1375
    """Maximum size of USER.md in characters."""
    vectors: Literal["off", "sqlite", "postgres"] = "off"
    """`chat` only: the vector store for memories of past work. `sqlite` is a file in the Hermes home."""
    url_env: str = "HERMES_MEMORY_URL"
    """postgres only: the environment variable with the URL; the URL itself is never stored."""
    top_k: Annotated[int, Field(ge=1)] = 5
    """Maximum number of memories recalled per message."""
    half_life_days: Annotated[float, Field(gt=0), Unit("days")] = 30.0
    """Half-life of a memory's score in days: score * exp(-ln 2 / half_life_days * age)."""
    relevance: Annotated[float, Field(ge=0, le=1)] = 0.35
    """Minimum score of a recalled memory."""
    provider: str = ""
    """One external memory provider, by its entry point name in `hermes_lab.memory_providers`."""


class WebConfig(Section):
    """What `web_search` and `web_extract` search, for tasks without pages of their own. Default: nothing."""

    provider: Literal["none", "corpus", "tavily", "brave", "exa"] = "none"
    """`corpus`: local pages. The others are services that require a key; `brave` can only search."""
    corpus: InputPath = ""
    """corpus only: a JSONL file of pages, or a folder of .md and .txt files."""
    api_key_env: str = ""
    """The environment variable with the key, which is never stored; empty: TAVILY_API_KEY, BRAVE_API_KEY or
    EXA_API_KEY."""
    base_url: str = ""
    """Address of the service; empty: its public address."""
    timeout: Annotated[float, Field(gt=0), Unit("seconds")] = 30.0
    """Timeout for one reply, in seconds."""
    max_retries: Annotated[int, Field(ge=0)] = 3
    """Retries after a connection failure, a 429 or a 5xx."""

    @model_validator(mode="after")
    def _corpus_where_named(self) -> "WebConfig":
        if (self.provider == "corpus") != bool(self.corpus):
            raise ValueError("`corpus` is required with `provider: corpus`, and not allowed otherwise")
        return self


class SuiteConfig(Section):
    """The tasks to run."""

    name: str = ""
    """A suite by name (`hermes-lab tasks list`), or a class of your own as `module:Class`."""
    path: InputPath = ""
    """A JSONL file of tasks, or a folder of Harbor task folders, instead of `name`."""
    split: str = "train"
    """The split of the suite."""
    count: Annotated[int, Field(ge=0)] = 0
    """Number of tasks; 0: all tasks of a finite suite."""
    seed: int = 0
    """Seed for drawing the tasks."""
    world: Annotated[int, Field(ge=0)] = 0
    """Seed for the hidden rules, in suites that have them; for `experiment`, that of the first of `learning.worlds`.
    `seed` draws different tasks from the same world."""
    options: dict[str, Any] = {}
    """Keyword arguments for the suite, such as the number of rules per world. For Harbor folders: `skip_unsupported`
    leaves out the tasks that cannot run here, `python` is the Python environment of the sandboxes, and `running` lets
    the agent's processes run while its work is verified."""

    @model_validator(mode="after")
    def _one_source(self) -> "SuiteConfig":
        if self.name and self.path:
            raise ValueError("give `name` or `path`, not both")
        return self


class RewardConfig(Section):
    """The reward of a rollout: a weighted sum of the terms in `hermes_lab.rewards`. A weight of 0 omits a term.

    Training and environments use it; scores and success remain those of the verifier.
    """

    score: float = 1.0
    """Weight of the verifier's score of the first submission, in [0, 1]."""
    accepted: float = 0.0
    """Weight of whether the last submission was accepted (0 or 1)."""
    recovered: float = 0.0
    """Weight of `discount` to the power of k - 1, where k is the first submission that was accepted; 0 if none was."""
    answered: float = 0.0
    """Weight of whether the work ended with an answer, right or wrong (0 or 1)."""
    tool_calls: float = 0.0
    """Weight of each tool call. Published recipes use 0.1, which is earned without solving anything; a negative weight
    penalises calls."""
    discount: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """`recovered` only: the factor for every rejection before the work is accepted. Must be below 1; otherwise
    failing first would earn as much."""

    @model_validator(mode="after")
    def _of_something(self) -> "RewardConfig":
        if not self.recovered and self.discount != type(self).model_fields["discount"].default:
            raise ValueError(
                "`discount` has no effect while reward.recovered is 0; give that a weight, or leave `discount` out"
            )
        if not any(self.weights.values()):
            raise ValueError("every weight is 0; set at least one")
        return self

    @property
    def weights(self) -> dict[str, float]:
        """The terms with a non-zero weight."""
        return {term: weight for term, weight in self.model_dump(exclude={"discount"}).items() if weight}


Mode = Literal["none", "oracle", "lane", "mixed"]


class EnvironmentConfig(Section):
    """The skills that rollouts for training start with; `run` and `experiment` have `learning.arms` instead."""

    knowledge: Mode = "none"
    """The skills of a task's rollouts, the same for all rollouts of its group. `none`: `skills.library`. `oracle`: the
    hidden rules of the world. `lane`: what a lane knows after 0 to 11 earlier tasks of the world, namely the rules that
    these met. `mixed`: by task, no skill, `oracle`, `lane`, or `lane` among skills of other worlds, in equal parts."""


class RayConfig(Section):
    """The Ray cluster that runs rollouts; see docs/scaling.md. Its nodes need this package and the same Python
    version."""

    address: str = ""
    """`auto` or `HOST:PORT`. Empty: $RAY_ADDRESS, or else a temporary cluster on this machine."""
    workers: Annotated[int, Field(ge=0)] = 0
    """Number of worker processes, which share the `run.concurrency` rollouts; 0: as many as fit."""
    cpus: Annotated[float, Field(gt=0), Unit("CPUs")] = 1.0
    """CPUs per worker."""
    resources: dict[str, Annotated[float, Field(gt=0)]] = {}
    """Further resources per worker: `GPU`, `memory` (bytes), or custom ones such as `docker: 1`, which place workers on
    nodes that have them (`ray start --resources`)."""

    @field_validator("resources")
    @classmethod
    def _has_no_field_of_its_own(cls, resources: dict[str, float]) -> dict[str, float]:
        if "CPU" in resources:
            raise ValueError("set CPUs with run.ray.cpus")
        if "object_store_memory" in resources:
            raise ValueError("object_store_memory is not a resource of a worker; use memory")
        return resources


class RunSection(Section):
    """How rollouts are executed."""

    samples: Annotated[int, Field(ge=1)] = 1
    """Number of rollouts per task."""
    seed: int = 0
    """Seed of draws per rollout, such as toolsets."""
    concurrency: Annotated[int, Field(ge=1)] = 16
    """Number of concurrent rollouts."""
    executor: Literal["local", "processes", "ray"] = "local"
    """Where rollouts run: in this process, in several processes on this machine, or on a Ray cluster. Does not affect
    results."""
    processes: Annotated[int, Field(ge=0)] = 0
    """The number of processes of executor `processes`; 0: one per CPU that may be used."""
    ray: RayConfig = RayConfig()
    """The cluster for executor `ray`."""
    keep_workspaces: bool = False
    """Keep every workspace as it stood when it was verified, so that `hermes-lab rescore` can apply another verifier: a
    compressed archive per submission, in the run folder. Not with executor `ray`, whose nodes lack the folder."""
    workspace_mb: Annotated[float, Field(gt=0), Unit("megabytes")] = 64.0
    """keep_workspaces only: maximum size of a workspace in megabytes, before compression. A larger one is not kept, and
    the episode's record says so."""
    out: OutputPath = ""
    """The run folder; overridden by `--out`."""

    @model_validator(mode="after")
    def _keeps_where_it_can(self) -> "RunSection":
        if self.keep_workspaces and self.executor == "ray":
            raise ValueError("`keep_workspaces` needs the run folder, which the nodes of executor `ray` do not have")
        if not self.keep_workspaces and self.workspace_mb != type(self).model_fields["workspace_mb"].default:
            raise ValueError("`workspace_mb` has no effect without `keep_workspaces: true`")
        return self


class JudgeConfig(Section):
    """A model that grades answers, for tasks with a rubric (`judge` in a row of a JSONL suite)."""

    model: ModelConfig = ModelConfig()
    """The judge, at an endpoint."""
    votes: Annotated[int, Field(ge=1)] = 1
    """How often the judge is asked about an answer; an odd number, of which the majority decides. Votes at temperature
    0 hardly differ: set `judge.model.sampling.temperature`."""

    @field_validator("model")
    @classmethod
    def _is_not_started(cls, model: ModelConfig) -> ModelConfig:
        if model.provider == "vllm":
            raise ValueError("`vllm` is only supported for `model`; use an endpoint (`hermes-lab serve` starts one)")
        return model

    @field_validator("votes")
    @classmethod
    def _is_odd(cls, votes: int) -> int:
        if votes % 2 == 0:
            raise ValueError(f"{votes} votes may have no majority; give an odd number")
        return votes


Arm = Literal["off", "on", "frozen", "oracle", "placebo"]


class HeldoutConfig(Section):
    """Held-out tasks from the lane's worlds, which measure the current library and are never learned from."""

    tasks: Annotated[int, Field(ge=0)] = 0
    """Number of held-out tasks per world, the same in all arms and evaluations; 0: none."""
    every: Annotated[int, Field(ge=0)] = 0
    """Rounds between held-out evaluations. There is always one before the first round, after each of `blocks`, and
    after the last round; 0: only those."""

    @model_validator(mode="after")
    def _every_of_something(self) -> "HeldoutConfig":
        if self.every and not self.tasks:
            raise ValueError(
                f"`tasks: 0` leaves nothing to measure, so `every: {self.every}` has no effect; give a number of tasks "
                "or set learning.heldout.every=0, which switches held-out measurements off"
            )
        return self


class ExpectedEffect(Section):
    """Assumptions of the power calculation."""

    baseline: Annotated[float, Field(gt=0, lt=1)] = 0.6
    """Expected success rate without the change."""
    effect: Annotated[float, Field(gt=-1, lt=1)] = 0.16
    """The effect to detect; 0.16 means 16 percentage points."""

    @model_validator(mode="after")
    def _still_a_rate(self) -> "ExpectedEffect":
        if not 0 < self.baseline + self.effect < 1:
            raise ValueError(f"baseline + effect is {self.baseline + self.effect:g}; it must be above 0 and below 1")
        return self


class StopConfig(Section):
    """Whether an experiment may end early. It then runs its worlds in their order and is tested after each."""

    when: Literal["never", "shown", "hopeless", "either"] = "never"
    """`shown`: once a difference is shown by a test that is valid at any time. `hopeless`: once the effect in
    `learning.expect` is excluded. `either`: whichever comes first. Needs 6 worlds, or lanes with tasks of their own."""


class LearningConfig(Section):
    """What `experiment` compares."""

    arms: Annotated[tuple[Arm, ...], Field(min_length=1)] = ("off", "on")
    """`off`: no skills. `on`: starts with `skills.library`, and reviews write skills for later rounds. `frozen`:
    `skills.library` unchanged. `oracle`: skills that state the suite's hidden rules. `placebo`: as `on`, but the
    contents of skills and notes are replaced by irrelevant text of the same length."""
    replicates: Annotated[int, Field(ge=1)] = 1
    """Independent repetitions of every arm and world, with different tasks."""
    worlds: Annotated[int, Field(ge=1)] = 1
    """Number of worlds (draws of the hidden rules)."""
    rounds: Annotated[int, Field(ge=1)] = 10
    """Rounds per lane; the library changes only between rounds."""
    round_size: Annotated[int, Field(ge=1)] = 1
    """Tasks per round, all run with the same library snapshot."""
    blocks: Annotated[int, Field(ge=1)] = 1
    """Number of worlds that a lane visits one after the other, with equal shares of the rounds. If there are held-out
    tasks, every evaluation covers all of the lane's worlds, to measure transfer and forgetting."""
    order: Literal["drawn", "random", "latin"] = "drawn"
    """`drawn`: each replicate has its own tasks. Otherwise all replicates share the tasks in different orders:
    `random`, or rows of a balanced Latin square, in which every task takes every position equally often."""
    heldout: HeldoutConfig = HeldoutConfig()
    """Held-out evaluation."""
    adapters: tuple[NameOrPath, ...] = ()
    """The weights as a factor: every arm runs with each of these adapters, as in `model.adapter`; "" is the base model.
    Empty list: only `model.adapter`."""
    expect: ExpectedEffect = ExpectedEffect()
    """Assumptions of the power calculation."""
    stop: StopConfig = StopConfig()
    """Ending early."""

    @field_validator("arms", mode="before")
    @classmethod
    def _yaml_switches(cls, arms: Any) -> Any:
        # YAML 1.1 reads a bare off or on as a boolean.
        return [{True: "on", False: "off"}.get(arm, arm) for arm in arms] if isinstance(arms, list) else arms

    @field_validator("arms")
    @classmethod
    def _arms_differ(cls, arms: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(arms)) < len(arms):
            raise ValueError("an arm is listed twice; for repetitions use learning.replicates")
        return arms

    @field_validator("adapters")
    @classmethod
    def _adapters_differ(cls, adapters: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(adapters)) < len(adapters):
            raise ValueError("an adapter is listed twice; for repetitions use learning.replicates")
        return adapters


class BudgetConfig(Section):
    """The budget of a run; 0: no limit. Once it is used up no new episodes start; a resumed run may raise it."""

    tasks: Annotated[int, Field(ge=0), Unit("episodes")] = 0
    """Maximum number of episodes, including those before a resume."""
    tokens: Annotated[int, Field(ge=0), Unit("tokens")] = 0
    """Maximum prompt and completion tokens, including reviews and those before a resume."""
    hours: Annotated[float, Field(ge=0), Unit("hours")] = 0.0
    """Maximum wall-clock time of one start or resume, in hours."""


class TrackingConfig(Section):
    """Experiment trackers that follow a run. A failing tracker is reported once; the run continues."""

    services: tuple[Literal["wandb", "mlflow"], ...] = ()
    """`wandb`: Weights & Biases, offline files in the run folder unless WANDB_MODE says otherwise. `mlflow`: MLflow,
    files in the run folder unless MLFLOW_TRACKING_URI names a server."""
    project: Annotated[str, Field(min_length=1)] = "hermes-lab"
    """The project of wandb, and the experiment of MLflow."""
    name: str = ""
    """The run's name there; empty: the name of its folder."""
    every_seconds: Annotated[float, Field(ge=0), Unit("seconds")] = 10.0
    """Minimum time between two rows of metrics; 0: one for every episode."""


class RunConfig(Section):
    """The complete configuration of a run."""

    of_chats: ClassVar[bool] = False
    """Whether it configures chats, which may keep their workspace."""

    model: ModelConfig = ModelConfig()
    """The model."""
    auxiliary: ModelConfig | None = None
    """A cheaper model at an endpoint that writes the summaries of compressed turns and of session searches; null: the
    model itself."""
    judge: JudgeConfig | None = None
    """A model that grades answers, for tasks with a rubric; null: none."""
    agent: AgentConfig = AgentConfig()
    """The agent loop."""
    sandbox: SandboxConfig = SandboxConfig()
    """The sandbox."""
    skills: SkillsConfig = SkillsConfig()
    """The skill library and learning."""
    memory: MemoryConfig = MemoryConfig()
    """Notes and memories."""
    web: WebConfig = WebConfig()
    """The web that the agent can search."""
    mcp: McpConfig = McpConfig()
    """MCP servers with further tools."""
    suite: SuiteConfig = SuiteConfig()
    """The tasks."""
    reward: RewardConfig = RewardConfig()
    """The reward for training."""
    env: EnvironmentConfig = EnvironmentConfig()
    """The environment for training."""
    run: RunSection = RunSection()
    """Execution."""
    learning: LearningConfig = LearningConfig()
    """The experiment."""
    budget: BudgetConfig = BudgetConfig()
    """The budget."""
    tracking: TrackingConfig = TrackingConfig()
    """Experiment trackers."""

    @model_validator(mode="before")
    @classmethod
    def _sampling_of_a_program(cls, fields: Any) -> Any:
        """With a program, sampling parameters that are not set are null: the program sends its own."""
        if not isinstance(fields, Mapping) or not isinstance(agent := fields.get("agent"), Mapping | AgentConfig):
            return fields
        program = agent.program if isinstance(agent, AgentConfig) else agent.get("program")
        model = fields.get("model", {})
        if (
            not program
            or not isinstance(model, Mapping)
            or not isinstance(sampling := model.get("sampling", {}), Mapping)
        ):
            return fields
        unset = dict.fromkeys(("temperature", "top_p", "max_tokens"))
        return {**fields, "model": {**model, "sampling": {**unset, **sampling}}}

    @model_validator(mode="after")
    def _limits_replies(self) -> "RunConfig":
        """A program sends a limit of its own (`check_agent`)."""
        models = {
            "model": None if self.agent.program else self.model,
            "auxiliary": self.auxiliary,
            "judge.model": self.judge and self.judge.model,
        }
        for name, model in models.items():
            if model and model.provider == "anthropic" and model.sampling.max_tokens is None:
                raise ValueError(f"{name}.sampling.max_tokens: the Anthropic Messages API needs a number, not null")
        return self

    @model_validator(mode="after")
    def _one_source_of_skills(self) -> "RunConfig":
        if self.env.knowledge != "none" and self.skills.library:
            raise ValueError(
                f"env.knowledge: `{self.env.knowledge}` decides which skills a rollout has; remove skills.library, or "
                "set env.knowledge=none"
            )
        return self

    @field_validator("auxiliary")
    @classmethod
    def _is_not_started(cls, auxiliary: ModelConfig | None) -> ModelConfig | None:
        if auxiliary and auxiliary.provider == "vllm":
            raise ValueError("`vllm` is only supported for `model`; use an endpoint (`hermes-lab serve` starts one)")
        return auxiliary
