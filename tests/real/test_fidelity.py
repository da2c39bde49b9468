"""What vLLM says it sampled is what transformers computes; and no reply comes from other weights than those named."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from lora import base_model, random_adapter

from hermes_lab.agent.loop import result_messages
from hermes_lab.agent.tokens import TokenTrace
from hermes_lab.config.schema import ModelConfig, SamplingConfig
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.models.hermes_format import render_tools
from hermes_lab.models.remote import open_endpoints
from hermes_lab.models.wires.chat import wire
from hermes_lab.types import Message, TokenBranch, ToolResult

pytestmark = [
    pytest.mark.real,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("default"),  # of the libraries under test
]

MEAN, LARGEST = 0.1, 1.0
"""Of |difference| in nats: two engines, each with logits rounded to bfloat16. Measured: mean 0.05, max 0.5; another
adapter's log-probabilities: mean 0.5, max 3.5; a mask that is off by one token: mean 3, max 15."""

TASKS = ["Name a colour.", "Add 17 and 25.", "Which files are here?", "Write a line of a poem."]
TOOLS = [{"type": "function", "function": {"name": "ls", "description": "Lists files.", "parameters": {}}}]


class Talk(NamedTuple):
    """Two sampled turns with a tool's answer between them."""

    messages: list[Message]
    branches: tuple[TokenBranch, ...]
    first_prompt: tuple[int, ...]


async def talks(url: str, adapter: str = "") -> list[Talk]:
    config = ModelConfig(
        base_url=url, adapter=adapter, token_ids=True, sampling=SamplingConfig(max_tokens=40, temperature=1.0)
    )
    made: list[Talk] = []
    async with open_endpoints(config, [adapter], tool_format="hermes", concurrency=4) as (client,):

        async def talk(task: str) -> None:
            messages = [Message("system", f"You are brief. {render_tools(TOOLS)}"), Message("user", task)]
            trace = TokenTrace()
            first = await client.generate(messages, ())
            trace.add(first)
            messages += [first.message, *result_messages([ToolResult("c", "ls", '{"output": "a.csv"}')], "hermes")]
            second = await client.generate(messages, ())
            trace.add(second)
            made.append(Talk([*messages, second.message], trace.branches(), first.prompt_token_ids))

        async with anyio.create_task_group() as group:
            for task in TASKS:
                group.start_soon(talk, task)
    return made


def predictions(model: Any, branches: Sequence[TokenBranch]) -> list[Any]:
    """Of each branch, the log-probabilities of every next token: float32 [T, V]."""
    import torch

    with torch.no_grad():
        return [
            torch.log_softmax(model(input_ids=torch.tensor(branch.token_ids)[None]).logits[0].float(), dim=-1)
            for branch in branches
        ]


def differences(predicted: Sequence[Any], branches: Sequence[TokenBranch], shift: int = 0) -> Any:
    """|vLLM's - transformers'| log-probability of every sampled token; `shift` reads the mask at another place."""
    import torch

    found = []
    for logprobs_TV, branch in zip(predicted, branches, strict=True):
        ids_T = torch.tensor(branch.token_ids)
        at = torch.tensor(branch.mask).nonzero()[:, 0]
        places = (at + shift).clamp(1, len(ids_T) - 1)
        theirs = logprobs_TV[places - 1].gather(1, ids_T[places, None])[:, 0]
        found.append((torch.tensor(branch.logprobs)[at] - theirs).abs())
    return torch.cat(found)


def report(name: str, found: Any) -> tuple[float, float]:
    mean, largest = float(found.mean()), float(found.max())
    print(f"{name}: {len(found)} tokens, mean {mean:.4f}, max {largest:.3f}")
    return mean, largest


