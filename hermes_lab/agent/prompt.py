"""The system prompt, assembled once per episode. Constant parts come first and the skills index last, for prefix
caching."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from hermes_lab.models.hermes_format import render_tools
from hermes_lab.sandbox.workspace import WORKSPACE
from hermes_lab.skills.library import index
from hermes_lab.types import Root, Skill
from hermes_lab.types.trajectory import ToolFormat

Profile = Literal["full", "compact"]

COMPACT = """\
You are Hermes, an agent that does its work with tools. Your working folder is {workspace}.
If a listed skill fits the task, load it with skill_view first and follow it. When the work is done, answer in one \
sentence: that submits it."""

COMPACT_TOOLS = """\
<tools>
{signatures}
</tools>
Call a tool so:
<tool_call>
{{"name": <name>, "arguments": <object>}}
</tool_call>"""

REMINDER = """\
Write each call as
<tool_call>
{{"name": "{first}", "arguments": {{...}}}}
</tool_call>
The name is always a function's name: {names}."""

IDENTITY = """\
You are Hermes, an agent that does real work with tools. You are direct and exact: you say what you did and found, and \
you never claim a result that you have not seen."""

PLACE = """\
# Where you are
Your working folder is {workspace}; relative paths begin there. You have a Linux shell of your own{isolation}. What \
you start in the background ends with the task. {kept}"""

KEPT = "Nothing but the files of the working folder outlives it."
KEPT_OF_ROOT = "You are root, and what you change elsewhere counts too."

WORK = """\
# How to work
- Look before you change: read the files and the instructions that the task names.
- Act instead of describing what could be done. Work on until the task is done or you know that it cannot be.
- When something fails, read the error, find the cause, and try another way. The same call again gives the same error.
- Calls that do not depend on each other may stand in one turn; their results come back in order.
- Check your result before you answer: run it, read it back, recompute it.
- Your answer without a tool call submits the work. Say in it briefly what you did and where the result is."""

GUIDANCE: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"terminal"}), "Use terminal for commands; its directory and exported variables persist."),
    (
        frozenset({"terminal", "process"}),
        "Start servers and long jobs in the background with terminal, and follow them with process.",
    ),
    (frozenset({"read_file"}), "Read files with read_file, in parts where they are long."),
    (frozenset({"search_files"}), "Find files and text with search_files before you open many files."),
    (frozenset({"patch"}), "Change a part of a file with patch."),
    (frozenset({"write_file"}), "Write new files with write_file."),
    (frozenset({"execute_code"}), "Compute with execute_code what a short Python script does better than commands."),
    (frozenset({"todo"}), "For work of more than three steps keep a list with todo, and keep it true."),
    (frozenset({"clarify"}), "Ask with clarify only where the task allows readings that lead to different results."),
    (
        frozenset({"skill_view"}),
        "Before you begin, look at the listed skills. Load one that fits with skill_view, and follow it.",
    ),
    (
        frozenset({"skill_manage"}),
        "After five or more tool calls, an error that was hard to mend, or a new way of working, save with "
        "skill_manage what later tasks will need. Patch a skill that fell short.",
    ),
    (
        frozenset({"skill_compile"}),
        "Asked for an ability that no tool has, write it with skill_compile: it is a tool from then on.",
    ),
    (
        frozenset({"memory"}),
        "Keep with memory what will still be true in later sessions: how things are here, what the person prefers.",
    ),
    (frozenset({"session_search"}), "What was said in earlier sessions is found with session_search."),
    (
        frozenset({"delegate_task"}),
        "Give self-contained parts of large work to delegate_task; several calls in one turn run side by side.",
    ),
)
"""Lines of guidance, each with the tools that must all be enabled for it to be included."""


def system_prompt(
    schemas: Sequence[Mapping[str, Any]],
    tool_format: ToolFormat,
    *,
    persona: str = "",
    skills: Sequence[Skill] = (),
    more_skills: int = 0,
    background: Sequence[str] = (),
    profile: Profile = "full",
    isolated: bool = True,
    root: Root | None = None,
) -> str:
    """Assembles the system prompt.

    In order: identity, `persona` (chats only), platform, guidance, the tools (text format only; native endpoints add
    them), then what varies between sessions: the `background` (context files, notes) and the skills index.
    `more_skills` counts the skills that the index omits. In the text format the full prompt ends with a reminder of how
    to write a call.

    `isolated` is False if commands run on the host: the working folder then differs every time, and is not named.
    `root` is that of the task.
    """
    place = root.workdir if root else str(WORKSPACE)
    workspace, kept = place if isolated else "the current directory", KEPT_OF_ROOT if root else KEPT
    if profile == "compact":
        parts = [COMPACT.format(workspace=workspace), *filter(None, [persona])]
    else:
        isolation = ", without a network" if isolated else ""
        where = PLACE.format(workspace=workspace, isolation=isolation, kept=kept)
        parts = [IDENTITY, *filter(None, [persona]), where, WORK, *_guidance(schemas)]
    if tool_format == "hermes" and profile == "compact":
        parts.append(_compact_tools(schemas))
    elif tool_format == "hermes":
        parts.append(render_tools(schemas))
    parts += filter(None, background)
    if skills:
        more = f"\n(and {more_skills} more: skills_list)" if more_skills else ""
        parts.append(f"<skills>\n{index(skills)}{more}\n</skills>")
    if tool_format == "hermes" and profile == "full" and schemas:
        parts.append(_reminder(schemas))
    return "\n\n".join(parts)


def _guidance(schemas: Sequence[Mapping[str, Any]]) -> list[str]:
    enabled = {schema["function"]["name"] for schema in schemas}
    lines = [f"- {line}" for needed, line in GUIDANCE if needed <= enabled]
    return ["# Your tools\n" + "\n".join(lines)] if lines else []


def _reminder(schemas: Sequence[Mapping[str, Any]]) -> str:
    """The call format, repeated at the very end. Without it, small models not trained on the format use words of the
    task as tool names."""
    names = [schema["function"]["name"] for schema in schemas]
    return REMINDER.format(first=names[0], names=" or ".join(names))


def _compact_tools(schemas: Sequence[Mapping[str, Any]]) -> str:
    """The tools in a third of the tokens: one line each, shaped like a call, with types in place of values."""
    return COMPACT_TOOLS.format(signatures="\n".join(_signature(schema["function"]) for schema in schemas))


def _signature(function: Mapping[str, Any]) -> str:
    parameters = function["parameters"]
    required = parameters.get("required", ())
    arguments = {
        name if name in required else f"{name}?": "|".join(map(str, value["enum"])) if "enum" in value else _type(value)
        for name, value in parameters["properties"].items()
    }
    line = {"name": function["name"], "description": function["description"], "arguments": arguments}
    return json.dumps(line, ensure_ascii=False)


def _type(schema: Mapping[str, Any]) -> Any:
    """The type of an argument, with the types of an array's items or an object's fields."""
    if "items" in schema:
        return [_type(schema["items"])]
    if "properties" in schema:
        return {name: _type(value) for name, value in schema["properties"].items()}
    return schema.get("type", "any")
