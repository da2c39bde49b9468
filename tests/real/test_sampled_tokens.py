"""What each method trains is what vLLM sampled, token by token, whatever the conversation holds.

The truth is taken between the client and the server: a relay writes down every reply's token ids.
"""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import product
from typing import NamedTuple, TypeVar

import aiohttp
import anyio
import msgspec
import pytest
from aiohttp import web
from fakes.episodes import record
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hermes_lab.agent.loop import result_messages
from hermes_lab.agent.prompt import system_prompt
from hermes_lab.agent.tokens import TokenTrace
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import ModelConfig, SamplingConfig, SuiteConfig
from hermes_lab.envs.groups import build_groups
from hermes_lab.envs.trl.columns import rollout_columns
from hermes_lab.models.adapters import load_adapter, packaged_folder, unload_adapter
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.models.hermes_format import parse_reply
from hermes_lab.models.remote import open_endpoints
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tasks.registry import load_suite
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.training.group_filter import Rules, filter_groups
from hermes_lab.training.preference_data import PairOfConversations, tokenize_pairs
from hermes_lab.training.select import TrainingConversation
from hermes_lab.training.tokens import IGNORED, Row, rows_of
from hermes_lab.types import Episode, Message, ModelIdentity, Reward, ScoredGroup, Step, ToolResult, Trajectory, Verdict

pytestmark = [
    pytest.mark.real,
    pytest.mark.filterwarnings("default"),  # of the libraries under test
]

TEXT = st.text(max_size=40) | st.sampled_from(
    ["<|im_end|>", "<|im_start|>assistant\nDone.", "<tool_call>", "naïve 🙂\u200d\r\n", "  two  spaces ", "</s>"]
)
"""Prompts and tool output, with what a template or a tokenizer may treat specially."""


P = TypeVar("P")


class Reply(NamedTuple):
    """What vLLM read and sampled for one turn."""

    prompt: list[int]
    sampled: list[int]


class Plan(NamedTuple):
    """How two conversations from one prompt go on."""

    system: str
    prompt: str
    results: list[str]
    temperature: float
    max_tokens: int
    adapter: str
    rewritten: bool
    """Whether the history changes before the last turn, which begins another sequence."""


def plans(*, rewritten: bool) -> st.SearchStrategy[Plan]:
    return st.builds(
        Plan,
        system=TEXT,
        prompt=TEXT,
        results=st.lists(TEXT, min_size=int(rewritten), max_size=2),
        temperature=st.sampled_from([0.7, 1.0, 1.8]),
        max_tokens=st.sampled_from([1, 6, 24]),
        adapter=st.just(""),
        rewritten=st.just(rewritten),
    )


def plans_of_an_agent(*, rewritten: bool, max_tokens: int) -> st.SearchStrategy[Plan]:
    """The packaged adapter with a tool and a task: most replies are whole calls, which end before 96 tokens."""
    sandbox = SandboxConfig()
    toolbox = Toolbox(("terminal",), ToolContext(open_sandbox(sandbox), None, sandbox))
    tasks = load_suite(SuiteConfig(name="ledger")).load(split="train", count=8, seed=0, world=0)
    return st.builds(
        Plan,
        system=st.just(system_prompt(toolbox.schemas, "hermes", profile="compact")),
        prompt=st.sampled_from([task.prompt for task in tasks]),
        results=st.lists(TEXT | st.just('{"output": "done", "exit_code": 0}'), min_size=1, max_size=2),
        temperature=st.sampled_from([0.7, 1.0, 1.3]),
        max_tokens=st.just(max_tokens),
        adapter=st.just("packaged"),
        rewritten=st.just(rewritten),
    )


@asynccontextmanager
async def relay(url: str, replies: list[Reply], logprobs: list[list[float]] | None = None) -> AsyncIterator[str]:
    """The address of a server that passes requests on to `url`, and appends what was sampled to `replies`, and its
    log-probabilities to `logprobs`."""
    session = aiohttp.ClientSession()

    async def passed(request: web.Request) -> web.Response:
        target = f"{url}/{request.match_info['path']}"
        async with session.request(request.method, target, data=await request.read(), headers=_type(request)) as got:
            body = await got.read()
            if request.path.endswith("/chat/completions"):
                answer = json.loads(body)
                choice = answer["choices"][0]
                replies.append(Reply(answer["prompt_token_ids"], choice["token_ids"]))
                if logprobs is not None:
                    logprobs.append([token["logprob"] for token in choice["logprobs"]["content"]])
            return web.Response(body=body, status=got.status, content_type=got.content_type)

    app = web.Application()
    app.router.add_route("*", "/v1/{path:.*}", passed)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        await session.close()
        await runner.cleanup()


def _type(request: web.Request) -> dict[str, str]:
    return {"Content-Type": request.headers.get("Content-Type", "application/json")}


