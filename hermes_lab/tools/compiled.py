"""Compiled skills as tools: the schema comes from the function's signature, and calls run in the sandbox."""

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
_MAX_OUTPUT = 2000  # characters; the end of the output is shown if a call fails without a result
_HEADER = 200
_log = logging.getLogger(__name__)
_tools_by_library: WeakKeyDictionary[Library, Mapping[str, Tool]] = WeakKeyDictionary()


def compiled_tools(library: Library) -> Mapping[str, Tool]:
    """Returns the tools of a library's compiled skills, by name. Skills whose script is no longer a valid function, or
    whose name is taken by another tool, are left out."""
    if (found := _tools_by_library.get(library)) is None:
        found = {}
        for skill in library.skills.values():
            name = skill_format.compiled(skill)
            if name and name not in known_tools() and skill.name in library.listed:
                try:
                    found[name] = _tool(skill.name, name, skill.files.get(f"scripts/{name}.py", b"").decode())
                except (ToolError, UnicodeDecodeError) as error:
                    _log.warning("skill %s cannot be used as a tool: %s", skill.name, error)
        _tools_by_library[library] = found
    return found


@cache
def _tool(skill: str, name: str, source: str) -> Tool:
    function = read_function(source, name)

    async def call(ctx: ToolContext, /, **arguments: Any) -> dict[str, Any]:
        return await _call(ctx, skill, name, arguments)

    call.__name__ = name
    call.__doc__ = function.doc.replace("{", "(").replace("}", ")")  # braces have a meaning in tool descriptions
    call.__signature__ = function.signature.replace(  # type: ignore[attr-defined]
        parameters=[_CONTEXT, *function.signature.parameters.values()]
    )
    tool = Tool(name, TOOLSET, call)
    try:
        tool.beside(())
    except (TypeError, ValueError, NameError) as error:
        raise ToolError(f"code: {name} cannot be used as a tool: {error}") from None
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
    order_file = f".hermes/{secrets.token_hex(8)}.json"
    await ctx.sandbox.provide(order_file, json.dumps(order).encode())
    command = await runner(ctx.sandbox, "call", f"{ctx.sandbox.skills_path}/{order_file}")
    result = await ctx.sandbox.exec(command, timeout=ctx.config.timeout, workdir=ctx.sandbox.workspace_path)
    try:
        answer: dict[str, Any] = json.loads(result.output.partition("\n")[0])
    except ValueError:
        why = f"was killed after {ctx.config.timeout:g} seconds" if result.timed_out else "ended without a result"
        output = {"output": result.output[-_MAX_OUTPUT:]} if result.output else {}
        return {"error": f"{function} {why}, exit code {result.exit_code}", **output}
    return answer


def _current(ctx: ToolContext, name: str) -> Skill:
    """Returns the current version of the skill, which may have changed during the session, and counts a load."""
    skill = ctx.skills.library.skills.get(name) if ctx.skills else None
    if ctx.skills is None or skill is None or name not in ctx.skills.library.listed:
        raise ToolError(f"the skill {name!r} no longer exists")
    ctx.skills.loaded.append(name)
    return skill
