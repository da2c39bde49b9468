"""What the tests of the native formats share: Anthropic Messages and OpenAI Responses."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes.api_server import KEY
from fakes.episodes import record
from fakes.mutate import JUNK
from fakes.small_episode import SCHEMA, play

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ModelError
from hermes_lab.models.build import open_models
from hermes_lab.models.finish import ENDINGS
from hermes_lab.models.replay import ReplayModel
from hermes_lab.models.wires.native import NativeWire
from hermes_lab.protocols import ModelClient
from hermes_lab.types import Generation, Message, Trajectory

GOLDEN = Path(__file__).parents[2] / "golden" / "wires"
ADD = {"type": "function", "function": {"name": "add", "description": "Adds to the sum.", "parameters": SCHEMA}}
SYSTEM, ASK = Message("system", "You add."), Message("user", "Add 1.")
PLAIN = {"temperature": None, "top_p": None, "max_tokens": 100}
WORDS = (*(word for words in ENDINGS.values() for word in words), "null", *JUNK)
"""What a server may give as the reason why a reply ended."""


@asynccontextmanager
async def open_native(
    provider: str, name: str, base_url: str, *, tool_format: str = "native", **fields: Any
) -> AsyncIterator[ModelClient]:
    """A client of the server at `base_url`, with a key."""
    where = {"provider": provider, "base_url": base_url, "name": name, "api_key_env": "NATIVE_KEY"}
    config = ModelConfig.model_validate({**where, "max_retries": 1, "sampling": PLAIN, **fields})
    options = {"tool_format": tool_format, "log": Path(os.devnull), "concurrency": 4, "say": print}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NATIVE_KEY", KEY)
        async with open_models(config, [""], **options) as (model,):
            yield model


def check_played(then: Trajectory) -> None:
    """The episode of a script that calls twice at once, answers, fails once, and answers."""
    assert then.final_response == "The sum is 7."
    assert [r.ok for m in then.messages for r in m.results] == [True, True, False, True]
    assert [step.finish_reason for step in then.steps] == ["tool_calls", "tool_calls", "stop", "tool_calls", "stop"]
    assert then.usage.cached_tokens == 50


async def check_replay(then: Trajectory) -> None:
    """The record of an episode replays to the same messages."""
    now = await play(ReplayModel([record(trajectory=then)], explains=True))
    assert now.messages == then.messages
    assert (now.final_response, now.usage) == (then.final_response, then.usage)


async def check_text_format(model: ModelClient) -> None:
    """An episode whose call is text in the reply."""
    then = await play(model, tool_format="hermes", prompts=["Add 1."])
    assert then.final_response == "The sum is 1."
    assert then.messages[2].reasoning == "Hm."


def check_golden(path: Path, make: Callable[[ModelConfig, str], NativeWire]) -> None:
    """Recorded turns give the recorded requests, and their replies are read as then."""
    golden = msgspec.json.decode(path.read_bytes())
    config = ModelConfig.model_validate(golden["config"])
    native = make(config, config.name)
    conversation: list[Message] = []
    for turn in golden["turns"]:
        conversation += msgspec.convert(turn["said"], list[Message])
        assert native.body(conversation, golden["tools"]) == turn["request"]
        got = native.read(turn["reply"], conversation, golden["tools"])
        assert got == msgspec.convert(turn["generation"], Generation)
        conversation.append(got.message)


def read_anything(native: NativeWire, received: object) -> Generation | None:
    """What is read, if anything; it can be recorded and sent back."""
    try:
        got = native.read(received, (SYSTEM, ASK), [ADD])
    except ModelError:
        return None
    msgspec.json.encode(got)
    native.body([ASK, got.message, ASK], [ADD])
    return got


def is_sound(word: object) -> bool:
    """Whether this word ends a complete reply."""
    return isinstance(word, str) and word.strip().lower() in ENDINGS["stop"] | ENDINGS["tool_calls"]


def put(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    """A change of the field at `path`: `...` removes it, and an index after the last one appends."""

    def change(body: dict[str, Any]) -> None:
        *holders, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        at: Any = body
        for key in holders:
            at = at[key]
        if value is ...:
            del at[last]
        elif isinstance(at, list) and last == len(at):
            at.append(value)
        else:
            at[last] = value

    return change
