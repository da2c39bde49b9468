"""The Hermes text format: tools, calls and results as text in the conversation.

The texts are byte for byte those of the Qwen2.5 chat template. With such a model the prompt is the same whether the
server renders the tools (`native`) or Hermes Lab does (`hermes`).
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hermes_lab.models.parsers import Reply
from hermes_lab.models.parsers._values import parse_arguments
from hermes_lab.models.parsers.hermes import read
from hermes_lab.types import ToolCall, ToolResult

__all__ = ["Reply", "parse_arguments", "parse_reply", "render_calls", "render_results", "render_tools"]

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"

_PREAMBLE = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{signatures}
</tools>

For each function call, return a json object with function name and arguments \
within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""


def render_tools(schemas: Sequence[Mapping[str, Any]]) -> str:
    """The preamble that declares OpenAI function schemas. It ends the system prompt, after a blank line."""
    return _PREAMBLE.format(signatures="\n".join(_dumps(schema) for schema in schemas))


def render_calls(content: str, calls: Sequence[ToolCall]) -> str:
    """An assistant turn: its text, then one block per call. An unparsed call is repeated as written."""
    return "\n".join([*([content] if content else []), *(f"{_OPEN}\n{_call(call)}\n{_CLOSE}" for call in calls)])


def render_results(results: Sequence[ToolResult]) -> str:
    """The user turn with the results of an assistant turn's calls, in order and verbatim."""
    return "\n".join(f"<tool_response>\n{result.content}\n</tool_response>" for result in results)


def parse_reply(text: str, tools: Collection[str] | None = None) -> Reply:
    """Parses a sampled reply; never fails.

    `tools` are the names of the offered tools, if known: JSON outside of tags counts as a call only if it names one. A
    block without a valid call becomes a `ToolCall` with `error` and `raw`; other blocks are unaffected. The closing tag
    may be missing at the end of the text. Ids are `call_0`, `call_1`, ... in order.
    """
    return read(text, tools)


def _call(call: ToolCall) -> str:
    if call.error:
        return call.raw
    return f'{{"name": "{call.name}", "arguments": {_dumps(call.arguments)}}}'


def _dumps(value: object) -> str:
    """JSON as formatted by the `tojson` of a chat template."""
    return json.dumps(value, ensure_ascii=False)
