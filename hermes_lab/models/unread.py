"""Detects tool calls in a reply's text that nothing parses: the sign of a wrong tool format."""

import re
from collections.abc import Collection

from hermes_lab.models import parsers
from hermes_lab.models.parsers._fences import quoted_calls

_FAMILIES = (
    *("hermes", "mistral", "llama", "qwen3_coder", "deepseek_v3", "deepseek_v3_1", "kimi_k2", "longcat", "glm45"),
    "glm47",
)
"""The parsers to try, in order; one per format."""
_MARKS = re.compile(
    r"<tool_call>|\[TOOL_CALLS\]|<\|python_tag\|>|<function=|<｜tool▁calls?▁begin｜>|<\|tool_calls?_section_begin\|>"
    r"|<longcat_tool_call>|<\|tool_call_begin\|>|\"(?:name|type|function)\"\s*:"
)
_HARMONY = re.compile(r"<\|channel\|>\s*commentary\s+to=functions\.(?P<name>\w+)")
_TAGGED = re.compile(
    r"(?:<(?:function_call|tool_use|tool|action)\b[^<>]*>|\[TOOL_REQUEST\]|<(?:｜DSML｜)?invoke\b).{0,40}?"
    r"\"?name\"?\s*[:=]\s*\"(?P<name>\w+)",
    re.DOTALL,
)
_OPENS = re.compile(
    r"(?:\A|\n)[ \t]*(?:<tool_call>|\[TOOL_CALLS\]|<\|python_tag\|>|<｜tool▁calls?▁begin｜>"
    r"|<\|tool_calls?_section_begin\|>|<longcat_tool_call>|<\|tool_call_begin\|>)"
)
"""A call begins on a line of its own: in a sentence it may only be mentioned."""
_BARE = re.compile(r"<function=(?P<name>\w+)>")


def family_of(text: str, tools: Collection[str] = ()) -> str:
    """The name of the parser (`model.tool_parser`) for a tool call in the text.

    `other` if the call's format has no parser, "" if there is no call. With `tools`, a call inside other text counts
    only if it names one of these; a text that is only a call counts whatever it names, since it is not an answer. A
    malformed call counts if the text ends with it.
    """
    if (call := _HARMONY.search(text) or _TAGGED.search(text)) and (not tools or call["name"] in tools):
        return "other"
    if not _MARKS.search(text):
        return ""
    for family in _FAMILIES:
        content, _, calls = parsers.get(family)(text)
        sound = [call for call in calls if not call.error]
        if sound and (not tools or not content or any(call.name in tools for call in sound)):
            return family
    if tools and any(call.name in tools for call in quoted_calls(text).calls):  # followed by more text
        return "other"
    if (call := _BARE.search(text)) and (not tools or call["name"] in tools):
        return "other"
    return _malformed(text)


def _malformed(text: str) -> str:
    """The name of the parser for a malformed call at the end of the text; "" if there is none."""
    if begin := _OPENS.search(text):
        for family in _FAMILIES:
            content, _, calls = parsers.get(family)(text)
            if calls and content.strip() == text[: begin.start()].strip():
                return family
    return ""
