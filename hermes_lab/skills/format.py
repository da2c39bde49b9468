"""Reads and writes SKILL.md files: YAML frontmatter with name and description, then Markdown (Agent Skills standard).

Hermes Lab stores its own fields in the frontmatter's `metadata`, under keys that start with `hermes-`. A folder of
skills is therefore self-contained and can be shared as is. The agent does not see these fields.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec
import yaml

from hermes_lab.errors import ToolError
from hermes_lab.skills.frontmatter import Note, lenient, split, strict
from hermes_lab.types import Skill
from hermes_lab.types.skill import Origin

MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_TEXT = 100_000
MAX_FILE = 1 << 20
FOLDERS = ("references", "templates", "scripts", "assets")
"""Folders in which an agent may create files; skills written by users or published elsewhere may have others."""

State = Literal["active", "deprecated", "stale", "archived"]
"""`active`: listed in prompts. `deprecated`: failed, not listed until rewritten. `stale`: unused for a long time, but
still listed. `archived`: not listed."""

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FUNCTION = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_UNNAMED = re.compile(r"[^a-z0-9]+")
_OURS = "hermes-"
_FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")


def render(name: str, description: str, body: str, **ours: str) -> str:
    """Returns the text of a SKILL.md. `ours` are Hermes Lab's own fields, such as `origin`."""
    return render_fields({"name": name, "description": " ".join(description.split())}, body, ours)


def render_fields(head: Mapping[str, Any], body: str, ours: Mapping[str, str]) -> str:
    """As `render`, with these fields as the frontmatter; Hermes Lab's own fields are replaced by `ours`."""
    return _render(_with_marks(head, ours), body)


def parse(text: str, files: dict[str, bytes] | None = None) -> Skill:
    """Parses and validates a SKILL.md, as whatever is written here has to be. Raises `ToolError` naming the invalid
    field. `read` is for skills from elsewhere."""
    _check_size(text)
    parts = split(text)
    if not text.startswith(("---\n", "---\r\n")):
        raise ToolError("SKILL.md: must begin with frontmatter (--- name, description ---)")
    head = strict(parts.yaml, parts.line)
    name, description = head.get("name"), head.get("description")
    check_name(name)
    if not isinstance(description, str) or not description.strip() or len(description) > MAX_DESCRIPTION:
        raise ToolError(f"description: must have 1-{MAX_DESCRIPTION} characters")
    if not isinstance(head.get("metadata", {}), dict):
        raise ToolError("metadata: must be `name: value` pairs")
    check_body(parts.body)
    return Skill(cast(str, name), " ".join(description.split()), text, files or {})


def read(text: str, files: dict[str, bytes] | None = None, *, name: str = "", folder: str = "") -> Skill:
    """Reads a SKILL.md as it was published, or written by hand; `warnings` says what is wrong with it.

    The name is `name` if given (a library's folder), or else that of the frontmatter or of its `folder`, in lowercase
    with hyphens. The text is kept as it is. Raises `ToolError` if it has no readable frontmatter or no description.
    """
    _check_size(text)
    parts = split(text)
    head = lenient(parts.yaml, parts.line).fields
    found = name or slug(_flat(head.get("name"))) or slug(folder)
    if not found:
        where = _line(parts.yaml, parts.line, "name")
        raise ToolError(
            f"SKILL.md: line {where}: name: {_flat(head.get('name'))!r} must contain a letter a-z or a digit"
        )
    check_name(found)
    if not (description := _flat(head.get("description"))):
        where = _line(parts.yaml, parts.line, "description")
        raise ToolError(f"SKILL.md: line {where}: no description, so no agent can tell when to use the skill")
    return Skill(found, description[:MAX_DESCRIPTION], text, files or {})


def warnings(skill: Skill) -> Iterator[Note]:
    """Yields what `read` overlooked in the text of a skill, with the line."""
    text = skill.text
    parts = split(text)
    head, notes = lenient(parts.yaml, parts.line)
    if not text.startswith("---") or text.split("\n", 1)[0].rstrip("\r") != "---":
        yield Note(1, "a byte order mark or blanks around the first ---")
    yield from notes
    name, description = head.get("name"), _flat(head.get("description"))
    if name != skill.name:
        yield Note(_line(parts.yaml, parts.line, "name"), f"name: {_flat(name)!r:.80} is used as {skill.name}")
    if len(description) > MAX_DESCRIPTION:
        where = _line(parts.yaml, parts.line, "description")
        yield Note(where, f"description: {len(description)} characters; only {MAX_DESCRIPTION} are listed")
    if not isinstance(head.get("metadata", {}), dict):
        yield Note(_line(parts.yaml, parts.line, "metadata"), "metadata: not `name: value` pairs; ignored")
    if unknown := [str(key) for key in head if key not in _FIELDS]:
        where = _line(parts.yaml, parts.line, unknown[0])
        yield Note(where, f"fields outside the standard: {', '.join(unknown)}")
    if not parts.body.strip():
        yield Note(parts.line, "the skill has no text below its frontmatter")


