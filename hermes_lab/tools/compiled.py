"""Compiled skills as tools of their own: the schema is read from the function, the call runs in the sandbox."""

import json
import logging
import secrets
from collections.abc import Mapping
from functools import cache
from inspect import Parameter
from typing import Any
from weakref import WeakKeyDictionary

from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.compiled.install import install_skill, runner
from hermes_lab.skills.compiled.signature import read_function
from hermes_lab.skills.library import Library
from hermes_lab.tools.registry import Tool, ToolContext, known_tools
from hermes_lab.types import Skill

TOOLSET = "compiled"
_CONTEXT = Parameter("_ctx", Parameter.POSITIONAL_ONLY)
_END = 2000  # characters of the output of a call that ended without an answer
_HEADER = 200
_log = logging.getLogger(__name__)
_of_libraries: WeakKeyDictionary[Library, Mapping[str, Tool]] = WeakKeyDictionary()


def compiled_tools(library: Library) -> Mapping[str, Tool]:
    """The tools that a library's compiled skills are, by name. One whose script is no such function any more is left
    out, and so is one with the name of a tool that was there before it."""
    if (found := _of_libraries.get(library)) is None:
        found = {}
        for skill in library.skills.values():
            name = skill_format.compiled(skill)
            if name and name not in known_tools() and skill_format.listed(skill):
                try:
                    found[name] = _tool(skill.name, name, skill.files.get(f"scripts/{name}.py", b"").decode())
                except (ToolError, UnicodeDecodeError) as error:
                    _log.warning("skill %s is no tool: %s", skill.name, error)
        _of_libraries[library] = found
    return found


@cache
def _tool(skill: str, name: str, source: str) -> Tool:
    function = read_function(source, name)

    async def call(ctx: ToolContext, /, **arguments: Any) -> dict[str, Any]:
        return await _call(ctx, skill, name, arguments)

    call.__name__ = name
    call.__doc__ = function.doc.replace("{", "(").replace("}", ")")  # in a tool's text, braces name other tools
    call.__signature__ = function.signature.replace(  # type: ignore[attr-defined]
        parameters=[_CONTEXT, *function.signature.parameters.values()]
    )
    tool = Tool(name, TOOLSET, call)
    try:
        tool.beside(())
    except (TypeError, ValueError, NameError) as error:
        raise ToolError(f"code: no tool can be made of {name}: {error}") from None
    return tool


async def _call(ctx: ToolContext, name: str, function: str, arguments: dict[str, Any]) -> dict[str, Any]:
    skill = _current(ctx, name)
    folder = await install_skill(skill, ctx.sandbox)
    order = {
        "name": function,
        "script": f"{folder}/scripts/{function}.py",
        "arguments": arguments,
        "limit": max(ctx.config.output_chars - _HEADER, _HEADER),
    }
    place = f".hermes/{secrets.token_hex(8)}.json"
    await ctx.sandbox.provide(place, json.dumps(order).encode())
    command = await runner(ctx.sandbox, "call", f"{ctx.sandbox.seen_skills}/{place}")
    result = await ctx.sandbox.exec(command, timeout=ctx.config.timeout, workdir=ctx.sandbox.seen_workspace)
    try:
        answer: dict[str, Any] = json.loads(result.output.partition("\n")[0])
    except ValueError:
        why = f"was killed after {ctx.config.timeout:g} seconds" if result.timed_out else "ended without a result"
        said = {"output": result.output[-_END:]} if result.output else {}
        return {"error": f"{function} {why}, exit code {result.exit_code}", **said}
    return answer


def _current(ctx: ToolContext, name: str) -> Skill:
    """The skill as it is now, of which the call is a use: it may have been changed since the session began."""
    skill = ctx.skills.library.skills.get(name) if ctx.skills else None
    if ctx.skills is None or skill is None or not skill_format.listed(skill):
        raise ToolError(f"the skill {name!r} is gone")
    ctx.skills.loaded.append(name)
    return skill
