"""Support for scripted policies: parses the conversation so far, and replays a script to get the next turn."""

import json
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hermes_lab.agent.review import REVIEW_REQUEST
from hermes_lab.errors import ModelError
from hermes_lab.tasks.family import Action
from hermes_lab.tasks.worlds import Site
from hermes_lab.text.suggest import did_you_mean
from hermes_lab.tools.registry import known_tools
from hermes_lab.types import Message, ToolCall, ToolResult

Script = Generator[Action, ToolResult, str]
"""A generator that yields tool calls, receives the result of each, and returns the final answer."""

_INDEX = re.compile(r"<skills>\n(?P<lines>.*)\n</skills>(?:\s*|\n\nWrite each call as\n.*)\Z", re.DOTALL)
_ENTRY = re.compile(r'- "(?P<name>[^"\n]+)": (?P<description>.*)')


class Exchange(NamedTuple):
    """A user request and the tool results since then."""

    request: str
    results: tuple[ToolResult, ...]


@dataclass(frozen=True)
class Conversation:
    """A parsed conversation. The first exchange is the task; later ones are feedback or a review."""

    skills: Mapping[str, str]
    """Skill descriptions by name, from the index at the end of the system prompt."""
    exchanges: tuple[Exchange, ...]

    @classmethod
    def read(cls, messages: Sequence[Message]) -> "Conversation":
        """Parses messages. A request is a user turn without tool results."""
        skills: dict[str, str] = {}
        exchanges: list[tuple[str, list[ToolResult]]] = []
        for message in messages:
            if message.role == "system":
                index = _INDEX.search(message.content)
                skills = {m["name"]: m["description"] for m in _ENTRY.finditer(index["lines"])} if index else {}
            elif message.role == "user" and not message.results:
                exchanges.append((message.content, []))
            if message.results and exchanges:
                exchanges[-1][1].extend(message.results)
        return cls(skills, tuple(Exchange(request, tuple(results)) for request, results in exchanges))

    @property
    def in_review(self) -> bool:
        """Whether the last request is for a review."""
        return REVIEW_REQUEST in self.exchanges[-1].request

    @property
    def feedback(self) -> tuple[str, ...]:
        """The feedback on each rejected submission."""
        return tuple(each.request for each in self.exchanges[1:] if REVIEW_REQUEST not in each.request)

    def skill_about(self, site: Site) -> str:
        """The name of the listed skill about a site, or ""."""
        if site.skill_name in self.skills:
            return site.skill_name
        called = site.called.lower()
        for name, description in self.skills.items():
            if called in description.lower() or name.split("-")[0] == site.entity.name:
                return name
        return ""

    def viewed(self, name: str) -> str:
        """The text of a skill that was read with `skill_view`, or ""."""
        for exchange in self.exchanges:
            for result in exchange.results:
                if result.name == "skill_view" and (found := _viewed(result)) and found[0] == name:
                    return found[1]
        return ""


def _viewed(result: ToolResult) -> tuple[str, str] | None:
    """The name and the text of a skill in a `skill_view` result; None if there is none."""
    try:
        content = json.loads(result.content)
        return content["name"], content["content"]
    except (ValueError, KeyError, TypeError):
        return None


def text_of(result: ToolResult) -> str:
    """The skill's text in a `skill_view` result, or ""."""
    found = _viewed(result)
    return found[1] if found else ""


def go_on(script: Script, results: Sequence[ToolResult]) -> Message:
    """The next turn of a script, given the results so far. Replays the script from the start, since policies are
    stateless. Raises `ModelError` if a tool is not available, rather than continue and record the failed call."""
    for result in results:
        if not result.executed and "unknown tool" in result.content:
            raise ModelError(_unknown(result.name))
    try:
        action = next(script)
        for result in results:
            action = script.send(result)
    except StopIteration as end:
        return Message(role="assistant", content=end.value)
    call = ToolCall(id=f"call_{len(results) + 1}", name=action.tool, arguments=dict(action.arguments))
    return Message(role="assistant", content=action.thought, tool_calls=(call,))


def _unknown(tool: str) -> str:
    """Why a tool that a script calls is not offered, and what to do."""
    known = known_tools()
    if tool in known:
        return f"this family needs `{tool}`: add `{known[tool].toolset}` to agent.toolsets"
    near = did_you_mean(tool, known, f"the lab has: {', '.join(known)}")
    return f"no tool `{tool}`, which the script calls{near}"
