"""The `skill_compile` tool: makes a tool from Python code written by the agent."""

from typing import Any

from hermes_lab.errors import ToolError
from hermes_lab.skills.compiled.compile import Compiler, Failed, SkillDraft, compile_skill
from hermes_lab.tools.registry import ToolContext, known_tools, tool


@tool(toolset="compile", serves=lambda ctx, _offered: ctx.skills is not None)
async def skill_compile(ctx: ToolContext, name: str, purpose: str, code: str, tests: str) -> dict[str, Any]:
    """Create a new tool if none does what the task needs: a Python function, which is tested and kept as a skill.
    A failure is returned with the output: fix the code and call again.

    Args:
        name: {compact: like_this} {full: Name of the tool: lowercase words with underscores between them.}
        purpose: When to use it.
        code: Defines the function name, with typed arguments and a docstring. Standard library only; no network; it
            may only write {compact: to /app/data.} {full: to the working directory.}
        tests: {compact: from name import name, then assert statements on what it does.} {full: Python that imports the
            function from the module of the same name, then asserts what it does.}
    """
    if ctx.skills is None:
        raise ToolError("skills are not available here")
    draft = SkillDraft(name, purpose, code, tests)
    try:
        function = await compile_skill(
            draft, ctx.state(Compiler), ctx.skills, ctx.sandbox, ctx.heal_attempts, known_tools().keys()
        )
    except Failed as failed:
        return {"error": str(failed), "output": failed.output}
    return {"registered": name, "skill": draft.skill, "call": f"{function.shown}: call it as a tool from now on"}