def canonical(skill: Skill) -> Skill:
    """Returns the skill with a frontmatter in plain YAML, under its name; its description and other fields are kept."""
    parts = split(skill.text)
    head = {**lenient(parts.yaml, parts.line).fields, "name": skill.name}
    head["description"] = _flat(head.get("description"))
    if not isinstance(head.get("metadata", {}), dict):
        del head["metadata"]
    return msgspec.structs.replace(skill, text=_render(head, parts.body))


def whole(content: str) -> str:
    """Returns the content of a write as a SKILL.md with plain line ends; "" if it is only a body."""
    text = content.replace("\r\n", "\n")
    return text if text.startswith("---\n") else ""


def slug(text: str) -> str:
    """Returns a text as a valid name, or "" if nothing of it can stay."""
    return _UNNAMED.sub("-", text.lower()).strip("-")[:MAX_NAME].strip("-")


def check_body(body: str) -> None:
    """Raises `ToolError` for a skill without text."""
    if not body.strip():
        raise ToolError("content: the skill has no body")


def check_name(name: object) -> None:
    """Raises `ToolError` if `name` is not a valid skill name; an invalid one could escape the library's folder."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        given = f"{name!r:.80} " if isinstance(name, str) else ""
        raise ToolError(f"name: {given}must be 1-{MAX_NAME} lowercase letters, digits and single hyphens")


def check_path(path: str) -> None:
    """Raises `ToolError` if `path` is not valid for a file of a skill, on any file system.

    Rejected are paths that escape the folder, hidden files, other spellings of SKILL.md, and paths that are not in
    Unicode NFC.
    """
    parts = path.split("/")
    if not all(parts) or any(map(ignored, parts)):
        raise ToolError(f"path: {path!r} has an empty or hidden part")
    if not path.isprintable() or "\\" in path or unicodedata.normalize("NFC", path) != path:
        raise ToolError(f"path: {path!r} has a character that is not allowed in file names")
    if len(parts) > 8 or any(len(part.encode()) > 255 for part in parts):
        raise ToolError(f"path: {path!r} is nested too deeply, or has a part that is too long")
    if parts[0].casefold() == "skill.md":
        raise ToolError(f"path: {path!r} is the skill itself; omit path")


def ignored(name: str) -> bool:
    """Whether a file or folder of this name is not part of a skill: hidden, an editor backup, or `__pycache__`."""
    return name.startswith(".") or name.endswith("~") or name == "__pycache__"


def check_standard(skill: Skill) -> None:
    """Raises `ToolError` if the frontmatter fails the reference validator of the Agent Skills standard."""
    from skills_ref.errors import ParseError
    from skills_ref.parser import parse_frontmatter
    from skills_ref.validator import validate_metadata

    if "---" in frontmatter(skill):  # the validator would end the frontmatter there
        raise ToolError("description: '---' is not allowed in the frontmatter")
    try:
        mistakes = validate_metadata(parse_frontmatter(skill.text)[0])
    except ParseError as error:
        mistakes = [" ".join(str(error).split())]
    if mistakes:
        raise ToolError(f"SKILL.md: {'; '.join(mistakes)}")


def encoded(text: str) -> bytes:
    """Encodes text as UTF-8. Raises `ToolError` for a lone surrogate, which a model can write as a JSON escape."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError("content: contains half a character (a lone surrogate), which cannot be saved") from None


def frontmatter(skill: Skill) -> str:
    """Returns the YAML between the two `---` lines."""
    return split(skill.text).yaml


def fields(skill: Skill) -> Mapping[str, Any]:
    """Returns the fields of the frontmatter."""
    return _split(skill.text)[0]


def body(skill: Skill) -> str:
    """Returns the Markdown after the frontmatter."""
    return _split(skill.text)[1].strip()


def rewritten(skill: Skill, description: str, body: str) -> Skill:
    """Returns the skill with a new description and body; the rest of its frontmatter is kept."""
    head = {**_split(canonical(skill).text)[0], "description": " ".join(description.split())}
    return parse(_render(head, body), skill.files)