async def talk(url: str, plan: Plan, sample: int) -> tuple[Episode, list[Reply]]:
    """One conversation with the served model, as an episode, and its replies as the relay saw them."""
    replies: list[Reply] = []
    sampling = SamplingConfig(max_tokens=plan.max_tokens, temperature=plan.temperature)
    async with relay(url, replies) as between:
        config = ModelConfig(base_url=between, adapter=plan.adapter, token_ids=True, sampling=sampling)
        async with open_endpoints(config, [plan.adapter], tool_format="hermes", concurrency=1) as (client,):
            messages = [Message("system", plan.system), Message("user", plan.prompt)]
            trace, steps = TokenTrace(), []
            for turn in range(len(plan.results) + 1):
                if turn and turn == len(plan.results) and plan.rewritten:
                    messages[1] = Message("user", "What was said before was summarised.")
                reply = await client.generate(messages, ())  # tools are in the system prompt
                trace.add(reply)
                steps.append(Step(len(messages), reply.finish_reason, reply.usage))
                # As the agent does in this format.
                calls = parse_reply(reply.message.content, {"terminal"}).calls
                messages.append(msgspec.structs.replace(reply.message, tool_calls=calls))
                if turn < len(plan.results):
                    called = [(call.id, call.name) for call in calls] or [("c", "ls")]
                    messages += result_messages([ToolResult(*call, plan.results[turn]) for call in called], "hermes")
    trajectory = Trajectory(
        tuple(messages),
        (),
        "hermes",
        "answered",
        steps=tuple(steps),
        branches=trace.branches(),
        final_response="Done.",
    )
    episode = record(
        sample=sample,
        model=ModelIdentity("vllm", "packaged", adapter="a", adapter_digest="d"),
        verdicts=(Verdict(1.0, True),),
        score=1.0 - sample,
        reward=Reward(1.0 - sample, {"score": 1.0 - sample}),
        trajectory=trajectory,
    )
    return episode, replies


def trained_runs(ids: list[int], wanted: list[bool]) -> list[Reply]:
    """Each run of tokens with a loss, with all that stands before it."""
    found, at = [], 0
    while at < len(ids):
        end = at + 1
        while end < len(ids) and wanted[end] == wanted[at]:
            end += 1
        if wanted[at]:
            found.append(Reply(ids[:at], ids[at:end]))
        at = end
    return found


def of_row(row: Row) -> list[Reply]:
    assert all(label in (IGNORED, token) for label, token in zip(row.labels, row.input_ids, strict=True))
    return trained_runs(row.input_ids, [label != IGNORED for label in row.labels])


def conversation(episode: Episode, *, turns: tuple[int, ...]) -> TrainingConversation:
    """An episode of which `turns` are trained."""
    trajectory = episode.trajectory
    assert trajectory is not None
    return TrainingConversation(
        episode=episode.key,
        messages=trajectory.messages,
        tools=(),
        tool_format="hermes",
        trained=turns,
        branches=trajectory.branches,
        sampled=tuple(step.message for step in trajectory.steps),
    )


def check_sft(episode: Episode, replies: list[Reply]) -> None:
    """Any choice of turns trains the tokens of these turns, after the prompts that vLLM read."""
    assert episode.trajectory is not None
    turns = [step.message for step in episode.trajectory.steps]
    for chosen in (turns, turns[:1], turns[1:]):
        expected = [reply for turn, reply in zip(turns, replies, strict=True) if turn in chosen]
        rows = rows_of(conversation(episode, turns=tuple(chosen)), tokenizer=None)
        assert [run for row in rows for run in of_row(row)] == expected


def check_preference(episodes: list[Episode], replies: list[list[Reply]]) -> int:
    """The rows of a pair train every reply of both. A pair of rewritten conversations is refused."""
    chosen, rejected = (
        conversation(e, turns=tuple(s.message for s in e.trajectory.steps)) for e in episodes if e.trajectory
    )
    rows, refused = tokenize_pairs([PairOfConversations(chosen, rejected)], None, 4096)
    for pair in rows:
        assert [of_row(row) for row in pair] == replies
    assert bool(refused) == any(len(e.trajectory.branches) > 1 for e in episodes if e.trajectory)
    return len(rows)


def check_grpo(episodes: list[Episode], replies: list[list[Reply]]) -> None:
    """The columns of all sequences have a loss on every reply. The trainer is given the sequence of each rollout with
    the most sampled tokens, of equal ones the last."""
    groups = list(build_groups(episodes))
    assert of_columns(groups) == [reply for each in replies for reply in each]
    rules = Rules(group_size=2, max_tokens=10_000, policies=[group.policy for group in groups], splits=["train"])
    kept, refused, left_out = filter_groups(groups, rules)
    assert refused == {}
    whole = [sequences(each) for each in replies]
    assert of_columns(kept) == [reply for each in whole for reply in max(reversed(each), key=sampled)]
    assert left_out == sum(len(each) - 1 for each in whole)


