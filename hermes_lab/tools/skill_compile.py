"""The `skill_compile` tool: makes a tool from Python code written by the agent."""

from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.skills.compiled.compile import Compiler, Failed, SkillDraft, compile_skill
from hermes_lab.tools.registry import ToolContext, known_tools, tool


@tool(toolset="compile", serves=lambda ctx, _offered: ctx.skills is not None)
async def skill_compile(ctx: ToolContext, name: str, purpose: str, code: str, tests: str) -> dict[str, Any]:
    """Make a new tool, where none does what the task needs: a Python function that is tested, and kept as a skill.
    What fails comes back with the output: mend it and call again.

    Args:
        name: {compact: like_this} {full: Of the tool: lowercase words with underscores between them.}
        purpose: When to use it.
        code: Defines the function name, with typed arguments and a docstring. Standard library; no network; it writes
            {compact: to /app/data alone.} {full: to the working folder alone.}
        tests: {compact: from name import name, then assert statements on what it does.} {full: Python that imports the
            function from the module of the same name, then asserts what it does.}
    """
    if ctx.skills is None:
        raise ToolError("there is no skill library here")
    draft = SkillDraft(name, purpose, code, tests)
    try:
        function = await compile_skill(
            draft, ctx.state(Compiler), ctx.skills, ctx.sandbox, ctx.heal_attempts, known_tools().keys()
        )
    except Failed as failed:
        return {"error": str(failed), "output": failed.output}
    return {"registered": name, "skill": draft.skill, "call": f"{function.shown}: call it as a tool from now on"}
