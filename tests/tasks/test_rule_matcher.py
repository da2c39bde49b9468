"""What texts tell of a world's rules, against libraries of which it is known."""

import pytest

from hermes_lab.config.schema import SuiteConfig
from hermes_lab.skills.format import parse, render
from hermes_lab.skills.placebo import placebo
from hermes_lab.suites import RuleAwareSuite
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import draw_rule
from hermes_lab.tasks.learner import NOTHING_SPECIAL
from hermes_lab.tasks.registry import domains, load_suite
from hermes_lab.tasks.subtasks import known_skill
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.types import Skill

FAMILIES = [family for members in domains().values() for family in members]
SPLITS = ("train", "heldout")


def suite_of(name: str, **options: object) -> WorldSuite:
    suite = load_suite(SuiteConfig(name=name, options=options))
    assert isinstance(suite, WorldSuite)
    assert isinstance(suite, RuleAwareSuite)
    return suite


def skill(name: str, body: str, description: str = "How it is done") -> Skill:
    return parse(render(name, description, body))


@pytest.mark.parametrize("name", [*FAMILIES, "open_ended"])
def test_each_skill_of_an_oracle_tells_its_own_rule_and_no_untrue_one(name: str) -> None:
    suite = suite_of(name)
    for split in SPLITS:
        known = suite.known_skills(split=split, world=0)
        told = {each.name: suite.stated_rules(each, split=split, world=0) for each in known.skills.values()}
        rules = {site.skill_name: (site.trigger,) for site in suite.sites(split=split, world=0) if site.ruled}
        assert told == rules
        assert suite.rules(split=split, world=0) == {rule for own in rules.values() for rule in own}


@pytest.mark.parametrize("name", [*FAMILIES, "open_ended"])
def test_the_same_skills_are_untrue_in_a_decoy_world_and_after_a_drift(name: str) -> None:
    for split in SPLITS:
        known = suite_of(name).known_skills(split=split, world=0)
        decoy, drifted = suite_of(name, decoy=True), suite_of(name, drift_at=5)
        for each in known.skills.values():
            assert decoy.stated_rules(each, split=split, world=0) == ("",)
            assert drifted.stated_rules(each, split=split, world=0, number=5) == ("",)
            assert drifted.stated_rules(each, split=split, world=0, number=4) != ("",)


def test_what_holds_after_a_drift_has_an_id_of_its_own() -> None:
    suite = suite_of("ledger", drift_at=5)
    now = suite.sites(split="train", world=0, number=5)
    new = [known_skill(site, site.drawn) for site in now if site.ruled]
    assert {rule for each in new for rule in suite.stated_rules(each, split="train", world=0, number=5)} == {
        site.trigger for site in now if site.ruled
    }
    assert suite.rules(split="train", world=0).isdisjoint(suite.rules(split="train", world=0, number=5))


def test_a_skill_may_be_worded_anyhow_about_any_number_of_places_and_under_any_name() -> None:
    suite = suite_of("ledger")
    first, second = [site for site in suite.sites(split="train", world=0) if site.ruled][:2]
    body = "\n".join(f"- {site.called}: remember, {site.drawn.paraphrases[-1].upper()}!" for site in (first, second))
    assert set(suite.stated_rules(skill("house-rules", body), split="train", world=0)) == {
        first.trigger,
        second.trigger,
    }


def test_a_command_tells_its_rule_without_the_clause_and_with_other_literals_another_one() -> None:
    suite = suite_of("ledger")
    for site in (site for site in suite.sites(split="train", world=0) if site.ruled):
        command = known_skill(site, site.drawn).text.rstrip().rpartition("\n")[2]
        assert command.startswith("./ledger sum ")
        wrong_reason = f"About {site.called}: sorted by charge, so I add it up.\n\n{command}"
        assert suite.stated_rules(skill("totals", wrong_reason), split="train", world=0) == (site.trigger,)
        assert site.trigger not in suite.stated_rules(skill("totals", f"{wrong_reason}7"), split="train", world=0)


def test_a_rule_counts_for_the_place_that_is_named() -> None:
    suite = suite_of("ledger")
    ruled = next(site for site in suite.sites(split="train", world=0) if site.ruled)
    plain = next(site for site in suite.sites(split="train", world=0) if not site.ruled)
    assert suite.stated_rules(skill("totals", f"{ruled.drawn.instruction}."), split="train", world=0) == ()
    assert suite.stated_rules(
        skill("totals", f"For {plain.called}: {plain.drawn.instruction}."), split="train", world=0
    ) == ("",)


def test_other_literals_make_an_untrue_rule() -> None:
    suite = suite_of("ledger")
    others = 0
    for site in suite.sites(split="train", world=0):
        family, kind = site.family, site.drawn.type
        for n in range(20):
            other = draw_rule(kind, family.rules[kind], Draws(n), site.site_config)
            if site.ruled and other.instruction != site.drawn.instruction:
                assert suite.stated_rules(known_skill(site, other), split="train", world=0) == ("",)
                others += 1
    assert others > 10


def test_skills_that_say_nothing_tell_nothing() -> None:
    suite = suite_of("ledger")
    known = suite.known_skills(split="train", world=0)
    site = suite.sites(split="train", world=0)[0]
    silent = [*placebo(known).skills.values(), skill("plain", NOTHING_SPECIAL.format(place=site.called))]
    assert [suite.stated_rules(each, split="train", world=0) for each in silent] == [()] * len(silent)
