"""SKILL.md after the Agent Skills standard: YAML frontmatter with name and description, then Markdown."""

import re

import yaml

from hermes_lab.errors import ToolError
from hermes_lab.types import Skill

MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_TEXT = 100_000
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FRONTMATTER = re.compile(r"---\n(?P<head>.*?)\n---\n(?P<body>.*)", re.DOTALL)


def render(name: str, description: str, body: str) -> str:
    """The text of a SKILL.md."""
    head = yaml.safe_dump({"name": name, "description": description}, sort_keys=False, allow_unicode=True, width=10_000)
    return f"---\n{head}---\n\n{body.strip()}\n"


def parse(text: str) -> Skill:
    """Reads and checks a SKILL.md. Raises `ToolError` that names the field."""
    match = _FRONTMATTER.fullmatch(text.replace("\r\n", "\n"))
    if match is None:
        raise ToolError("SKILL.md: begins with no frontmatter (--- name, description ---)")
    try:
        head = yaml.safe_load(match["head"])
    except yaml.YAMLError:
        raise ToolError("SKILL.md: the frontmatter is not YAML") from None
    if not isinstance(head, dict):
        raise ToolError("SKILL.md: the frontmatter is no mapping")
    name, description = head.get("name"), head.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise ToolError(f"name: {name!r} is not 1-{MAX_NAME} lowercase letters, digits and single hyphens")
    if not isinstance(description, str) or not 0 < len(description.strip()) <= MAX_DESCRIPTION:
        raise ToolError(f"description: give 1-{MAX_DESCRIPTION} characters")
    if not match["body"].strip():
        raise ToolError("content: the skill has no body")
    if len(text) > MAX_TEXT:
        raise ToolError(f"content: longer than {MAX_TEXT} characters")
    return Skill(name=name, description=" ".join(description.split()), text=text)


def body(skill: Skill) -> str:
    """The Markdown after the frontmatter."""
    match = _FRONTMATTER.fullmatch(skill.text.replace("\r\n", "\n"))
    return match["body"].strip() if match else skill.text
