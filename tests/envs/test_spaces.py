"""Structured actions are turns in the text format; texts cross process borders as they are."""

import ctypes
import json
import multiprocessing
from copy import deepcopy

import gymnasium
import pytest
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.envs.gym import HermesLabEnv
from hermes_lab.envs.spaces import TurnSpace, action_space, turn_text
from hermes_lab.models.hermes_format import parse_reply

plain = st.text(st.characters(exclude_characters="<>", exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(st.none() | st.booleans() | st.integers(-99, 99) | plain, lambda v: st.lists(v, max_size=3))


@given(st.sampled_from(["terminal", "read_file"]), st.dictionaries(plain, json_values, max_size=3), plain)
def test_a_structured_call_is_read_as_that_call(tool: str, arguments: dict[str, object], content: str) -> None:

    reply = parse_reply(turn_text({"tool": tool, "arguments": json.dumps(arguments), "content": content}))
    (call,) = reply.calls
    assert (call.name, call.arguments, call.error) == (tool, arguments, "")
    assert reply.content.strip() == content.strip()


@given(plain)
def test_an_action_without_a_tool_is_an_answer(content: str) -> None:
    assert turn_text({"tool": "", "arguments": '{"command": "ls"}', "content": content}) == content


@pytest.mark.parametrize("arguments", ["{", "[]", "3", "[" * 100_000])
def test_arguments_that_are_no_object_come_back_as_an_error_of_the_tool(arguments: str) -> None:
    env = HermesLabEnv("ledger", actions="structured")
    env.reset(seed=0)
    observation, *_ = env.step({"tool": "terminal", "arguments": arguments, "content": ""})
    env.close()
    assert "error" in observation["conversation"][-400:]


def test_samples_are_answers_and_calls_of_the_environments_tools() -> None:
    space = HermesLabEnv("ledger", actions="structured").action_space
    space.seed(0)
    drawn = [space.sample() for _ in range(200)]
    assert all(space.contains(action) for action in drawn)
    assert {action["tool"] for action in drawn} > {"", "terminal", "read_file", "skill_view"}
    space.seed(0)
    assert drawn == [space.sample() for _ in range(200)]


def test_a_text_action_is_a_short_answer() -> None:
    space = action_space("text", ["terminal"])
    space.seed(1)
    assert not parse_reply(space.sample()).calls


@given(st.lists(st.text(st.characters(), max_size=40), min_size=3, max_size=3), st.text(max_size=40))
def test_texts_in_shared_memory_are_as_they_were_written_last(texts: list[str], later: str) -> None:
    space = TurnSpace(max_length=40)
    memory = create_shared_memory(space, n=3, ctx=multiprocessing)  # type: ignore[arg-type]
    assert ctypes.sizeof(memory.get_obj()) == 3 * 41 * 4
    view = read_from_shared_memory(space, memory, n=3)
    for index, text in enumerate(texts):
        write_to_shared_memory(space, index, text, memory)
    kept = deepcopy(view)
    assert (kept, view[:2], len(view)) == (tuple(texts), tuple(texts[:2]), 3)
    write_to_shared_memory(space, 1, later, memory)
    assert tuple(view) == (texts[0], later, texts[2])
    assert kept == tuple(texts)


def test_the_spaces_of_all_suites_are_gymnasiums_own() -> None:
    env = HermesLabEnv("ledger")
    assert isinstance(env.observation_space, gymnasium.spaces.Dict)
    assert isinstance(env.action_space, gymnasium.spaces.Text)
