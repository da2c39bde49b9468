"""What is shown of a text while it arrives: the answer and the reasoning, without calls and tags."""

import re
from random import Random

import pytest

from hermes_lab.models.hermes_format import parse_reply
from hermes_lab.models.listener import Listener
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.models.text_filter import ANY_CALL, HERMES_CALL, TextFilter
from hermes_lab.protocols import Delta

CALL = '<tool_call>\n{"name": "add", "arguments": {"by": 1}}\n</tool_call>'


def told(pieces: list[str], calls: re.Pattern[str] | None = HERMES_CALL) -> list[Delta]:
    """What is told of the pieces, each with the next of the same kind."""
    deltas: list[Delta] = []
    shown = TextFilter(Listener(deltas.append), calls)
    for piece in pieces:
        shown.add(piece)
    shown.end()
    joined: list[Delta] = []
    for delta in deltas:
        if joined and joined[-1].kind == delta.kind:
            joined[-1] = Delta(delta.kind, joined[-1].text + delta.text)
        else:
            joined.append(delta)
    return joined


def cuts(text: str) -> list[list[str]]:
    """The text whole, by character, and cut once at each place."""
    return [[text], list(text), *([text[:at], text[at:]] for at in range(1, len(text)))]


TEXTS = [
    ("The sum is 4.", [Delta("text", "The sum is 4.")]),
    ("<think>\nHm.\n</think>\n\n4 < 5 and [5] > 4", [Delta("reasoning", "Hm."), Delta("text", "4 < 5 and [5] > 4")]),
    (f"Look.\n{CALL}\n", [Delta("text", "Look.")]),
    (f"<think>Add?</think>{CALL}\n{CALL}", [Delta("reasoning", "Add?")]),
    (f"Look.\n{CALL}\nDone.", [Delta("text", "Look.\n\nDone.")]),
    ('<tool_call>\n{"name": "add", "argum', []),
    ("<think>Never <b>done", [Delta("reasoning", "Never <b>done")]),
    ("4<|im_end|>\n", [Delta("text", "4")]),
    ("Write `<think>` before it.", [Delta("text", "Write `<think>` before it.")]),
    ("```\n<think>\n```\nso", [Delta("text", "```\n<think>\n```\nso")]),
    ("[THINK]a[/THINK]b", [Delta("reasoning", "a"), Delta("text", "b")]),
    ("<|channel>thought\na<channel|>b", [Delta("reasoning", "a"), Delta("text", "b")]),
    (
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
        [Delta("reasoning", "a"), Delta("text", "b")],
    ),
    ("a <thin", [Delta("text", "a <thin")]),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_tags_and_calls_are_recognised_wherever_the_text_is_cut(text: str, expected: list[Delta]) -> None:
    for pieces in cuts(text):
        assert told(pieces) == expected, pieces


def test_text_before_a_closing_tag_alone_is_told_again_as_reasoning() -> None:
    restarted = [Delta("text", "Hm, 2 and 2."), Delta("restart"), Delta("reasoning", "Hm, 2 and 2.")]
    assert told(["Hm, 2 ", "and 2.", "</think>", "4"]) == [*restarted, Delta("text", "4")]
    assert told(["Hm.</think>4"]) == [Delta("reasoning", "Hm."), Delta("text", "4")], "nothing is to be taken back"


@pytest.mark.parametrize("text", ["<|python_tag|>{}", "[TOOL_CALLS][{}]", '{"name": "add"}', "<function=add>"])
def test_calls_of_other_formats_are_hidden_only_where_a_parser_reads_them(text: str) -> None:
    for pieces in cuts(text):
        assert told(pieces, ANY_CALL) == []
        assert told(pieces, None) == [Delta("text", text)]


def test_the_answer_told_is_the_one_that_the_parsers_read() -> None:
    random = Random(1)
    parts = ["Look. ", "\n", "<think>", "</think>", CALL, "`x` ", "é漢🙂 ", "a < b ", "4.\n", "[x](y) "]
    agreed = 0
    for _ in range(2_000):
        text = "".join(random.choices(parts, k=random.randint(1, 6)))
        at = sorted(random.choices(range(len(text) + 1), k=3))
        deltas: list[Delta] = []
        listener = Listener(deltas.append)
        shown = TextFilter(listener, HERMES_CALL)
        for start, end in zip([0, *at], [*at, len(text)], strict=True):
            shown.add(text[start:end])
        shown.end()
        reply = parse_reply(text, ())
        answer = reply.content if reply.calls else split_reasoning(text).answer
        agreed += listener.text.split() == answer.split()
        listener.settle(answer, reply.reasoning)
        assert listener.text.split() == answer.split()
        last = max((n for n, delta in enumerate(deltas) if delta.kind == "restart"), default=-1)
        assert "".join(delta.text for delta in deltas[last + 1 :] if delta.kind == "text") == listener.text
    assert agreed > 1_200, "most need no correction"


def test_text_after_a_long_call_is_told() -> None:
    pieces = ["<tool_call>", *["x" * 10] * 20_000, "</tool_call>", "Done."]
    assert told(pieces) == [Delta("text", "Done.")]


def test_a_correction_tells_only_what_is_missing() -> None:
    deltas: list[Delta] = []
    listener = Listener(deltas.append)
    listener.tell(Delta("text", "\n One "))
    listener.settle("One\n\ntwo", "Hm.")
    listener.settle("One two", "Hm.")
    assert deltas == [Delta("text", "One"), Delta("reasoning", "Hm."), Delta("text", "\n\ntwo")]
    listener.settle("Other", "Hm.")
    assert deltas[-3:] == [Delta("restart"), Delta("reasoning", "Hm."), Delta("text", "Other")]
