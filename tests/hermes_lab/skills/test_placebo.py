"""Placebos: where they are listed as the skills are, and what they must not lose."""

import sys

import pytest

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.placebo import is_placebo, placebo
from hermes_lab.types import Skill

PLAIN = """\
---
name: fleet-totals
description: The path along the river is pl
metadata:
  hermes-origin: review
  hermes-state: stale
  hermes-placebo: 'true'
---

The path along the river is
"""
"""Recorded runs and their digests have placebos in these bytes."""


def made(skill: Skill) -> Skill:
    return placebo(Library([skill])).skills[skill.name]


def published(head: str, body: str = "Use --skip.") -> Skill:
    return skill_format.read(f"---\nname: fleet-totals\ndescription: How totals are made\n{head}---\n\n{body}")


def test_the_placebo_of_a_skill_that_the_lab_wrote_is_byte_for_byte_the_same() -> None:
    text = skill_format.render(
        "fleet-totals", "How the fleet's totals are mad", "Use --skip with every call.", origin="review", state="stale"
    )
    assert made(skill_format.parse(text)).text == PLAIN


@pytest.mark.parametrize(
    "head",
    [
        "platforms: [windows]\n",
        f"platforms: [{'linux' if sys.platform == 'linux' else 'macos'}]\n",
        "chats: group\n",
        "disable-model-invocation: true\n",
        "metadata: {platforms: [windows]}\n",
        "metadata: {author: me, chats: dm, hermes-pinned: 'true'}\n",
        "metadata: text\n",
        "",
    ],
)
def test_a_placebo_is_listed_where_the_skill_is(head: str) -> None:
    skill = published(head)
    empty = made(skill)
    assert is_placebo(empty)
    assert "skip" not in empty.text
    assert (skill.name in placebo(Library([skill])).listed) == (skill.name in Library([skill]).listed)
    assert skill_format.pinned(empty) == skill_format.pinned(skill)
    assert len(empty.description) == len(skill.description)
    assert made(empty) == empty


def test_a_published_skill_without_a_body_has_a_placebo_without_one() -> None:
    empty = made(published("", body=""))
    assert is_placebo(empty)
    assert skill_format.body(empty) == ""


def test_what_else_a_published_skill_says_of_itself_is_left_out() -> None:
    assert "refunds" not in made(published("when_to_use: refunds\nargument-hint: refunds\n")).text
