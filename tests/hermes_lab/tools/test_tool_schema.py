import hashlib
import json
import re
from collections.abc import Iterator
from itertools import combinations, product
from typing import Annotated, Any, Literal, get_args

import pytest
from pydantic import BaseModel, ValidationError

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tools.registry import Tool, ToolContext, known_tools, tool
from hermes_lab.tools.schema import InCompact, Profile, When, related
from hermes_lab.tools.toolbox import Toolbox, known_toolsets

# What adapters are trained with and recorded runs hold: these bytes change only with `PROMPTS`.
GOLDEN = (
    (
        '{"type": "function", "function": {"name": "terminal", "description": "Run a bash command. Director'
        'y and exported variables persist.", "parameters": {"additionalProperties": false, "properties": {"'
        'command": {"type": "string"}, "timeout": {"type": "number", "description": "Seconds."}, "workdir":'
        ' {"type": "string"}}, "required": ["command"], "type": "object"}}}'
    ),
    (
        '{"type": "function", "function": {"name": "skill_view", "description": "Load a skill.", "parameter'
        's": {"additionalProperties": false, "properties": {"name": {"type": "string"}, "path": {"descripti'
        'on": "One of its files, such as references/x.md.", "type": "string"}}, "required": ["name"], "type'
        '": "object"}}}'
    ),
    (
        '{"type": "function", "function": {"name": "skill_manage", "description": "Save what you learned as'
        ' a skill. create: description and content. patch: old_string, new_string.", "parameters": {"additi'
        'onalProperties": false, "properties": {"action": {"enum": ["create", "edit", "patch", "delete", "w'
        'rite_file", "remove_file"], "type": "string"}, "name": {"description": "like-this", "type": "strin'
        'g"}, "description": {"description": "When to use it.", "type": "string"}, "content": {"description'
        '": "Markdown; for write_file, the file\'s content.", "type": "string"}, "old_string": {"type": "str'
        'ing"}, "new_string": {"type": "string"}, "path": {"description": "For write_file, remove_file or p'
        'atch: a file such as references/x.md.", "type": "string"}, "absorbed_into": {"description": "For d'
        'elete: the skill that has its content now.", "type": "string"}}, "required": ["action", "name"], "'
        'type": "object"}}}'
    ),
)


def schemas(*toolsets: str, profile: Profile = "compact") -> tuple[dict[str, Any], ...]:
    config = SandboxConfig()
    return Toolbox(toolsets, ToolContext(open_sandbox(config), None, config), profile=profile).schemas


def test_the_three_tools_that_adapters_are_trained_with_change_only_with_the_version_of_the_prompts() -> None:
    assert tuple(json.dumps(schema) for schema in schemas("terminal", "skill_view", "skill_manage")) == GOLDEN


PINNED = (
    *("clarify", "delegate_task", "execute_code", "memory", "patch", "process", "read_file", "rl_check_status"),
    *("rl_edit_config", "rl_get_current_config", "rl_get_results", "rl_list_environments", "rl_list_runs"),
    *("rl_select_environment", "rl_start_training", "rl_stop_training", "rl_test_inference", "search_files"),
    *("session_search", "skill_compile", "skill_manage", "skill_view", "skills_list", "terminal", "todo"),
    *("web_extract", "web_search", "write_file"),
)


def test_a_schema_of_a_compact_prompt_changes_only_with_the_version_of_the_prompts() -> None:
    known = known_tools()
    told = [known[name].beside(enabled, "compact").schema for name in PINNED for enabled in ((), PINNED)]
    text = "\n".join(map(json.dumps, told))
    assert hashlib.sha256(text.encode()).hexdigest() == (
        "5831ce7c63011150d386253fcb06af9eed30a7a1e4d50df830b45560d2d24e6d"
    )


VALUE = re.compile(r"such as|e\.g\.|for example|\blike\b|/\w|\w/|\*|[\w-]\.[a-z]\w|\w[-_]\w|\"|`", re.IGNORECASE)
"""What an example looks like: a path, a glob, a name with joints, something in quotes."""
ALLOWED = {"write_file", "remove_file", "old_string", "new_string"} | set(known_tools())
"""Names of tools, and of a tool's own arguments and actions."""


@pytest.mark.parametrize("known", known_tools().values(), ids=lambda known: known.name)
def test_a_full_prompt_holds_no_value_that_could_be_copied_as_an_argument(known: Tool) -> None:
    for text in _texts(known.beside(known_tools(), "full").schema):
        rest = re.sub(r"\w+", lambda word: "" if word[0] in ALLOWED else word[0], text)
        assert not VALUE.search(rest), text


def test_text_for_a_profile_stands_in_that_profile_alone() -> None:
    @tool(toolset="x")
    async def look(ctx: ToolContext, what: str) -> dict[str, Any]:
        """Look. {compact: Such as at x.} {lamp: With lamp.}

        Args:
            what: {full: The thing.} {compact: A thing.}
        """
        return {}

    def told(profile: Profile, *others: str) -> list[str]:
        return list(_texts(look.beside(others, profile).schema))

    assert told("full") == ["Look.", "The thing."]
    assert told("compact", "lamp") == ["Look. Such as at x. With lamp.", "A thing."]
    assert related(look.handler) == {"lamp"}


def test_an_argument_may_have_gained_a_choice_that_compact_prompts_do_not_have() -> None:
    @tool(toolset="x")
    async def look(
        ctx: ToolContext, how: Annotated[Literal["near", "far"], InCompact(Literal["near"])]
    ) -> dict[str, Any]:
        """Look."""
        return {}

    choices = {
        profile: look.beside((), profile).schema["function"]["parameters"]["properties"]["how"]
        for profile in get_args(Profile)
    }
    assert choices["full"] == {"type": "string", "enum": ["near", "far"]}
    assert choices["compact"] == {"type": "string", "const": "near"}
    assert look.beside((), "full").arguments.model_validate({"how": "far"})
    with pytest.raises(ValidationError):
        look.beside((), "compact").arguments.model_validate({"how": "far"})


