"""The system prompt: one text for all episodes with the same tools; what varies stands last."""

import re
from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Any

import pytest

from hermes_lab.agent.prompt import Profile, system_prompt
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.sandbox import open_sandbox
from hermes_lab.skills import format as skill_format
from hermes_lab.tools.registry import ToolContext, known_tools
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types.trajectory import ToolFormat

SKILL = skill_format.parse(skill_format.render("fleet-totals", "How fleet totals are made", "Use --skip."))


def schemas(*toolsets: str, profile: Profile = "compact"):
    """Those of `compact` leave no tool out."""
    context = ToolContext(open_sandbox(SandboxConfig()), None, SandboxConfig())
    return Toolbox(toolsets, context, profile=profile).schemas


@pytest.mark.parametrize("profile", ["full", "compact"])
@pytest.mark.parametrize("tool_format", ["native", "hermes"])
def test_only_the_skills_index_at_the_end_varies(profile: Profile, tool_format: ToolFormat) -> None:
    tools = schemas("terminal", "file", "skills")
    bare = system_prompt(tools, tool_format, profile=profile)
    with_skill = system_prompt(tools, tool_format, skills=[SKILL], profile=profile)
    end = bare[bare.rindex("\n\nWrite each call as\n") :] if (tool_format, profile) == ("hermes", "full") else ""
    index = '\n\n<skills>\n- "fleet-totals": How fleet totals are made\n</skills>'
    assert with_skill == bare.removesuffix(end) + index + end
    assert system_prompt(tools, tool_format, profile=profile) == bare


def test_the_full_prompt_in_the_text_format_ends_with_how_a_call_is_written() -> None:
    said = system_prompt(schemas("terminal", "file", profile="full"), "hermes", skills=[SKILL])
    assert said.endswith(
        'Write each call as\n<tool_call>\n{"name": "terminal", "arguments": {...}}\n</tool_call>\n'
        "The name must be one of: terminal, patch, read_file, search_files, write_file."
    )
    assert "Write each call" not in system_prompt((), "hermes")


def test_the_compact_prompt_is_byte_for_byte_what_adapters_are_trained_on() -> None:
    toolsets = ("terminal", "read_file", "write_file", "web", "skill_view", "skill_manage")
    assert system_prompt(schemas(*toolsets), "native", profile="compact") == (
        "You are Hermes, an agent that works with tools. Your working directory is /app/data.\n"
        "If a listed skill fits the task, load it with skill_view first and follow it. When the work is done, answer "
        "in one sentence to submit it."
    )


def test_the_compact_prompt_names_skill_view_only_if_it_is_a_tool() -> None:
    assert system_prompt(schemas("terminal", "skills_list"), "native", profile="compact") == (
        "You are Hermes, an agent that works with tools. Your working directory is /app/data.\n"
        "When the work is done, answer in one sentence to submit it."
    )


def test_guidance_names_only_tools_that_are_enabled() -> None:
    toolsets = sorted({tool.toolset for tool in known_tools().values()})
    some = chain.from_iterable(combinations(toolsets, size) for size in (1, 2, len(toolsets) - 1))
    for chosen in some:
        tools = schemas(*chosen)
        enabled = {schema["function"]["name"] for schema in tools}
        text = system_prompt(tools, "native")
        for name in set(known_tools()) - enabled:
            if "_" in name:  # the others are English words as well
                assert not re.search(rf"\b{name}\b", text), (chosen, name)


def test_a_tool_that_can_only_refuse_has_no_guidance() -> None:
    text = system_prompt(schemas("core", "web", profile="full"), "native")
    for name in ("clarify", "skill_view", "skill_manage", "skill_compile", "with memory", "session_search"):
        assert name in system_prompt(schemas("core", "web"), "native")
        assert name not in text
    assert "Use terminal for commands" in text


def test_a_prompt_for_the_host_itself_names_no_folder() -> None:
    assert "/app/data" not in system_prompt(schemas("terminal"), "native", isolated=False)


def test_what_an_index_leaves_out_is_said_and_background_stands_before_it() -> None:
    text = system_prompt(
        schemas("skills"), "native", skills=[SKILL], more_skills=7, background=["# Notes\nTea is at five.", ""]
    )
    index = '<skills>\n- "fleet-totals": How fleet totals are made\n(and 7 more: skills_list)\n</skills>'
    assert text.endswith(f"\n\n# Notes\nTea is at five.\n\n{index}")


@pytest.mark.parametrize("tool_format", ["native", "hermes"])
@pytest.mark.parametrize("profile", ["full", "compact"])
def test_skills_are_listed_only_if_a_tool_loads_them(tool_format: ToolFormat, profile: Profile) -> None:
    def prompt(tools: Sequence[Mapping[str, Any]]) -> str:
        return system_prompt(tools, tool_format, skills=[SKILL], more_skills=7, profile=profile)

    without = prompt(schemas("terminal"))
    assert "<skills>" not in without
    assert SKILL.name not in without
    assert "skills_list" not in without
    viewing = prompt([tool for tool in schemas("skills") if tool["function"]["name"] == "skill_view"])
    assert f'"{SKILL.name}"' in viewing
    assert "skills_list" not in viewing