def shown(skill: Skill) -> str:
    """Returns the SKILL.md as an agent sees it, without Hermes Lab's own fields."""
    return remarked(skill, {}).text


def state(skill: Skill) -> State:
    """Returns the lifecycle state of a skill; the default is `active`."""
    found = mark(skill, "state")
    return cast(State, found) if found in ("deprecated", "stale", "archived") else "active"


def pinned(skill: Skill) -> bool:
    """Whether the user pinned the skill, so that agents and the curator cannot change it."""
    return mark(skill, "pinned") == "true"


def origin(skill: Skill) -> Origin:
    """Returns who created the skill; the default is `user`."""
    found = mark(skill, "origin")
    return cast(Origin, found) if found in ("foreground", "review", "curator", "bundled", "installed") else "user"


def compiled(skill: Skill) -> str:
    """Returns NAME for a compiled skill, whose function in `scripts/NAME.py` is a tool of that name; otherwise "".

    The author of the skill wrote it: what is no name of a function, such as a path, is none.
    """
    name = mark(skill, "compiled")
    return name if _FUNCTION.fullmatch(name) else ""


def mark(skill: Skill, key: str) -> str:
    """Returns one of Hermes Lab's own fields, or "" if it is not set."""
    # Fast path: this is called for every skill of a library, and most skills do not have the field.
    return marks(skill).get(key, "") if _OURS + key in skill.text else ""


def marks(skill: Skill) -> dict[str, str]:
    """Returns Hermes Lab's own fields by name (`state`, `pinned`, `origin`, ...)."""
    return _marks(_split(skill.text)[0]) if _OURS in skill.text else {}


def marked(skill: Skill, **ours: str) -> Skill:
    """Returns the skill with some of Hermes Lab's own fields updated; an empty value removes a field."""
    return remarked(skill, {**marks(skill), **ours})


def remarked(skill: Skill, ours: Mapping[str, str]) -> Skill:
    """Returns the skill with all of Hermes Lab's own fields replaced by `ours`."""
    ours = {key: value for key, value in ours.items() if value}
    if marks(skill) == ours:
        return skill
    head, text = _split(skill.text)
    return msgspec.structs.replace(skill, text=_render(_with_marks(head, ours), text))


def _marks(head: Mapping[str, Any]) -> dict[str, str]:
    metadata = _metadata(head)
    return {str(key).removeprefix(_OURS): _scalar(metadata[key]) for key in metadata if str(key).startswith(_OURS)}


def _scalar(value: object) -> str:
    """Converts a YAML scalar to text; an unquoted `true` in a hand-written file is parsed as a boolean."""
    return str(value).lower() if isinstance(value, bool) else "" if isinstance(value, (dict, list)) else str(value)


def _with_marks(head: Mapping[str, Any], ours: Mapping[str, str]) -> dict[str, Any]:
    """Returns the frontmatter with all of Hermes Lab's own fields replaced by `ours`."""
    metadata = {key: value for key, value in _metadata(head).items() if not str(key).startswith(_OURS)}
    metadata |= {_OURS + key: value for key, value in ours.items() if value}
    head = {key: value for key, value in head.items() if key != "metadata"}
    return {**head, "metadata": metadata} if metadata else head


def _render(head: Mapping[str, Any], body: str) -> str:
    dumped = yaml.safe_dump(dict(head), sort_keys=False, allow_unicode=True, width=10_000)
    return f"---\n{dumped}---\n\n{body.strip()}\n"


def _split(text: str) -> tuple[Mapping[str, Any], str]:
    parts = split(text)
    return lenient(parts.yaml, parts.line).fields, parts.body


def _metadata(head: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = head.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def words(value: object) -> tuple[str, ...]:
    """Returns the words of a field that is written as a list, or as text with commas or blanks; in lowercase."""
    if isinstance(value, list):
        return tuple(_scalar(part).strip().lower() for part in value)
    return tuple(part for part in re.split(r"[,\s]+", _scalar(value).lower()) if part) if value is not None else ()


def _flat(value: object) -> str:
    """Returns a field as one line of text, whatever it was written as."""
    if isinstance(value, (dict, list)):
        value = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=MAX_TEXT)
    return " ".join(_scalar(value).split()) if value is not None else ""


def _line(head: str, first: int, field: str) -> int:
    """Returns the line of a field in the file; that of the opening `---` if there is none."""
    match = re.search(rf"^{re.escape(field)}[ \t]*:", head, re.MULTILINE)
    return first + head.count("\n", 0, match.start()) if match else first - 1


def _check_size(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise ToolError(f"content: longer than {MAX_TEXT} characters")
    encoded(text)