def test_a_schema_comes_from_signature_and_docstring() -> None:
    @tool(toolset="x")
    async def look(
        ctx: ToolContext,
        title: str,
        default: Literal["a", "b"] = "a",
        seconds: float | None = None,
        deep: bool = False,
    ) -> dict[str, Any]:
        """Look at a thing
        closely.

        More, for people.

        Args:
            title: What to look at,
                by name.
            seconds: How long: at most.
        """
        return {}

    assert look.beside(()).schema == {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look at a thing closely.",
            "parameters": {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "description": "What to look at, by name."},
                    "default": {"type": "string", "enum": ["a", "b"], "default": "a"},
                    "seconds": {"type": "number", "description": "How long: at most."},
                    "deep": {"type": "boolean"},
                },
                "required": ["title"],
                "additionalProperties": False,
            },
        },
    }


def test_a_description_of_no_argument_is_a_mistake() -> None:
    async def look(ctx: ToolContext, what: str) -> dict[str, Any]:
        """Look.

        Args:
            waht: A slip.
        """
        return {}

    with pytest.raises(TypeError, match="waht"):
        tool(toolset="x")(look)


class Point(BaseModel):
    x: int
    y: int | None = None


def test_a_nested_argument_stands_in_the_schema_without_references() -> None:
    @tool(toolset="x")
    async def draw(ctx: ToolContext, points: list[Point]) -> dict[str, Any]:
        """Draw."""
        return {}

    points = draw.beside(()).schema["function"]["parameters"]["properties"]["points"]
    assert points == {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
            "required": ["x"],
        },
    }


def test_what_is_said_of_another_tool_is_said_only_beside_it() -> None:
    @tool(toolset="x")
    async def look(ctx: ToolContext, what: str, dig: Annotated[bool, When("spade")] = False) -> dict[str, Any]:
        """Look. {lamp: Light it with lamp first.} Then report.

        Args:
            what: The thing. {spade: Use spade below ground.}
            dig: With spade.
        """
        return {}

    def told(*others: str) -> tuple[str, dict[str, Any]]:
        function = look.beside({"look", *others}).schema["function"]
        properties = function["parameters"]["properties"]
        return function["description"], {name: node["description"] for name, node in properties.items()}

    assert told() == ("Look. Then report.", {"what": "The thing."})
    assert told("lamp") == ("Look. Light it with lamp first. Then report.", {"what": "The thing."})
    assert told("spade") == (
        "Look. Then report.",
        {"what": "The thing. Use spade below ground.", "dig": "With spade."},
    )


def test_the_schemas_of_every_prompt_are_small() -> None:
    assert len(json.dumps(schemas("terminal", "skill_view", "skill_manage"), separators=(",", ":"))) < 1_600
    assert len(json.dumps(schemas("core"), separators=(",", ":"))) < 9_500


@pytest.mark.parametrize("known", known_tools().values(), ids=lambda known: known.name)
def test_every_tool_is_described_and_closed(known: Tool) -> None:
    for enabled, profile in product(((), tuple(known_tools())), get_args(Profile)):
        schema = known.beside(enabled, profile).schema
        function = schema["function"]
        assert function["name"] == known.name
        assert function["description"]
        assert function["parameters"]["additionalProperties"] is False
        assert '"title"' not in json.dumps(schema)
        assert "$" not in json.dumps(schema)


def _texts(node: Any) -> Iterator[str]:
    """Every description in a schema."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "description" and isinstance(value, str):
                yield value
            else:
                yield from _texts(value)
    elif isinstance(node, list):
        for item in node:
            yield from _texts(item)


def _own_words(node: Any) -> set[str]:
    """The names and values of a tool's own arguments."""
    own = set(node.get("properties", ())) | set(node.get("enum", ()))
    return own.union(*(_own_words(inner) for inner in node.get("properties", {}).values()))


@pytest.mark.parametrize("known", known_tools().values(), ids=lambda known: known.name)
def test_a_tool_names_another_only_beside_it(known: Tool) -> None:
    names = set(known_tools())
    others = related(known.handler)
    assert others <= names
    for count in range(len(others) + 1):
        for enabled, profile in product(combinations(sorted(others), count), get_args(Profile)):
            function = known.beside(enabled, profile).schema["function"]
            words = set(re.findall(r"\w+", " ".join(_texts(function)))) - _own_words(function["parameters"])
            assert words & names <= {known.name, *enabled}


@pytest.mark.parametrize("profile", get_args(Profile))
@pytest.mark.parametrize("toolset", known_toolsets())
def test_in_no_toolset_is_a_tool_named_that_is_not_there(toolset: str, profile: Profile) -> None:
    functions = [schema["function"] for schema in schemas(toolset, profile=profile)]
    enabled = {function["name"] for function in functions}
    for function in functions:
        words = set(re.findall(r"\w+", " ".join(_texts(function)))) - _own_words(function["parameters"])
        assert words & set(known_tools()) <= enabled


def test_terminal_offers_the_background_only_where_process_looks_after_it() -> None:
    def arguments(*toolsets: str) -> set[str]:
        return set(schemas(*toolsets)[0]["function"]["parameters"]["properties"])

    assert arguments("terminal") == {"command", "timeout", "workdir"}
    assert arguments("shell") == arguments("terminal", "process") == {"command", "timeout", "workdir", "background"}
