"""Where a skill is listed: operating systems, chat platforms and kinds of chats."""

import sys

import pytest

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.conditions import TERMINAL, Place, listed
from hermes_lab.skills.library import Library

HERE = "linux" if sys.platform == "linux" else "macos"
OTHER = "windows"
DISCORD, GROUP, TELEGRAM = Place("discord", "dm"), Place("discord", "group"), Place("telegram", "group")


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ("license: MIT", (None, TERMINAL, DISCORD, GROUP, TELEGRAM)),
        (f"platforms: [{HERE}]", (None, TERMINAL, DISCORD, GROUP, TELEGRAM)),
        (f"platforms: {OTHER}, {HERE.upper()}", (None, TERMINAL, DISCORD, GROUP, TELEGRAM)),
        (f"metadata: {{platforms: {HERE}}}", (None, TERMINAL, DISCORD, GROUP, TELEGRAM)),
        (f"platforms: {OTHER}", ()),
        ("platforms: [discord]\nchats: [group]", (GROUP,)),
        ("platforms: discord", (DISCORD, GROUP)),
        ("metadata:\n  platforms: discord telegram\n  chats: groups", (GROUP, TELEGRAM)),
        (f"platforms: [{HERE}, discord]", (DISCORD, GROUP)),
        (f"platforms: [{OTHER}, discord]", ()),
        ("platforms: [cli]", (TERMINAL,)),
        ("chats: direct", (TERMINAL, DISCORD)),
        ("disable-model-invocation: true", ()),
        ("disable-model-invocation: false", (None, TERMINAL, DISCORD, GROUP, TELEGRAM)),
    ],
)
def test_a_skill_is_listed_where_its_conditions_fit(fields: str, where: tuple[Place | None, ...]) -> None:
    skill = skill_format.read(f"---\nname: a\ndescription: d\n{fields}\n---\n\nDo it.\n")
    places = (None, TERMINAL, DISCORD, GROUP, TELEGRAM)
    assert tuple(place for place in places if listed(skill, place)) == where
    library = Library([skill])
    assert bool(library.listed) == (None in where)
    for place in places[1:]:
        there = Library.unpack(library.pack()).at(place)
        assert bool(there.listed) == (place in where)
        assert bool(there.with_skill(skill).listed) == (place in where)
        assert there.snapshot == library.snapshot