async def test_transformers_recomputes_vllms_log_probabilities(vllm_url: str, packaged: Path, tmp_path: Path) -> None:
    from peft import PeftModel

    folder = random_adapter(packaged, tmp_path / "tuned", seed=1)
    bare, tuned = await talks(vllm_url), await talks(vllm_url, str(folder))
    bare_branches = [branch for talk in bare for branch in talk.branches]
    tuned_branches = [branch for talk in tuned for branch in talk.branches]
    base = base_model(packaged)
    by_base = predictions(base, bare_branches)
    tuned_by_base = predictions(base, tuned_branches)
    tuned_by_adapter = predictions(PeftModel.from_pretrained(base, folder), tuned_branches)
    right = [
        report("base", differences(by_base, bare_branches)),
        report("adapter", differences(tuned_by_adapter, tuned_branches)),
    ]
    wrong = [
        report("the adapter's tokens, by the base", differences(tuned_by_base, tuned_branches)),
        report("mask shifted to the right", differences(by_base, bare_branches, shift=1)),
        report("mask shifted to the left", differences(by_base, bare_branches, shift=-1)),
    ]
    assert all(mean < MEAN and largest < LARGEST for mean, largest in right)
    assert all(mean > 3 * MEAN and largest > LARGEST for mean, largest in wrong)


async def test_the_log_holds_the_servers_own_tokens(vllm_url: str, packaged: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(packaged)
    async with Endpoint(vllm_url.removesuffix("/v1")) as endpoint:
        for talk in await talks(vllm_url):
            first = wire(talk.messages[:2], "hermes")
            content, _ = await endpoint.post("/tokenize", {"messages": first, "add_generation_prompt": True})
            assert tuple(json.loads(content)["tokens"]) == talk.first_prompt
            text = tokenizer.decode(talk.branches[-1].token_ids, clean_up_tokenization_spaces=False)
            rendered = tokenizer.apply_chat_template(wire(talk.messages, "hermes"), tokenize=False)
            assert rendered.removesuffix("\n").removesuffix("<|im_end|>") == text.removesuffix("<|im_end|>")
            runs = [b.token_ids[b.mask.index(1) :] for b in talk.branches]
            assert all(run for run in runs)


async def test_a_prompt_that_was_rewritten_begins_a_branch_of_the_servers_tokens(vllm_url: str) -> None:
    config = ModelConfig(base_url=vllm_url, token_ids=True, sampling=SamplingConfig(max_tokens=16))
    ask = [Message("user", "Name a colour.")]
    async with open_endpoints(config, [""], tool_format="hermes", concurrency=1) as (client,):
        first = await client.generate(ask, ())
        again = [*ask, Message("assistant", "What I said was summarised."), Message("user", "And another?")]
        second = await client.generate(again, ())
    trace = TokenTrace()
    trace.add(first)
    trace.add(second)
    one, two = trace.branches()
    assert one.token_ids == first.prompt_token_ids + first.token_ids
    assert two.token_ids == second.prompt_token_ids + second.token_ids
    assert two.mask == (0,) * len(second.prompt_token_ids) + (1,) * len(second.token_ids)


async def test_no_reply_after_a_swap_comes_from_the_weights_before(
    vllm_url: str, packaged: Path, tmp_path: Path
) -> None:
    folders = [random_adapter(packaged, tmp_path / f"v{n}" / "policy", seed=n) for n in (1, 2)]
    from hermes_lab.models.adapters import load_adapter, unload_adapter

    async with Endpoint(vllm_url) as endpoint:
        before = await load_adapter(endpoint, folders[0])
        stale = [await greedy(endpoint, before.name) for _ in range(2)]
        assert await prefix_hits(vllm_url) > 0
        after = await load_adapter(endpoint, folders[1])
        warm = [await greedy(endpoint, after.name) for _ in range(2)]
        # A salt of its own: no block of the cache is shared with any request before it.
        cold = await greedy(endpoint, after.name, cache_salt="cold")
        for adapter in (before, after):
            await unload_adapter(endpoint, adapter.name)
    assert warm == [cold, cold]
    assert cold not in stale


async def greedy(endpoint: Endpoint, model: str, **more: str) -> list[int]:
    messages = [{"role": "system", "content": "You are brief. " * 40}, {"role": "user", "content": "Name a colour."}]
    body = {"model": model, "messages": messages, "temperature": 0.0, "max_tokens": 24, "return_token_ids": True}
    content, _ = await endpoint.post("/chat/completions", body | more)
    ids: list[int] = json.loads(content)["choices"][0]["token_ids"]
    return ids


async def prefix_hits(url: str) -> float:
    async with Endpoint(url.removesuffix("/v1")) as endpoint:
        content, _ = await endpoint.get("/metrics")
    lines = [line for line in content.decode().splitlines() if line.startswith("vllm:prefix_cache_hits_total")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)
