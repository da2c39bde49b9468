"""SKILL.md after the Agent Skills standard: YAML frontmatter with name and description, then Markdown.

What Hermes Lab itself keeps of a skill stands in the frontmatter's `metadata`, under keys that begin with `hermes-`, so
that a folder of skills says everything there is to know of them and can be shared as it is. The agent does not see it.
"""

import re
import sys
from typing import Any, Literal, cast

import msgspec
import yaml

from hermes_lab.errors import ToolError
from hermes_lab.types import Skill
from hermes_lab.types.skill import Origin

MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_TEXT = 100_000
MAX_FILE = 1 << 20
FOLDERS = ("references", "templates", "scripts", "assets")
"""The folders that a skill's other files lie in."""

State = Literal["active", "deprecated", "stale", "archived"]
"""`active` skills are listed in prompts. `deprecated` ones failed and wait to be rewritten, `stale` ones were long
unused and are still listed, `archived` ones are put away."""

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FRONTMATTER = re.compile(r"---\n(?P<head>.*?)\n---\n(?P<body>.*)", re.DOTALL)
_OURS = "hermes-"
_PLATFORM = {"linux": "linux", "darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)


def render(name: str, description: str, body: str, **ours: str) -> str:
    """The text of a SKILL.md; `ours` are fields of Hermes Lab's, such as `origin`."""
    head: dict[str, Any] = {"name": name, "description": description}
    return _render(_with_ours(head, ours), body)


def parse(text: str, files: dict[str, bytes] | None = None) -> Skill:
    """Reads and checks a SKILL.md. Raises `ToolError` that names the field."""
    head, body = _split(text)
    name, description = head.get("name"), head.get("description")
    check_name(name)
    if not isinstance(description, str) or not 0 < len(description.strip()) <= MAX_DESCRIPTION:
        raise ToolError(f"description: give 1-{MAX_DESCRIPTION} characters")
    if not isinstance(metadata := head.get("metadata", {}), dict):
        raise ToolError(f"metadata: give `name: value` pairs, not {metadata!r}")
    if not body.strip():
        raise ToolError("content: the skill has no body")
    if len(text) > MAX_TEXT:
        raise ToolError(f"content: longer than {MAX_TEXT} characters")
    return Skill(cast(str, name), " ".join(description.split()), text, files or {})


def check_name(name: object) -> None:
    """Raises `ToolError` for what is no skill's name, and so could lead out of the library's folder."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise ToolError(f"name: {name!r} is not 1-{MAX_NAME} lowercase letters, digits and single hyphens")


def check_path(path: str) -> None:
    """Raises `ToolError` for a path that is none of a skill's other files."""
    parts = path.split("/")
    if len(parts) < 2 or parts[0] not in FOLDERS:
        raise ToolError(f"path: {path!r} is not below {', '.join(f'{folder}/' for folder in FOLDERS)}")
    if any(part in ("", ".", "..") or part.startswith(".") or len(part) > 255 for part in parts):
        raise ToolError(f"path: {path!r} has an empty, hidden or overlong part")
    if not path.isprintable() or "\\" in path or len(parts) > 8:
        raise ToolError(f"path: {path!r} has a character that a file's name may not have, or is too deep")


def body(skill: Skill) -> str:
    """The Markdown after the frontmatter."""
    return _split(skill.text)[1].strip()


def shown(skill: Skill) -> str:
    """The SKILL.md as an agent sees it: without what Hermes Lab keeps in it."""
    head, text = _split(skill.text)
    if not _ours(head):
        return skill.text
    kept = {key: value for key, value in head["metadata"].items() if not str(key).startswith(_OURS)}
    head = {**head, "metadata": kept} if kept else {key: head[key] for key in head if key != "metadata"}
    return _render(head, text)


def state(skill: Skill) -> State:
    """Where a skill is in its life; one that does not say is active."""
    found = _field(skill, "state")
    return cast(State, found) if found in ("deprecated", "stale", "archived") else "active"


def pinned(skill: Skill) -> bool:
    """Whether a person protected the skill: nobody else changes it."""
    return _field(skill, "pinned") == "true"


def origin(skill: Skill) -> Origin:
    """Who wrote the skill first; one that does not say is a person's."""
    found = _field(skill, "origin")
    return cast(Origin, found) if found in ("foreground", "review", "curator", "bundled", "installed") else "user"


def compiled(skill: Skill) -> str:
    """The function `scripts/NAME.py` of a skill that was compiled, which is a tool of that name; "" for any other."""
    return _field(skill, "compiled")


def for_here(skill: Skill) -> bool:
    """Whether the skill is for this platform: its `metadata` may name `platforms`, such as `linux, macos`."""
    platforms = str((_split(skill.text)[0].get("metadata") or {}).get("platforms", ""))
    return not platforms or _PLATFORM in re.split(r"[,\s]+", platforms.lower())


def listed(skill: Skill) -> bool:
    """Whether prompts name the skill."""
    return state(skill) in ("active", "stale") and for_here(skill)


def marked(skill: Skill, **ours: str) -> Skill:
    """The skill with fields of Hermes Lab's set (`state`, `pinned`, `origin`, ...); an empty value takes one out."""
    head, text = _split(skill.text)
    return msgspec.structs.replace(skill, text=_render(_with_ours(head, ours), text))


def _field(skill: Skill, key: str) -> str:
    # Most skills have no such field, and this is asked of every skill of a library.
    return _ours(_split(skill.text)[0]).get(_OURS + key, "") if _OURS + key in skill.text else ""


def _ours(head: dict[str, Any]) -> dict[str, str]:
    metadata = head.get("metadata") or {}
    return {str(key): str(value) for key, value in metadata.items() if str(key).startswith(_OURS)}


def _with_ours(head: dict[str, Any], ours: dict[str, str]) -> dict[str, Any]:
    metadata = dict(head.get("metadata") or {})
    for key, value in ours.items():
        metadata[_OURS + key] = value
    metadata = {key: value for key, value in metadata.items() if value != ""}
    head = {key: value for key, value in head.items() if key != "metadata"}
    return {**head, "metadata": metadata} if metadata else head


def _render(head: dict[str, Any], body: str) -> str:
    dumped = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=10_000)
    return f"---\n{dumped}---\n\n{body.strip()}\n"


def _split(text: str) -> tuple[dict[str, Any], str]:
    match = _FRONTMATTER.fullmatch(text.replace("\r\n", "\n"))
    if match is None:
        raise ToolError("SKILL.md: begins with no frontmatter (--- name, description ---)")
    try:
        head = yaml.safe_load(match["head"])
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ToolError("SKILL.md: the frontmatter is not YAML") from None
    if not isinstance(head, dict):
        raise ToolError("SKILL.md: the frontmatter is no mapping")
    return head, match["body"]