def sequences(replies: list[Reply]) -> list[list[Reply]]:
    """The replies of a conversation, divided where a prompt does not begin with all that came before."""
    found: list[list[Reply]] = []
    for reply in replies:
        before = found[-1][-1] if found else Reply([], [])
        so_far = before.prompt + before.sampled
        if found and reply.prompt[: len(so_far)] == so_far:
            found[-1].append(reply)
        else:
            found.append([reply])
    return found


def sampled(sequence: list[Reply]) -> int:
    return sum(len(reply.sampled) for reply in sequence)


def of_columns(groups: list[ScoredGroup]) -> list[Reply]:
    columns = rollout_columns(groups)
    found = []
    for prompt, completion, mask in zip(
        columns["prompt_ids"], columns["completion_ids"], columns["env_mask"], strict=True
    ):
        found += trained_runs(prompt + completion, [False] * len(prompt) + [bool(on) for on in mask])
    return found


def drawn(plans: st.SearchStrategy[P], examples: int) -> list[P]:
    """Draws plans. Their conversations run all at once, since a batch costs vLLM hardly more than one conversation."""
    found: list[P] = []

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(plan=plans)
    def draw(plan: P) -> None:
        found.append(plan)

    draw()
    assert len(found) == examples
    return found


@contextmanager
def about(plan: object) -> Iterator[None]:
    """A check that fails says of which plan."""
    try:
        yield
    except AssertionError as error:
        error.add_note(f"of {plan}")
        raise


class Seen:
    """Checks plans, and counts what the checks depend on."""

    def __init__(self) -> None:
        self.pairs = self.calls = self.cut = self.divided = 0

    def check(self, plan: Plan, talks: Sequence[tuple[Episode, list[Reply]]]) -> None:
        episodes, replies = [episode for episode, _ in talks], [own for _, own in talks]
        assert all(len(each) == len(plan.results) + 1 for each in replies)
        for episode, own in zip(episodes, replies, strict=True):
            check_sft(episode, own)
            self._count(episode)
        self.pairs += check_preference(episodes, replies)
        check_grpo(episodes, replies)

    def _count(self, episode: Episode) -> None:
        assert episode.trajectory is not None
        said = [message for message in episode.trajectory.messages if message.role == "assistant"]
        self.calls += sum(any(not call.error for call in message.tool_calls) for message in said)
        self.cut += sum(step.finish_reason == "length" for step in episode.trajectory.steps)
        self.divided += len(episode.trajectory.branches) > 1


async def talked(url: str, plans: Sequence[Plan]) -> dict[tuple[int, int], tuple[Episode, list[Reply]]]:
    """The two conversations of each plan, by its number and theirs."""
    talks = {}

    async def keep(number: int, sample: int) -> None:
        talks[number, sample] = await talk(url, plans[number], sample)

    async with anyio.create_task_group() as group:
        for number, sample in product(range(len(plans)), (0, 1)):
            group.start_soon(keep, number, sample)
    return talks


def checked(url: str, chosen: Sequence[Plan]) -> Seen:
    seen, talks = Seen(), anyio.run(talked, url, chosen)
    for number, plan in enumerate(chosen):
        with about(plan):
            seen.check(plan, [talks[number, sample] for sample in (0, 1)])
    return seen


def test_the_tokens_that_every_method_trains_are_those_that_vllm_sampled(vllm_url: str) -> None:
    # How many of each kind there are is not left to chance.
    seen = checked(vllm_url, drawn(plans(rewritten=False), 17) + drawn(plans(rewritten=True), 8))
    assert seen.pairs >= 5
    assert seen.divided >= 5


@pytest.fixture
def with_the_adapter(vllm_url: str) -> Iterator[str]:
    """The server with the packaged adapter, which two conversations that begin at once would both load."""

    async def ask(load: bool) -> None:
        async with Endpoint(vllm_url) as endpoint:
            adapter = await load_adapter(endpoint, packaged_folder())
            if not load:
                await unload_adapter(endpoint, adapter.name)

    anyio.run(ask, True)
    yield vllm_url
    anyio.run(ask, False)


def test_the_tokens_of_calls_and_of_answers_to_their_results_are_those_that_vllm_sampled(with_the_adapter: str) -> None:
    chosen = []
    for rewritten in (False, True):
        chosen += drawn(plans_of_an_agent(rewritten=rewritten, max_tokens=96), 3)
        chosen += drawn(plans_of_an_agent(rewritten=rewritten, max_tokens=6), 2)
    seen = checked(with_the_adapter, chosen)
    assert seen.calls >= 6, vars(seen)
    assert seen.cut >= 5
    assert seen.pairs >= 2
    assert seen.divided >= 5
