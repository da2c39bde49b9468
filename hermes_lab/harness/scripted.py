"""Lets the scripted policies of the lab answer for the model of a program, as a test double of its model.

A policy speaks the lab's own tools. What it does is translated to the tools that the program offers, and the program's
conversation to the one that the policy expects.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from hermes_lab.agent.review import REVIEW_REQUEST
from hermes_lab.errors import ModelError
from hermes_lab.harness.program import Shell
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.skills import format as skill_format
from hermes_lab.types import Generation, Message, ModelIdentity, ToolCall, ToolResult

_NAME = r"(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)"
_LISTS = (
    # <name>NAME</name> <description>ABOUT</description>
    re.compile(rf"<name>\s*{_NAME}\s*</name>\s*<description>\s*(?P<about>.*?)\s*</description>", re.DOTALL),
    # name: NAME and description: ABOUT, in YAML or JSON
    re.compile(rf"""\bname["']?: *["']?{_NAME}["']?,?\s*["']?description["']?: *["']?(?P<about>[^"\n]+)"""),
    # - NAME: ABOUT, or another bullet, number or table row, with marks around the name and a path after it
    re.compile(
        rf"^\s*(?:[-*+\u2022|]|\d+[.)]) *[*_`\"]*(?!name:){_NAME}[*_`\"]* *(?:\([^)\n]*\) *)?"
        r"(?::|[-\u2013\u2014|] )[*_]* *(?P<about>.+)$",
        re.MULTILINE,
    ),
    # PATH/NAME/SKILL.md: ABOUT
    re.compile(
        rf"^(?:[^\n]*[/\s`\"'(\[])?{_NAME}/SKILL\.md[`\"')\]]*(?: *[:|\u2013\u2014-])* +(?P<about>.+)$", re.MULTILINE
    ),
)
"""How programs list skills in their prompts; docs/agents.md tells the forms."""
_VIEW = re.compile(r"cat (?P<folder>\S+)/(?P<name>[a-z0-9-]+)/SKILL\.md")
_WRITE = re.compile(r"mkdir -p (?P<folder>\S+)/(?P<name>[a-z0-9-]+) && cat >")
_SIDE = "Work on a task"
"""The answer to side requests, such as for a title."""


