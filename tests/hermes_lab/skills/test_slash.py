"""A skill that a message names with a slash."""

import pytest

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.skills.slash import expand, expand_typed


def session() -> SkillSession:
    texts = [
        skill_format.render("test", "How to test", "Run it."),
        skill_format.render("fleet-totals", "How totals are made", "Sum them."),
        skill_format.render("old-ways", "How it was", "Do not.", state="archived"),
    ]
    skills = [skill_format.parse(text) for text in texts]
    return SkillSession(Library(skills), origin="foreground", episode="e", model="m")


def test_the_skill_stands_before_what_is_asked() -> None:
    s = session()
    message = expand(" /fleet-totals for\nMay ", s)
    assert message.startswith("Follow the skill fleet-totals:\n\n<skill>\n---\nname: fleet-totals\n")
    assert message.endswith("Sum them.\n</skill>\n\nfor\nMay")
    assert "hermes-" not in message
    assert s.loaded == ["fleet-totals"]
    assert expand("/test", s).endswith("Do what the skill is for.")


@pytest.mark.parametrize("prompt", ["/tests fail", "/fleet_totals x", "/Test", "/usr/bin is full", "/", "a /test"])
def test_a_task_names_a_skill_exactly_or_not_at_all(prompt: str) -> None:
    s = session()
    assert expand(prompt, s) == prompt
    assert s.loaded == []


@pytest.mark.parametrize(
    ("prompt", "loaded", "note"),
    [
        ("/fleet-totals do it", "fleet-totals", "loaded the skill fleet-totals"),
        ("/fleet-total do it", "", ""),
        ("/Fleet_Totals", "", ""),
        ("/old-ways now", "old-ways", "loaded the skill old-ways, which is archived"),
        ("/old-way now", "", ""),
        ("/nope", "", ""),
        ("/usr/bin is full", "", ""),
        ("hello", "", ""),
    ],
)
def test_a_person_is_told_what_became_of_the_name(prompt: str, loaded: str, note: str) -> None:
    s = session()
    expanded = expand_typed(prompt, s)
    assert expanded.note == note
    assert s.loaded == ([loaded] if loaded else [])
    assert expanded.message.startswith(f"Follow the skill {loaded}:" if loaded else prompt)
