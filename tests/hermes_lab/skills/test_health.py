"""One verdict for every skill, and why."""

import re

import pytest

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.skills.compiled.security import Problem
from hermes_lab.skills.curator.health import SkillHealth, health
from hermes_lab.skills.format import parse, render
from hermes_lab.skills.learning.stats import Use, stats
from hermes_lab.skills.library import Library

LIBRARY = Library([parse(render("x", "About x", "Do it."))])
ERROR, WARNING = Problem("error", "scripts/x.py", 3, "invalid syntax"), Problem("warning", "SKILL.md", 0, "long")


def verdict(outcomes: str = "", problems: tuple[Problem, ...] = ()) -> SkillHealth:
    """`outcomes`: + solved, - not, ? nothing judged."""
    uses = [Use("x", {"+": True, "-": False, "?": None}[outcome], "2026-01-01T00:00:00+00:00") for outcome in outcomes]
    (found,) = health(LIBRARY, stats(uses, alpha=0.1), {"x": problems}, SkillsConfig())
    return found


@pytest.mark.parametrize(
    ("outcomes", "expected", "reason"),
    [
        ("", "unused", "not loaded since its last write"),
        ("??", "unproven", "loaded 2 times, but no outcome was judged"),
        ("+++", "unproven", "3 of 3 uses solved, posterior 40-99 %: too few uses to tell"),
        ("-----", "unproven", "0 of 5 uses solved, posterior 0-46 %.*fewer than 10"),
        ("+" * 12, "healthy", "12 of 12 uses solved, posterior 75-100 %: not below 50 %"),
        ("-" * 12, "failing", "0 of 12 uses solved, posterior 0-25 %: below 50 %"),
        ("+-" * 10, "unproven", "10 of 20 uses solved"),
    ],
)
def test_the_verdict_follows_from_the_interval(outcomes: str, expected: str, reason: str) -> None:
    found = verdict(outcomes)
    assert found.verdict == expected
    assert re.search(reason, found.reason)


def test_an_error_outweighs_every_success_and_a_warning_none() -> None:
    assert verdict("+" * 12, (WARNING,)).verdict == "healthy"
    broken = verdict("+" * 12, (WARNING, ERROR, ERROR))
    assert (broken.verdict, broken.reason) == ("broken", "scripts/x.py:3: invalid syntax (and 1 more)")


def test_every_skill_has_one_verdict_in_the_order_of_names() -> None:
    library = Library(parse(render(name, "d", "b")) for name in ("b", "a", "c"))
    assert [found.name for found in health(library, {}, {}, SkillsConfig())] == ["a", "b", "c"]