@dataclass(frozen=True)
class ProgramModel:
    """A `ModelClient` for a program whose model is a scripted policy.

    `prompts` are those that the harness has submitted, which distinguish the task from what the program adds; `skills`
    is the folder of skills as the program sees it.
    """

    model: ScriptedModel
    shell: Shell
    skills: str
    prompts: Sequence[str]
    is_review: Callable[[str], bool]

    @property
    def identity(self) -> ModelIdentity:
        """That of the policy."""
        return self.model.identity

    async def generate(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """The policy's next turn, in the program's tools. Raises `ModelError` if the program lacks one."""
        names = {tool["function"]["name"] for tool in tools}
        conversation = list(self._told(messages, tools))
        if len(conversation) < 2 or not names:
            return Generation(Message(role="assistant", content=_SIDE))
        reply = await self.model.generate(conversation, ())
        if not reply.message.tool_calls and self.shell.finish:
            arguments = {self.shell.argument: self.shell.finish, **self.shell.more}
            call = ToolCall(f"finish{len(messages)}", self.shell.tool, arguments)
            return msgspec.structs.replace(
                reply, message=msgspec.structs.replace(reply.message, tool_calls=(call,)), finish_reason="tool_calls"
            )
        calls = tuple(self._translated(call, names) for call in reply.message.tool_calls)
        return msgspec.structs.replace(reply, message=msgspec.structs.replace(reply.message, tool_calls=calls))

    async def aclose(self) -> None:
        """Does nothing."""

    def _told(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
        """The conversation as the lab's own loop would have it."""
        given = [message.content for message in messages if message.role in ("system", "user") and not message.results]
        offered = [str(tool["function"].get("description", "")) for tool in tools]
        index = "\n".join(f'- "{name}": {about}' for name, about in _listed([*given, *offered]).items())
        yield Message(role="system", content=f"<skills>\n{index}\n</skills>")
        began = False
        commands: list[str] = []
        for message in messages:
            if message.role == "assistant" and began:
                commands += [self._command(call) for call in message.tool_calls]
                yield message
            elif message.results and began:
                results = tuple(self._result(result, commands.pop(0) if commands else "") for result in message.results)
                yield Message(role="tool", results=results)
            elif message.role == "user":
                requests = self._requests(message.content)
                began |= bool(requests)
                yield from (Message(role="user", content=request) for request in requests)

    def _requests(self, text: str) -> list[str]:
        """The prompts of the harness in a user message. A program without sessions gets the task and the feedback in
        one."""
        if self.is_review(text):
            return [REVIEW_REQUEST]
        return list(dict.fromkeys(prompt for prompt in self.prompts if prompt.strip() in text))

    def _command(self, call: ToolCall) -> str:
        return str(call.arguments.get(self.shell.argument, "")) if call.name == self.shell.tool else ""

    def _result(self, result: ToolResult, command: str) -> ToolResult:
        """A result of the program's shell as one of the lab's tool that the policy had called."""
        if viewed := _VIEW.match(command):
            content = json.dumps({"name": viewed["name"], "content": _file(result.content)})
            return msgspec.structs.replace(result, name="skill_view", content=content)
        if _WRITE.match(command):
            return msgspec.structs.replace(result, name="skill_manage")
        return result

    def _translated(self, call: ToolCall, names: set[str]) -> ToolCall:
        if call.name in names and call.name != "skill_manage":
            return call
        if call.name == "skill_manage":
            arguments = _edited(call.arguments)
            if "skill_manage" in names:
                return msgspec.structs.replace(call, arguments=arguments)
            call = msgspec.structs.replace(call, arguments=arguments)
        if self.shell.tool not in names:
            raise ModelError(f"the program offers no tool {self.shell.tool!r}, which its scripted model needs")
        command = self._in_shell(call)
        arguments = {self.shell.argument: command, **self.shell.more}
        return msgspec.structs.replace(call, name=self.shell.tool, arguments=arguments)

    def _in_shell(self, call: ToolCall) -> str:
        given = call.arguments
        if call.name == "terminal":
            command = str(given["command"])
            return f"cd {shlex.quote(given['workdir'])} && {{ {command}\n}}" if given.get("workdir") else command
        if call.name == "skill_view":
            return f"cat {self.skills}/{given['name']}/SKILL.md"
        if call.name == "write_file":
            return _written(given["path"], given["content"])
        if call.name == "skill_manage" and given["action"] in ("create", "edit"):
            folder = f"{self.skills}/{given['name']}"
            return f"mkdir -p {folder} && {_written(f'{folder}/SKILL.md', given['content'])}"
        if call.name == "skill_manage" and given["action"] == "patch":
            script = "import sys; p, a, b = sys.argv[1:]; t = open(p).read(); open(p, 'w').write(t.replace(a, b))"
            path = f"{self.skills}/{given['name']}/SKILL.md"
            return shlex.join(["python3", "-c", script, path, given["old_string"], given["new_string"]])
        raise ModelError(f"no translation of {call.name} to the shell of a program")


def _file(output: str) -> str:
    """The file in the output of `cat`, without what the program puts before it."""
    begin = output.find("---\n")
    return output[begin:] if begin >= 0 else output


def _edited(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `skill_manage` as upstream's tool takes them: a whole SKILL.md."""
    if arguments["action"] not in ("create", "edit"):
        return dict(arguments)
    text = skill_format.render(arguments["name"], arguments["description"], arguments["content"])
    return {"action": arguments["action"], "name": arguments["name"], "content": text}


def _written(path: str, content: str) -> str:
    end = "EOF"
    while f"\n{end}\n" in f"\n{content}\n":
        end += "_"
    body = content if content.endswith("\n") else f"{content}\n"
    return f"cat > {shlex.quote(path)} <<'{end}'\n{body}{end}"


def _listed(texts: Sequence[str]) -> dict[str, str]:
    """The skills that a program lists in its prompts or tools, by name."""
    found: dict[str, str] = {}
    for text in texts:
        for pattern in _LISTS:
            for match in pattern.finditer(text):
                found.setdefault(match["name"], " ".join(match["about"].split()))
    return found
