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
You are Hermes, an agent that works with tools. Your working directory is {workspace}.
{skills}When the work is done, answer in one sentence to submit it."""
COMPACT_SKILLS = "If a listed skill fits the task, load it with skill_view first and follow it. "

COMPACT_TOOLS = """\
<tools>
{signatures}
</tools>
To call a tool:
<tool_call>
{{"name": <name>, "arguments": <object>}}
</tool_call>"""

REMINDER = """\
Write each call as
<tool_call>
{{"name": "{first}", "arguments": {{...}}}}
</tool_call>
The name must be one of: {names}."""

IDENTITY = """\
You are Hermes, an agent that does real work with tools. Be direct and precise: say what you did and found, and never \
claim a result that you have not seen."""

PLACE = """\
# Environment
Your working directory is {workspace}; relative paths start there. You have your own Linux shell{isolation}. \
Background processes end with the task. {kept}"""

KEPT = "Only files in the working directory are kept."
KEPT_OF_ROOT = "You are root; changes elsewhere on the system count too."

WORK = """\
# How to work
- Look before you change anything: read the files and instructions that the task names.
- Act instead of describing what could be done. Continue until the task is done or you know that it cannot be done.
- When something fails, read the error, find the cause, and try something else. The same call gives the same error.
- Independent calls can go in one turn; their results come back in order.
- Check your result before you answer: run it, read it back, or recompute it.
- An answer without a tool call submits the work. In it, say briefly what you did and where the result is."""

GUIDANCE: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"terminal"}), "Use terminal for commands; the current directory and exported variables persist."),
    (
        frozenset({"terminal", "process"}),
        "Start servers and long jobs in the background with terminal, and monitor them with process.",
    ),
    (frozenset({"read_file"}), "Read files with read_file, long ones in parts."),
    (frozenset({"search_files"}), "Find files and text with search_files instead of opening many files."),
    (frozenset({"patch"}), "Change part of a file with patch."),
    (frozenset({"write_file"}), "Write new files with write_file."),
    (frozenset({"execute_code"}), "Use execute_code if a short Python script is easier than commands."),
    (frozenset({"todo"}), "For work with more than three steps, keep a list with todo and keep it up to date."),
    (frozenset({"clarify"}), "Ask with clarify only if the task can be read in ways that lead to different results."),
    (
        frozenset({"skill_view"}),
        "Before you start, look at the listed skills. If one fits, load it with skill_view and follow it.",
    ),
    (
        frozenset({"skill_manage"}),
        "After five or more tool calls, an error that was hard to fix, or a new way of working, use skill_manage to "
        "save what later tasks will need. Patch a skill that was wrong or incomplete.",
    ),
    (
        frozenset({"skill_compile"}),
        "If the task needs something that no tool does, write it with skill_compile; from then on it is a tool.",
    ),
    (
        frozenset({"memory"}),
        "Save with memory what will still be true in later sessions: how things work here, what the user prefers.",
    ),
    (frozenset({"session_search"}), "Find what was said in earlier sessions with session_search."),
    (
        frozenset({"delegate_task"}),
        "Give self-contained parts of large tasks to delegate_task; several calls in one turn run in parallel.",
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
    them), then what varies between sessions: the `background` (context files, notes) and the skills index. It lists
    `skills` only if a tool can load them; `more_skills` counts those that it omits. In the text format the full prompt
    ends with a reminder of how to write a call.

    `isolated` is False if commands run on the host: the working directory then differs every time, and is not named.
    `root` is that of the task.
    """
    place = root.workdir if root else str(WORKSPACE)
    workspace, kept = place if isolated else "the current directory", KEPT_OF_ROOT if root else KEPT
    if profile == "compact":
        about_skills = COMPACT_SKILLS if shows_skills(schemas) else ""
        parts = [COMPACT.format(workspace=workspace, skills=about_skills), *filter(None, [persona])]
    else:
        isolation = ", without network access" if isolated else ""
        where = PLACE.format(workspace=workspace, isolation=isolation, kept=kept)
        parts = [IDENTITY, *filter(None, [persona]), where, WORK, *_guidance(schemas)]
    if tool_format == "hermes" and profile == "compact":
        parts.append(_compact_tools(schemas))
    elif tool_format == "hermes":
        parts.append(render_tools(schemas))
    parts += filter(None, background)
    if skills and shows_skills(schemas):
        more = f"\n(and {more_skills} more: skills_list)" if more_skills and "skills_list" in _names(schemas) else ""
        parts.append(f"<skills>\n{index(skills)}{more}\n</skills>")
    if tool_format == "hermes" and profile == "full" and schemas:
        parts.append(_reminder(schemas))
    return "\n\n".join(parts)


def shows_skills(schemas: Sequence[Mapping[str, Any]]) -> bool:
    """Whether an agent with these tools can load a skill. If not, its prompt lists none."""
    return "skill_view" in _names(schemas)


def _names(schemas: Sequence[Mapping[str, Any]]) -> list[str]:
    return [schema["function"]["name"] for schema in schemas]


def _guidance(schemas: Sequence[Mapping[str, Any]]) -> list[str]:
    enabled = frozenset(_names(schemas))
    lines = [f"- {line}" for needed, line in GUIDANCE if needed <= enabled]
    return ["# Your tools\n" + "\n".join(lines)] if lines else []


def _reminder(schemas: Sequence[Mapping[str, Any]]) -> str:
    """The call format, repeated at the very end. Without it, small models not trained on the format use words of the
    task as tool names."""
    names = _names(schemas)
    return REMINDER.format(first=names[0], names=", ".join(names))


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
