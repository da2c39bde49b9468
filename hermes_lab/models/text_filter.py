"""Separates a reply's text into answer, reasoning and calls while it arrives.

It sees only the beginning of the text, and so may be wrong: `reasoning.split_reasoning` and the parsers decide once the
reply is complete.
"""

import re

from hermes_lab.models.listener import Listener
from hermes_lab.models.reasoning import CLOSING, END_TOKENS, OPENING, without_end_tokens
from hermes_lab.protocols import Delta

HERMES_CALL = re.compile("<tool_call>")
"""The opening of a call in the Hermes text format."""
ANY_CALL = re.compile(
    r"<tool_call>|\[TOOL_CALLS\]|<\|python_tag\|>|<function=|<｜tool▁calls?▁begin｜>|<\|tool_calls?_section_begin\|>"
    r"|<longcat_tool_call>|<\|tool_call_begin\|>|\A\s*\{"
)
"""The openings of calls that `model.tool_parser` reads."""
_END_OF_CALL = "</tool_call>"
_TAG = re.compile(f"(?P<opening>{OPENING.pattern})|{CLOSING.pattern}", OPENING.flags | CLOSING.flags)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_UNDECIDED = re.compile(
    rf"(?:\s++|<\|(?:start|end|channel)\|?>[^<\n]{{0,30}}+|{END_TOKENS}|[<\[◁][^<>\[\]◁▷\n]{{0,40}}+)++\Z"
)
"""Matches an end that may be the beginning of a tag, or that is dropped if nothing follows."""
_LONGEST_UNDECIDED = 120


class TextFilter:
    """Tells a `listener` the answer and the reasoning in a text that comes in pieces, and leaves out the calls.

    `calls` matches the opening of a call, if calls are written in the text. Text that turns out to be reasoning, as the
    prompt had opened it, is told again as that after a restart.
    """

    def __init__(self, listener: Listener, calls: re.Pattern[str] | None) -> None:
        self._listener = listener
        self._calls = calls
        self._text = ""
        self._at = 0  # everything before was sent, or left out
        self._inside = ""  # a "thought", a "call" that ends, or the "rest", which is left out

    def add(self, piece: str) -> None:
        """Adds a piece of the text, cut anywhere."""
        self._text += piece
        while self._passes_tag():
            pass
        start = max(self._at, len(self._text) - _LONGEST_UNDECIDED)
        undecided = _UNDECIDED.search(self._text, start)
        self._tell(undecided.start() if undecided else len(self._text))

    def end(self) -> None:
        """Tells what was held back at the end of the text."""
        self._text = self._text[: self._at] + without_end_tokens(self._text[self._at :])
        self._tell(len(self._text))

    def _passes_tag(self) -> bool:
        """Tells what precedes the next tag, and passes it. Returns False if there is none yet."""
        if self._inside == "rest":
            return False
        if self._inside == "call":
            end = self._text.find(_END_OF_CALL, self._at)
            # Of a call without an end, only what may be the beginning of its end is looked at again.
            self._at = end if end >= 0 else max(self._at, len(self._text) - len(_END_OF_CALL))
            return end >= 0 and self._pass(end + len(_END_OF_CALL), "")
        if self._inside == "thought":
            closing = CLOSING.search(self._text, self._at)
            return closing is not None and self._pass_told(closing, "")
        tag = self._next_tag()
        call = self._calls.search(self._text, self._at) if self._calls else None
        if call and (tag is None or call.start() < tag.start()):
            return self._pass_told(call, "call" if call.group() == "<tool_call>" else "rest")
        if tag is None:
            return False
        if tag["opening"]:
            return self._pass_told(tag, "thought")
        self._listener.take_for_reasoning(self._text[self._at : tag.start()])  # the prompt opened it
        return self._pass(tag.end(), "")

    def _next_tag(self) -> re.Match[str] | None:
        """The next reasoning tag that is not quoted as code."""
        for tag in _TAG.finditer(self._text, self._at):
            is_sentence = not tag["opening"] and tag.group().endswith(":")  # Granite's closing tag
            if not is_sentence and not self._is_quoted(tag.start()):
                return tag
        return None

    def _is_quoted(self, at: int) -> bool:
        line = self._text[self._text.rfind("\n", 0, at) + 1 : at]
        in_span = len(re.findall("`+", line)) % 2 == 1
        return in_span or len(_FENCE.findall(self._text, 0, at)) % 2 == 1

    def _pass_told(self, tag: re.Match[str], inside: str) -> bool:
        self._tell(tag.start())
        return self._pass(tag.end(), inside)

    def _pass(self, at: int, inside: str) -> bool:
        self._at, self._inside = at, inside
        return True

    def _tell(self, until: int) -> None:
        if self._inside in ("", "thought") and until > self._at:
            self._listener.tell(Delta("reasoning" if self._inside else "text", self._text[self._at : until]))
            self._at = until
