"""Answers and reasoning are told apart in one place, whatever the tags and wherever they stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.models.parsers import get, names
from hermes_lab.models.reasoning import separate_reasoning, split_reasoning

TAGS = [
    ("<think>", "</think>"),
    ("<THINK>", "</THINK>"),
    ('<think duration="3">', "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<longcat_think>", "</longcat_think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
]


@pytest.mark.parametrize(("opening", "closing"), TAGS)
def test_reasoning_in_tags_is_no_part_of_an_answer(opening: str, closing: str) -> None:
    assert split_reasoning(f"{opening}two and two{closing}\n4") == ("4", "two and two", False)
    assert split_reasoning(f"two and two{closing}\n4") == ("4", "two and two", False)
    assert split_reasoning(f"{opening}two and two") == ("", "two and two", True)


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("Sure. <think>hm</think> 4", "Sure.  4", "hm"),
        ("4 <think>or is it 5", "", "or is it 5"),
        ("<think>a</think>4<think>b</think>", "4", "a\nb"),
        ("<think>a<think>b</think>c</think>4", "4", "a<think>b\nc"),
        ("<think>\n\n</think>\n\n4", "4", ""),
        ("<think>x</think>\n<answer>\n4\n</answer>", "4", "x"),
        ("analysisTwo and two.assistantfinal4", "4", "analysisTwo and two."),
        ("Here is my thought process:\nhm\nHere is my response:\n4", "4", "hm"),
        ("<think>half a ```\nfence</think>\n```\n4\n```", "```\n4\n```", "half a ```\nfence"),
        ("half a ```\nfence</think>\n```\n4\n```\n", "```\n4\n```", "half a ```\nfence"),
        ("4<|im_end|>", "4", ""),
        ("4</s>\n<|endoftext|>", "4", ""),
    ],
)
def test_tags_may_stand_anywhere(text: str, answer: str, reasoning: str) -> None:
    assert split_reasoning(text)[:2] == (answer, reasoning)


@pytest.mark.parametrize(
    "text",
    [
        "4",
        "  4\n",
        "1 < 2 and thinking > 4",
        "Put it in `<think>` tags.",
        "```xml\n<think>x</think>\n```\nThat is how it looks.",
        "analysis of the data: all is well",
        "Dear Ann,\nHere is my response:\nno.",
        "<answer>4</answer>",
    ],
)
def test_a_text_without_reasoning_is_its_own_answer_as_it_is(text: str) -> None:
    assert split_reasoning(text) == (text, "", False)


@given(st.text(alphabet=st.sampled_from("ab`\n<>/[]")), st.lists(st.sampled_from(TAGS), max_size=3))
def test_no_text_is_both_answer_and_reasoning(text: str, tags: list[tuple[str, str]]) -> None:
    made = text + "".join(f"{opening}SECRET{closing}{text}" for opening, closing in tags)
    answer, _, _ = split_reasoning(made)
    assert "SECRET" not in answer or "`" in text  # what stands in backticks is quoted
    assert split_reasoning(made) == split_reasoning(made)


def test_a_model_in_a_loop_takes_no_quadratic_time() -> None:
    for text in ("```a\n", "<think>", "</think>", "`<think>` ", "<think></think>", "`", "<", "<|channel|>analysis"):
        split_reasoning(text * 40_000)


@pytest.mark.parametrize("family", names())
def test_every_parser_parts_reasoning_in_the_same_way(family: str) -> None:
    for text in ("<think>hm</think>4", "Well. <think>hm</think> 4", "hm</think>4", "<thinking>hm</thinking>4"):
        reply = get(family)(text)
        assert (reply.reasoning, "hm" in reply.content, reply.calls) == ("hm", False, ()), text
    assert get(family)("4 <think>hm").content == ""


def test_a_call_in_reasoning_that_comes_later_is_none() -> None:
    call = '<tool_call>{"name": "a", "arguments": {}}</tool_call>'
    assert get("hermes")(f"Well. <think>maybe {call}</think> {call} <think>or {call}</think>").calls[1:] == ()


def test_tags_in_the_arguments_of_a_call_are_its_own() -> None:
    call = '<tool_call>{"name": "w", "arguments": {"text": "<think>x</think>"}}</tool_call>'
    (read,) = get("hermes")(call).calls
    assert read.arguments == {"text": "<think>x</think>"}


def test_reasoning_is_apart_where_the_content_does_not_hold_it() -> None:
    assert separate_reasoning("4", "hm") == "hm"
    assert separate_reasoning("<think>hm</think>4", "hm") == ""
    assert separate_reasoning("<think>a</think><think>b</think>4", "a\nb") == ""
