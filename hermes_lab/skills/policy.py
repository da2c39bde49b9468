"""What a review may not record, and when its new skill is a change to an old one: rules that hold, not requests."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from hermes_lab.config import SkillsConfig
from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import Gate
from hermes_lab.types import Skill, SkillEdit

_IS = r"(is|are|was|were)"
_KEY = r"(api[- ]?keys?|(access|auth|bearer|api) tokens?|credentials?|passwords?)"
_TOOL = (
    r"(tools? \W?\w+|[a-z]\w+\W? tools?|terminal|browser|sandbox"
    r"|[a-z]+_(file|files|code|search|extract|manage|view|task))"
)
_CLAIMS = {
    "a missing program": (
        r"command not found",
        r"no module named",
        r"no such (command|program|binary|executable)",
        rf"{_IS}(n't| not)( yet| currently)? installed",
        r"cannot be imported",
    ),
    "a missing credential": (
        rf"(no|missing|invalid|expired|without( an?| the| any)?) (valid )?{_KEY}",
        rf"{_KEY} {_IS} (missing|unset|invalid|expired)",
        rf"{_KEY} {_IS}(n't| not) (set|configured|available|given|valid)",
    ),
    "a passing failure": (
        r"timed out",
        r"rate[- ]limited",
        r"connection (was |is )?(refused|reset)",
        rf"(network|server|service|site|endpoint|api) {_IS} (temporarily )?(down|busy|overloaded|unavailable)",
        r"temporar(y|ily) (failures?|errors?|down|unavailable|failed)",
        r"(http|status|error)( code)? (429|50[234])",
    ),
    "that a tool does not work": (
        rf"{_TOOL}\W? (never works?|(does not|doesn't|do not|don't) work|{_IS} (broken|unusable|useless))"
        r"(?!( properly| well| here)? (on|with|for|when|if|unless|without|until|in|as|like|inside|after)\b)",
    ),
    "a one-off story": (
        r"(today|yesterday|this time|just now),? (i|we|the user|it)",
        r"(in|during) this (session|conversation|episode|chat)",
        r"the user (asked|wanted|told|said)",
        r"(i|we) (was|were|had|tried|ran|found|fixed|made|wrote|got|did|asked|created|noticed|ended)",
    ),
}
_FORBIDDEN = {kind: re.compile(rf"\b({'|'.join(claims)})\b", re.IGNORECASE) for kind, claims in _CLAIMS.items()}
_CURABLE = frozenset({"a missing program", "a missing credential", "a passing failure"})
"""What a skill may well tell how to mend."""
_CONDITION = re.compile(r"\b(if|when|whenever|where|unless|in case|until|before)\b", re.IGNORECASE)
_CLAUSE = r"(^|[,:;(`]|\b(and|then|so|must|please|first|instead))[\W\d]{0,8}"
_MEND = (
    r"(pip|uv|apt|apt-get|brew|conda|npm|cargo|install|use|run|call|set|export|pass|read|ask|request|renew|refresh"
    r"|log in|retry|wait|back off|raise|increase|lower|reduce|split|fall back|start|restart|add|put|try)"
)
_REMEDY = re.compile(rf"{_CLAUSE}{_MEND}\b(?!:)", re.IGNORECASE)
"""What to do about it, at the beginning of a clause; `Run:` is the skill's own command and cures nothing."""
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")
_FENCE = re.compile(r"\s*(```|~~~)")


class Objection(NamedTuple):
    """What should not be recorded, and the sentence that does."""

    kind: str
    sentence: str


def review_gate(config: SkillsConfig) -> Gate:
    """The gate of a review's skill session.

    A write that records what passes or is no rule is refused, with the sentence. A new skill that is at least
    `update_similarity` like an old one becomes an edit of that one; pinned and archived skills are let be.
    """

    def gate(library: Library, edit: SkillEdit) -> SkillEdit:
        said = "" if _is_script(edit) else "\n".join((edit.description, edit.content, edit.new_string))
        if found := objection(said):
            raise ToolError(
                f"not saved, since it records {found.kind}: {found.sentence[:200]!r}. "
                "Write what later tasks should do, or nothing."
            )
        return _instead_of_a_twin(library, edit, config.update_similarity) if edit.action == "create" else edit

    return gate


def objection(text: str) -> Objection | None:
    """The first sentence of `text` that should not be recorded.

    What is missing or fails may be told under a condition ("if ruff is not installed"), or with its remedy in the same
    sentence or the next. Code is never judged, but may be the remedy.
    """
    sentences = list(_sentences(text))
    for place, (sentence, is_code) in enumerate(sentences):
        for kind, pattern in _FORBIDDEN.items():
            if is_code or not (match := pattern.search(sentence)):
                continue
            rest = f"{sentence[: match.start()]} {sentence[match.end() :]}"
            after = sentences[place + 1][0] if place + 1 < len(sentences) else ""
            if kind in _CURABLE and (_CONDITION.search(rest) or _REMEDY.search(rest) or _REMEDY.search(after)):
                continue
            return Objection(kind, sentence)
    return None


def _is_script(edit: SkillEdit) -> bool:
    return bool(edit.path) and not edit.path.endswith((".md", ".txt"))


def _sentences(text: str) -> Iterator[tuple[str, bool]]:
    """Sentences, and lines of fenced code, with whether it is code."""
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif fenced:
            yield line, True
        else:
            yield from ((part, False) for part in _SENTENCE_END.split(line.strip()) if part)


def _instead_of_a_twin(library: Library, edit: SkillEdit, least: float) -> SkillEdit:
    new = _asked(edit)
    others = [skill for skill in library.skills.values() if not _left_alone(skill)]
    if new is None or edit.name in library.skills or not others:
        return edit
    from hermes_lab.memory.embed import embed

    rows = embed([_whole(skill) for skill in (new, *others)])
    likeness = rows[1:] @ rows[0]
    nearest = int(likeness.argmax())
    if likeness[nearest] < least:
        return edit
    return SkillEdit("edit", others[nearest].name, new.description, skill_format.body(new))


def _asked(edit: SkillEdit) -> Skill | None:
    """The skill that would be created; None where it is none, which `manage` will say."""
    content = edit.content
    try:
        if content.startswith("---\n"):
            return skill_format.parse(content)
        return skill_format.parse(skill_format.render(edit.name, edit.description, content))
    except ToolError:
        return None


def _left_alone(skill: Skill) -> bool:
    return skill_format.pinned(skill) or skill_format.state(skill) == "archived"


def _whole(skill: Skill) -> str:
    return f"{skill.name.replace('-', ' ')}: {skill.description}\n{skill_format.body(skill)}"
