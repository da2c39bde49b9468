"""Extracts the sections of a SKILL.md: triggers, code template, parameters, dependencies and pitfalls."""

import re

from msgspec import Struct

from hermes_lab.skills import format as skill_format
from hermes_lab.types import Skill

_HEADING = re.compile(r"#{1,6}\s+(?P<title>.+?)\s*#*")
_FENCE = re.compile(r"\s*(```+|~~~+)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?P<text>.+)")
_PLACEHOLDER = re.compile(r"<([a-z][\w-]*)>|\{([a-z]\w*)\}", re.IGNORECASE)


class Anatomy(Struct, frozen=True):
    """The parts of a skill; a missing part is empty.

    `template` is the first code block. `parameters` are the items of that section, or else the placeholders `<x>` and
    `{x}` of the template. `dependencies` are the items of that section and the standard's `compatibility` field.
    `source` is where the skill was installed from.
    """

    triggers: str
    template: str
    parameters: tuple[str, ...]
    dependencies: tuple[str, ...]
    pitfalls: tuple[str, ...]
    tags: tuple[str, ...]
    source: str


def anatomy(skill: Skill) -> Anatomy:
    """Parses the parts of a skill from its headings and frontmatter."""
    head = skill_format.fields(skill)
    metadata = head.get("metadata")
    tags = head.get("tags") or (metadata.get("tags") if isinstance(metadata, dict) else None)
    sections, template = _read(skill_format.body(skill))
    compatibility = str(head.get("compatibility") or "")
    return Anatomy(
        triggers=_text(sections, "when to use", "use when", "trigger"),
        template=template,
        parameters=_items(sections, "parameter", "argument", "input") or _placeholders(template),
        dependencies=_items(sections, "prerequisite", "requirement", "dependenc")
        + ((compatibility,) if compatibility else ()),
        pitfalls=_items(sections, "pitfall", "common mistake", "gotcha"),
        tags=skill_format.words(tags),
        source=skill_format.mark(skill, "source"),
    )


def _read(body: str) -> tuple[list[tuple[str, list[str]]], str]:
    """Returns (lower-case title, lines) of each section, and the first code block. Headings in code are ignored."""
    sections: list[tuple[str, list[str]]] = []
    template: list[str] | None = None
    fence, code = "", list[str]()
    for line in body.splitlines():
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip(mark[1][0] + " \t"):
                fence, template = "", code if template is None else template
            else:
                code.append(line)
        elif mark:
            fence, code = mark[1], []
        elif heading := _HEADING.fullmatch(line):
            sections.append((heading["title"].lower(), []))
            continue
        if sections:
            sections[-1][1].append(line)
    return sections, "\n".join(template or ())


def _text(sections: list[tuple[str, list[str]]], *titles: str) -> str:
    """Returns the text of the first section whose title starts with one of `titles`."""
    for title, lines in sections:
        if title.startswith(titles):
            return "\n".join(lines).strip()
    return ""


def _items(sections: list[tuple[str, list[str]]], *titles: str) -> tuple[str, ...]:
    """Returns the list items of the first matching section, or else its paragraphs."""
    text = _text(sections, *titles, *(f"common {title}" for title in titles))
    items: list[str] = []
    for line in text.splitlines():
        if match := _ITEM.fullmatch(line):
            items.append(match["text"].strip())
        elif items and line.startswith(" ") and line.strip():  # continuation line
            items[-1] += f" {line.strip()}"
    return tuple(items or (" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()))


def _placeholders(template: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(a or b for a, b in _PLACEHOLDER.findall(template)))
