"""Refinement: outcomes take failing skills out of prompts, and a rewrite brings them back."""

import pytest

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.refine import failing, refine
from hermes_lab.skills.learning.stats import SkillStats, Use, stats
from hermes_lab.skills.library import Library
from hermes_lab.skills.manage import apply
from hermes_lab.types import Skill, SkillEdit

CONFIG = SkillsConfig()


def skill(name: str, **ours: str) -> Skill:
    return skill_format.parse(skill_format.render(name, f"About {name}", "Do it.", **{"origin": "review", **ours}))


def fared(**outcomes: tuple[bool, ...]) -> dict[str, SkillStats]:
    return stats([Use(name, ok, "2026") for name, all_of in outcomes.items() for ok in all_of], alpha=0.1)


def test_a_failing_skill_leaves_prompts_and_the_others_stay() -> None:
    library = Library([skill("bad"), skill("good"), skill("new")])
    refined = refine(library, fared(bad=(False,) * 10, good=(True,) * 10, gone=(False,) * 10), CONFIG)
    assert list(refined.listed) == ["good", "new"]
    assert skill_format.state(refined.skills["bad"]) == "deprecated"
    assert refine(refined, fared(bad=(False,) * 10), CONFIG).snapshot == refined.snapshot


def test_nothing_to_refine_is_the_same_library() -> None:
    library = Library([skill("good")])
    assert refine(library, fared(good=(True,) * 30), CONFIG) is library


@pytest.mark.parametrize("ours", [{"pinned": "true"}, {"origin": ""}, {"origin": "installed"}])
def test_a_skill_that_is_a_persons_is_told_of_and_left(ours: dict[str, str]) -> None:
    library = Library([skill("pin", **ours)])
    fates = fared(pin=(False,) * 10)
    assert failing(library, fates, CONFIG) == ("pin",)
    assert refine(library, fates, CONFIG) is library


@pytest.mark.parametrize(
    "edit",
    [SkillEdit("patch", "bad", old_string="Do it.", new_string="Do it so."), SkillEdit("edit", "bad", content="Anew.")],
)
def test_a_rewritten_skill_is_active_again(edit: SkillEdit) -> None:
    refined = refine(Library([skill("bad")]), fared(bad=(False,) * 10), CONFIG)
    mended, _ = apply(refined, edit, origin="review", episode="e", model="m")
    assert list(mended.listed) == ["bad"]
